"""Limit how many requests with large answers run at once: each holds megabytes until its client has read it."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class ConcurrencyLimit:
    """At most `total` at once and `per_client` of one client (0: no limit per client). Others wait in turn."""

    def __init__(self, total: int, per_client: int) -> None:
        self._total, self._per_client = total, per_client
        self._taken: Counter[str] = Counter()
        self._waiting: deque[tuple[str, asyncio.Future[None]]] = deque()

    @asynccontextmanager
    async def turn(self, client: str) -> AsyncIterator[None]:
        """Wait for a turn, and release it afterwards."""
        await self._take(client)
        try:
            yield
        finally:
            self._give_back(client)

    async def _take(self, client: str) -> None:
        if self._is_free(client):
            self._taken[client] += 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((client, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # the turn was granted, but the request was cancelled
                self._give_back(client)
            raise

    def _give_back(self, client: str) -> None:
        self._taken[client] -= 1
        if not self._taken[client]:
            del self._taken[client]
        for _ in range(len(self._waiting)):
            name, turn = self._waiting.popleft()
            if turn.done():
                continue
            if self._is_free(name):
                self._taken[name] += 1
                turn.set_result(None)
            else:
                self._waiting.append((name, turn))

    def _is_free(self, client: str) -> bool:
        if self._per_client and self._taken[client] >= self._per_client:
            return False
        return self._taken.total() < self._total
