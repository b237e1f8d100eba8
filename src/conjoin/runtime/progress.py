"""How long work tells that it moves on, without knowing about terminals.

Long functions take `track`, a wrapper around the thing they iterate over, in the manner of tqdm:
`for batch in track(batches, "epoch 3", len(batches))`. The library's default is silence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol, TypeVar

from conjoin.errors import Stopped

T = TypeVar("T")


class Track(Protocol):
    def __call__(self, steps: Iterable[T], what: str, total: int | None) -> Iterator[T]:
        """Yield `steps` unchanged while showing `what` is being done and how much of `total` is left."""


def silent(steps: Iterable[T], what: str, total: int | None) -> Iterator[T]:  # noqa: ARG001
    """The default: nobody is watching."""
    return iter(steps)


def never() -> bool:
    """The default of `stop`: nobody asks."""
    return False


def stoppable(track: Track, stop: Callable[[], bool]) -> Track:
    """The same watcher, but between two steps, never within one, work ends with `Stopped` once `stop` says so."""

    def watched(steps: Iterable[T], what: str, total: int | None) -> Iterator[T]:
        for number, step in enumerate(track(steps, what, total), start=1):
            yield step
            if stop():
                raise Stopped(f"{what}, step {number}" + (f" of {total}" if total else ""))

    return watched
