"""Files that are damaged in every way: each damage is noticed with a clear error, or changes nothing that is read."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

from tests.stress.counts import Counts
from tests.stress.kinds import KINDS, Kind, kind_of, specimens

from conjoin.errors import ConjoinError


def corrupt_every_kind(place: Path, *, values: int, body: int, every: int = 1) -> Counts:
    """Every nth byte of each header to `values` other values, `body` random bytes anywhere, cuts and additions."""
    root = specimens(place)
    found: dict[str, Path] = {}
    for file in sorted(root.rglob("*")):
        kind = kind_of(str(file.relative_to(root)))
        if file.is_file() and isinstance(kind, Kind):
            found.setdefault(kind.name, file)
    missing = [kind.name for kind in KINDS if kind.name not in found]
    assert not missing, f"no specimen of {missing}"
    tried = noticed = 0
    for kind in KINDS:
        more, of_them = corrupted(kind, found[kind.name], values=values, body=body, every=every)
        tried, noticed = tried + more, noticed + of_them
    return {
        "kinds of files": len(KINDS),
        "damages": tried,
        "of them refused with a reason": noticed,
        "of them without effect on what is read": tried - noticed,
        "unnoticed and harmful": 0,
    }


def corrupted(kind: Kind, file: Path, *, values: int, body: int, every: int = 1) -> tuple[int, int]:
    """Counts of tried and of detected damages. An undetected damage must not change the content that is read."""
    whole, tried, noticed = file.read_bytes(), 0, 0
    before = kind.read(file)
    try:
        for damage in damages(whole, kind.header(whole)[::every], values=values, body=body):
            file.write_bytes(damage)
            tried += 1
            try:
                assert kind.read(file) == before, f"{kind.name}: a damage changed what is read"
            except ConjoinError:
                noticed += 1
    finally:
        file.write_bytes(whole)
    assert kind.neglects or noticed or kind.name == "map of the entities"
    return tried, noticed


def damages(whole: bytes, header: range, *, values: int, body: int) -> Iterator[bytes]:
    chance = random.Random(len(whole))
    for place in header:
        changes = range(1, 256) if values == 255 else chance.sample(range(1, 256), values)
        for change in changes:
            yield _flipped(whole, place, change)
    for _ in range(body):
        yield _flipped(whole, chance.randrange(len(whole)), chance.randrange(1, 256))
    for length in {0, 1, len(whole) // 2, len(whole) - 2}:
        yield whole[:length]
    yield whole + whole
    yield whole + bytes(1)


def _flipped(whole: bytes, place: int, change: int) -> bytes:
    flipped = bytearray(whole)
    flipped[place] ^= change
    return bytes(flipped)
