"""What fuzzing calls: a function of bytes, and where its mutation starts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from conjoin.errors import ConjoinError

Reading = Callable[[bytes, Path], None]


@dataclass(frozen=True)
class Target:
    """`read` takes bytes and a scratch folder; `examples` are where mutation starts."""

    name: str
    read: Reading
    examples: tuple[bytes, ...]


def tried(target: Target, data: bytes, scratch: Path) -> bool:
    """Read; was it refused with a reason?"""
    try:
        target.read(data, scratch)
    except ConjoinError:
        return True
    return False
