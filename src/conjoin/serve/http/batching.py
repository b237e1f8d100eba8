"""Micro-batches: questions that arrive together are scored together.

A question waits about a millisecond for company; while a batch is scored the next one gathers. Scoring runs in a
thread, so the loop stays free to take requests. Requests take turns: a request with one question does not wait for all
questions of a request with a thousand.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")
Observe = Callable[[int, float], None]
Pair = tuple[Item, "asyncio.Future[Result]"]


HEAVIEST = 16_384
"""Weight of a batch: the answers that its questions ask for. Bounds its memory and the wait of other requests."""


def _one(_: object) -> int:
    return 1


class Batcher(Generic[Item, Result]):
    """Gathers items for `answer`, which gets a list and returns as many results, in order.

    A batch has at most `most` items, and at most `heaviest` of their `weight` together.
    """

    def __init__(
        self,
        answer: Callable[[list[Item]], list[Result]],
        *,
        window: float = 0.001,
        most: int = 256,
        weight: Callable[[Item], int] = _one,
        heaviest: int = HEAVIEST,
        observe: Observe | None = None,
    ) -> None:
        self._answer, self._window, self._most = answer, window, most
        self._weight, self._heaviest, self._observe = weight, heaviest, observe
        self._waiting: deque[deque[Pair[Item, Result]]] = deque()
        self._worker: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="scoring")

    async def submit(self, items: Sequence[Item]) -> list[Result]:
        """The results of these items; they may share a batch with others' items."""
        loop = asyncio.get_running_loop()
        futures = [loop.create_future() for _ in items]
        if items:
            self._waiting.append(deque(zip(items, futures, strict=True)))
        if self._waiting and self._worker is None:
            self._worker = loop.create_task(self._work())
        try:
            return list(await asyncio.gather(*futures))
        finally:
            for future in futures:
                future.cancel()

    async def close(self) -> None:
        """Finish what waits, then stop the thread."""
        if self._worker is not None:
            await self._worker
        self._thread.shutdown()

    async def _work(self) -> None:
        try:
            if self._most > 1 and self._window > 0:
                await asyncio.sleep(self._window)
            while self._waiting:
                if batch := self._next():
                    await self._score(batch)
        finally:
            self._worker = None

    def _next(self) -> list[Pair[Item, Result]]:
        """One item of each request in turn, until the batch is full; items that nobody waits for are left out."""
        batch: list[Pair[Item, Result]] = []
        weight = 0
        while self._waiting and len(batch) < self._most:
            items = self._waiting.popleft()
            while items and items[0][1].done():
                items.popleft()
            if not items:
                continue
            weight += self._weight(items[0][0])
            if batch and weight > self._heaviest:
                self._waiting.appendleft(items)
                break
            batch.append(items.popleft())
            if items:
                self._waiting.append(items)
        return batch

    async def _score(self, batch: list[Pair[Item, Result]]) -> None:
        loop = asyncio.get_running_loop()
        began = time.perf_counter()
        try:
            results = await loop.run_in_executor(self._thread, self._answer, [item for item, _ in batch])
        except Exception as error:
            if len(batch) > 1:  # one bad item must not spoil the others
                for pair in batch:
                    await self._score([pair])
            elif not batch[0][1].done():
                batch[0][1].set_exception(error)
            return
        if self._observe is not None:
            self._observe(len(batch), time.perf_counter() - began)
        for (_, future), result in zip(batch, results, strict=True):
            if not future.done():
                future.set_result(result)
