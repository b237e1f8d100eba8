"""What fuzzing calls: a function of bytes, and where its mutation starts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from conjoin.errors import ConjoinError

Reading = Callable[[bytes, Path], None]


@dataclass(frozen=True)
class Target:
    """`read` takes bytes and a scratch folder; `given` are good examples, or what makes one when it is first wanted."""

    name: str
    read: Reading
    given: tuple[bytes, ...] | Callable[[], bytes]

    @cached_property
    def examples(self) -> tuple[bytes, ...]:
        """Where mutation starts."""
        return (self.given(),) if callable(self.given) else self.given


def tried(target: Target, data: bytes, scratch: Path) -> bool:
    """Read; was it refused with a reason?"""
    try:
        target.read(data, scratch)
    except ConjoinError:
        return True
    return False
