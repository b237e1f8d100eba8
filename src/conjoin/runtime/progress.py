"""Progress of long work, independent of terminals.

Long functions take `track`, which wraps the iterable of their loop, like tqdm:
`for batch in track(batches, "epoch 3", len(batches))`. By default the library shows nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol, TypeVar

from conjoin.errors import Stopped

T = TypeVar("T")


class Track(Protocol):
    def __call__(self, steps: Iterable[T], what: str, total: int | None) -> Iterator[T]:
        """Yield `steps` unchanged and show their progress under the name `what`; `total` is their number, if known."""


def silent(steps: Iterable[T], what: str, total: int | None) -> Iterator[T]:  # noqa: ARG001
    """The default of `track`: show nothing."""
    return iter(steps)


def never() -> bool:
    """The default of `stop`: never stop."""
    return False


def stoppable(track: Track, stop: Callable[[], bool]) -> Track:
    """The same `track`, but it raises `Stopped` between two steps when `stop` returns True."""

    def stopping(steps: Iterable[T], what: str, total: int | None) -> Iterator[T]:
        for number, step in enumerate(track(steps, what, total), start=1):
            yield step
            if stop():
                raise Stopped(f"{what}, step {number}" + (f" of {total}" if total else ""))

    return stopping
