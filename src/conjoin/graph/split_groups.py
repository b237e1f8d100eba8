"""Decide which triples leave train, without holding all of them in memory.

All triples between the same two entities, in either direction and by any relation, form a group and move together.
Groups are tried in the order of a 64-bit key: blake2b of each entity's name, keyed with the seed, and the two digests
of a group mixed by integer arithmetic. So the result depends on the set of named triples and the seed only. The order
of the lines and the version of a random generator do not matter.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from conjoin.errors import UsageError
from conjoin.graph.filter import Ids
from conjoin.graph.graph import Split

Keys = npt.NDArray[np.uint64]
Chunks = Callable[[], Iterator[Ids]]
BAND = 3_000_000
"""Triples of one band, about. Each takes a few hundred bytes while the band is sorted."""
PIECE = 50_000
"""Triples that are converted to Python numbers at a time."""
LARGEST = 2**64 - 1


@dataclass
class HeldOutPart:
    """One held-out split while it fills: `rows` numbers its triples."""

    name: Split
    wanted: int
    rows: array[int] = field(default_factory=lambda: array("q"))

    @property
    def missing(self) -> int:
        return self.wanted - len(self.rows)


class Groups(NamedTuple):
    """Some groups in the order of their keys: group g is starts[g]:starts[g + 1] of the other lists."""

    starts: list[int]
    rows: list[int]
    heads: list[int]
    relations: list[int]
    tails: list[int]


def parts_of(n_triples: int, *, valid: float | int, test: float | int) -> list[HeldOutPart]:
    """Empty parts for test and valid; a size is a share (float) or a number (int) of the triples."""
    sizes: dict[Split, float | int] = {"test": test, "valid": valid}
    numbers = {name: _number(size, name, n_triples) for name, size in sizes.items()}
    if any(numbers.values()) and sum(numbers.values()) >= n_triples:
        raise UsageError(
            f"valid = {valid} and test = {test} would take all of the {n_triples} triples. Choose smaller sizes."
        )
    return [HeldOutPart(name, int(number + 0.5)) for name, number in numbers.items()]


def _number(size: float | int, name: str, n_triples: int) -> float:
    """The number of triples of a size, before rounding."""
    if isinstance(size, int) and size >= 0:
        return min(size, n_triples)
    if isinstance(size, float) and 0 <= size < 1:
        return size * n_triples
    raise UsageError(
        f"{name} must be a share from 0 to below 1 (float) or a number of triples from 0 (int), got {size!r}."
    )


def digest_key(seed: int) -> bytes:
    """The blake2b key of a seed."""
    return hashlib.blake2b(str(seed).encode(), digest_size=32).digest()


def digests(names: Iterable[str], seed: int) -> Keys:
    """Eight bytes of blake2b of every name, keyed with the seed."""
    key = digest_key(seed)
    digest = bytearray()
    for name in names:
        digest += hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8, key=key).digest()
    return np.frombuffer(digest, dtype="<u8").astype(np.uint64, copy=False)


def bands(chunks: Chunks, digest: Keys, *, n_triples: int) -> Iterator[Groups]:
    """All groups in order of their keys, band by band, so that only one band of keys is in memory.

    `chunks` iterates over the distinct triples (n, 3), in the same order at every call. This order numbers the rows.
    """
    n_bands = max(1, -(-n_triples // BAND))
    edges = [LARGEST * i // n_bands for i in range(n_bands + 1)]
    for i in range(n_bands):
        lowest, highest = np.uint64(edges[i] + (i > 0)), np.uint64(edges[i + 1])
        rows, keys, triples = [np.empty(0, np.int64)], [np.empty(0, np.uint64)], [np.empty((0, 3), np.int64)]
        first = 0
        for chunk in chunks():
            key = _keys(chunk, digest)
            inside = np.flatnonzero((key >= lowest) & (key <= highest))
            rows.append(inside + first)
            keys.append(key[inside])
            triples.append(chunk[inside])
            first += len(chunk)
        yield from _groups(np.concatenate(rows), np.concatenate(keys), np.concatenate(triples), len(digest))


def _groups(rows: Ids, keys: Keys, triples: Ids, n_entities: int) -> Iterator[Groups]:
    ends = np.sort(triples[:, [0, 2]], axis=1)
    pair = ends[:, 0] * n_entities + ends[:, 1]
    order = np.lexsort((rows, pair, keys))
    rows, pair, triples = rows[order], pair[order], triples[order]
    begins = np.flatnonzero(np.concatenate([[True], pair[1:] != pair[:-1]])) if len(pair) else np.empty(0, np.int64)
    borders = np.append(begins, len(pair))
    cut = 0
    while cut < len(begins):
        last = max(cut + 1, int(np.searchsorted(borders, borders[cut] + PIECE, side="right")) - 1)
        start, stop = int(borders[cut]), int(borders[last])
        heads, relations, tails = triples[start:stop].T.tolist()
        yield Groups((borders[cut : last + 1] - start).tolist(), rows[start:stop].tolist(), heads, relations, tails)
        cut = last


def _keys(triples: Ids, digest: Keys) -> Keys:
    first, second = digest[triples[:, 0]], digest[triples[:, 2]]
    return _mix(_mix(np.minimum(first, second)) + np.maximum(first, second))


def _mix(keys: Keys) -> Keys:
    """The finaliser of splitmix64: every bit of the result depends on every bit of the key."""
    keys = (keys ^ (keys >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    keys = (keys ^ (keys >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return keys ^ (keys >> np.uint64(31))


class _Train:
    """The number of remaining training triples of every entity and relation."""

    def __init__(self, entity_left: Ids, relation_left: Ids) -> None:
        self.entities, self.relations = (
            array("q", left.astype(np.int64).tobytes()) for left in (entity_left, relation_left)
        )

    def leave(self, groups: Groups, g: int) -> bool:
        """Remove a group from train. False, without a change, if an entity or relation would then be missing there."""
        start, stop = groups.starts[g], groups.starts[g + 1]
        entities, head, tail = self.entities, groups.heads[start], groups.tails[start]
        if entities[head] <= stop - start or entities[tail] <= stop - start:
            return False
        if stop - start == 1 and head != tail and self.relations[groups.relations[start]] > 1:
            entities[head] -= 1
            entities[tail] -= 1
            self.relations[groups.relations[start]] -= 1
            return True
        span = range(start, stop)
        self._shift(groups, span, -1)
        if all(
            entities[groups.heads[i]] and entities[groups.tails[i]] and self.relations[groups.relations[i]]
            for i in span
        ):
            return True
        self._shift(groups, span, +1)
        return False

    def back(self, groups: Groups, g: int) -> None:
        """Undo a `leave`."""
        self._shift(groups, range(groups.starts[g], groups.starts[g + 1]), +1)

    def _shift(self, groups: Groups, span: range, step: int) -> None:
        for i in span:
            self.entities[groups.heads[i]] += step
            self.entities[groups.tails[i]] += step
            self.relations[groups.relations[i]] += step


def hold_out(
    parts: list[HeldOutPart], ordered: Callable[[], Iterator[Groups]], *, entity_left: Ids, relation_left: Ids
) -> None:
    """Fill the parts with groups, in order, while every entity and relation keeps a triple in train."""
    train = _Train(entity_left, relation_left)
    _fill(parts, ordered(), train)
    # One pass is enough: train only shrinks, so a group that could not leave before cannot leave now. A part is empty
    # only if every group is larger than the part: then the smallest group is better than an empty split.
    for part in parts:
        if part.wanted and not part.rows:
            part.rows.extend(_smallest(parts, ordered(), train))


def _fill(parts: list[HeldOutPart], ordered: Iterator[Groups], train: _Train) -> None:
    missing = [part.missing for part in parts]
    numbers = range(len(parts))
    if not any(missing):
        return
    for groups in ordered:
        for g, (start, stop) in enumerate(pairwise(groups.starts)):
            with_room = [i for i in numbers if missing[i] >= stop - start]
            if with_room and train.leave(groups, g):
                chosen = max(with_room, key=lambda i: missing[i] / parts[i].wanted)
                parts[chosen].rows.extend(groups.rows[start:stop])
                missing[chosen] -= stop - start
            elif not any(missing):
                return


def _smallest(parts: list[HeldOutPart], ordered: Iterator[Groups], train: _Train) -> list[int]:
    """Remove the first of the smallest groups that can leave train, and return its rows; empty if none can."""
    taken = {row for part in parts for row in part.rows}
    best: tuple[Groups, int] | None = None
    size = LARGEST
    for groups in ordered:
        for g, (start, stop) in enumerate(pairwise(groups.starts)):
            if stop - start < size and groups.rows[start] not in taken and train.leave(groups, g):
                train.back(groups, g)
                best, size = (groups, g), stop - start
    if best is None:
        return []
    groups, g = best
    train.leave(groups, g)
    return groups.rows[groups.starts[g] : groups.starts[g + 1]]


def split_notes(parts: list[HeldOutPart], *, seed: int, train: int, repeated: int) -> list[str]:
    """The notes on a split for the user."""
    filled = {part.name: len(part.rows) for part in parts}
    notes = [
        f"split by conjoin with seed {seed}: {train} train, {filled['valid']} valid, {filled['test']} test "
        "triples; all triples between the same two entities are in one split"
    ]
    if repeated:
        notes.append(repeated_note(repeated))
    return notes + [_size_note(part) for part in reversed(parts) if part.missing]


def repeated_note(repeated: int) -> str:
    """The note on triples that occurred more than once."""
    return f"{repeated} repeated triples were dropped"


def _size_note(part: HeldOutPart) -> str:
    if part.missing < 0:
        reason = "no smaller group of triples between the same two entities could leave train"
    else:
        reason = (
            "every other triple is the last one of an entity or relation in train, or belongs to a group of triples "
            "between the same two entities that is too large for the rest"
        )
    return f"{part.name} has {len(part.rows)} triples, {part.wanted} were requested: {reason}"
