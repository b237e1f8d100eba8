"""Micro-batches: questions that arrive together are scored together.

The first question of a batch waits about a millisecond for others; while one batch is scored the next one gathers.
Scoring runs in a thread, so the event loop can accept requests. Requests take turns: a request with one question does
not wait for all questions of a request with a thousand.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar, cast

Item = TypeVar("Item")
Result = TypeVar("Result")
Observe = Callable[[int, float], None]
HEAVIEST = 16_384
"""Largest weight of a batch: the answers that its questions request. Bounds its memory and the wait of others."""


def _one(_: object) -> int:
    return 1


class _Request(Generic[Item, Result]):
    """The items of one submission. They share one future, because a thousand futures would slow the event loop."""

    def __init__(self, items: Sequence[Item], done: asyncio.Future[list[Result]]) -> None:
        self.items, self.done = items, done
        self.results: list[Result | None] = [None] * len(items)
        self.next = 0
        self.left = len(items)

    def put(self, index: int, result: Result) -> None:
        self.results[index] = result
        self.left -= 1
        if not self.left and not self.done.done():
            self.done.set_result(cast("list[Result]", self.results))

    def fail(self, error: Exception) -> None:
        if not self.done.done():
            self.done.set_exception(error)


Entry = tuple[_Request[Item, Result], int]
"""A request and the index of one of its items."""


class Batcher(Generic[Item, Result]):
    """Gathers items for `answer`, which takes a list of items and returns their results in the same order.

    A batch has at most `most` items, whose `weight` adds up to at most `heaviest`.
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
        self._waiting: deque[_Request[Item, Result]] = deque()
        self._worker: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="scoring")

    async def submit(self, items: Sequence[Item]) -> list[Result]:
        """The results of these items, in order. They may share a batch with items of other submissions."""
        if not items:
            return []
        loop = asyncio.get_running_loop()
        done: asyncio.Future[list[Result]] = loop.create_future()
        self._waiting.append(_Request(items, done))
        if self._worker is None:
            self._worker = loop.create_task(self._work())
        return await done

    async def close(self) -> None:
        """Finish all waiting items, then stop the thread."""
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

    def _next(self) -> list[Entry[Item, Result]]:
        """One item of each request in turn until the batch is full, without cancelled requests."""
        batch: list[Entry[Item, Result]] = []
        weight = 0
        while self._waiting and len(batch) < self._most:
            request = self._waiting.popleft()
            if request.done.done():
                continue
            weight += self._weight(request.items[request.next])
            if batch and weight > self._heaviest:
                self._waiting.appendleft(request)
                break
            batch.append((request, request.next))
            request.next += 1
            if request.next < len(request.items):
                self._waiting.append(request)
        return batch

    async def _score(self, batch: list[Entry[Item, Result]]) -> None:
        loop = asyncio.get_running_loop()
        began = time.perf_counter()
        items = [request.items[index] for request, index in batch]
        try:
            results = await loop.run_in_executor(self._thread, self._answer, items)
        except Exception as error:
            if len(batch) > 1:  # score them one by one: one bad item must not fail the others
                for one in batch:
                    if not one[0].done.done():
                        await self._score([one])
            else:
                batch[0][0].fail(error)
            return
        if self._observe is not None:
            self._observe(len(batch), time.perf_counter() - began)
        for (request, index), result in zip(batch, results, strict=True):
            request.put(index, result)
