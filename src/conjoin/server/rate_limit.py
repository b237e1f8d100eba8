"""A token bucket per client."""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable

CLIENTS = 10_000
"""Clients remembered; the one that was quiet for longest is forgotten first."""


class RateLimiter:
    """Each client has a bucket that holds `burst` requests and fills by `rate` a second."""

    def __init__(self, rate: float, burst: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._burst, self._clock = rate, burst, clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, client: str) -> int:
        """0 when the client may go on, else after how many seconds it may try again."""
        now = self._clock()
        left, since = self._buckets.pop(client, (self._burst, now))
        left = min(self._burst, left + (now - since) * self._rate)
        allowed = left >= 1
        self._buckets[client] = (left - 1 if allowed else left, now)
        if len(self._buckets) > CLIENTS:
            self._buckets.popitem(last=False)
        return 0 if allowed else math.ceil((1 - left) / self._rate)
