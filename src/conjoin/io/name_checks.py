"""Notes about odd names and columns: missing values, spellings, numbers, swapped columns."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from unicodedata import is_normalized, normalize

import numpy as np
import numpy.typing as npt

from conjoin.errors import quoted
from conjoin.graph.column_roles import SAY_WHICH
from conjoin.graph.graph import Ids
from conjoin.graph.mmap_names import MmapNames
from conjoin.io.formats import AnyPath, format_of
from conjoin.io.read_options import ReadOptions
from conjoin.io.read_report import ENOUGH

BLANKS = (
    *("?", "-", "--", "NaN", "nan", "NAN", "NaT", "<NA>", "N/A", "n/a", "#N/A", "None", "NULL", "null", "nil", "\\N"),
    *("unknown", "Unknown", "UNKNOWN", "undefined", "missing"),
)
AT_ONCE = 1 << 14
DATE = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d.*)?", re.ASCII)
VALUES_AT_ONCE = 4096
"""Facts that are looked at before relations with other tails are left out of the rest, at first; then twice as many."""
LOOKED_AT = 1 << 20
"""Facts of such relations that are looked at in all."""
NAMED = 5
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
TABLES = ("TSV", "CSV", "Parquet")
MORE = 3
OFTEN = 10
"""So many times as many relations as heads or as tails, each in fewer facts than that, are a sign of columns in another
order."""


class OddSpelling(NamedTuple):
    """An odd way to write names: which are written so, how they usually are, and the note on so many, some of these
    and those of them that occur as usual too."""

    fits: Callable[[str], bool]
    usual: Callable[[str], str]
    note: Callable[[str, int, Sequence[str], Sequence[str]], str]


class OddNames:
    """Names written in odd ways: how many, and of each way `most` to be looked up as usually written, or all."""

    def __init__(self, most: int | None = None) -> None:
        self._most = most
        self._found: list[tuple[int, list[str]]] = [(0, []) for _ in WAYS]

    def look_at(self, names: Sequence[str]) -> None:
        for i, way in enumerate(WAYS):
            such = [name for name in names if way.fits(name)]
            count, some = self._found[i]
            self._found[i] = count + len(such), [*some, *such][: self._most]

    def notes(self, kind: str, known: Callable[[list[str]], Container[str]]) -> list[str]:
        """What to say about names of a kind; `known` gives those of some names that occur."""
        said = []
        for way, (count, some) in zip(WAYS, self._found, strict=True):
            others = known([way.usual(name) for name in some]) if some else ()
            twins = [name for name in some if way.usual(name) in others]
            said.append(way.note(kind, count, some, twins))
        return [note for note in said if note]


def _padded(kind: str, count: int, some: Sequence[str], twins: Sequence[str]) -> str:
    if not some:
        return ""
    also = f"; {_least(count, some)}{len(twins):,} of them occur without it too, as others" * bool(twins)
    return (
        f"{count:,} {kind} names begin or end with white space, such as {quoted(some[0])}{also}. "
        "Names are taken as they are: if the space means nothing, remove it from the file"
    )


def _uncomposed(kind: str, count: int, some: Sequence[str], twins: Sequence[str]) -> str:
    if not twins:
        return ""
    return (
        f"{_least(count, some)}{len(twins):,} {kind} names occur twice, their accents written in two ways, such as "
        f"{quoted(twins[0])}: they look alike and are others. Bring the file into one form of Unicode, such as NFC"
    )


def _decimal(kind: str, count: int, some: Sequence[str], twins: Sequence[str]) -> str:
    if not twins:
        return ""
    return (
        f"{_least(count, some)}{len(twins):,} {kind} names occur twice, as whole numbers and with a decimal, such as "
        f"{quoted(twins[0])}: they are others. Ids get decimals in a column with blanks: if these are ids, write "
        "them without"
    )


def _least(count: int, some: Sequence[str]) -> str:
    return "at least " if len(some) < count else ""


WAYS = (
    OddSpelling(lambda name: name != name.strip(), str.strip, _padded),
    OddSpelling(
        lambda name: not (name.isascii() or is_normalized("NFC", name)),
        lambda name: normalize("NFC", name),
        _uncomposed,
    ),
    OddSpelling(
        lambda name: name.endswith(".0") and name[:-2].removeprefix("-").isdecimal(), lambda name: name[:-2], _decimal
    ),
)


def missing_value_notes(rows: Iterable[Ids], known: Mapping[str, int]) -> tuple[str, ...]:
    """The note on such names: ids (head, relation, tail) come in pieces, `known` has those of entities."""
    ids = {known[name]: name for name in BLANKS if name in known}
    facts, found = 0, set[int]()
    for part in rows if ids else ():
        ends = part[:, ::2]
        such = np.isin(ends, [*ids])
        facts += int(such.any(axis=1).sum())
        found.update(np.unique(ends[such]).tolist())
    if not facts:
        return ()
    names = " or ".join(name for i, name in ids.items() if i in found)
    return (
        f"a head or a tail of {facts:,} fact{'s' * (facts > 1)} is called {names}, an entity like any "
        f"other here: if that means a missing value, leave {'it' if facts == 1 else 'them'} out of the file",
    )


def text_of(names: Sequence[str], ids: Ids) -> Iterator[Any]:
    """The names of these ids in Arrow arrays, in order."""
    import pyarrow as pa

    whole: Any = None
    if isinstance(names, MmapNames):
        parts = (pa.py_buffer(names.starts), pa.py_buffer(names.content))
        whole = pa.LargeStringArray.from_buffers(len(names), *parts)
    for start in range(0, len(ids), AT_ONCE):
        piece = ids[start : start + AT_ONCE]
        yield pa.array([names[i] for i in piece.tolist()], pa.large_string()) if whole is None else whole.take(piece)


def fits(text: Any, *patterns: re.Pattern[str]) -> npt.NDArray[np.bool_]:
    """Which names of an Arrow array (n,) one of the patterns matches from end to end; case and digits are ASCII."""
    from pyarrow import compute

    any_of = "|".join(f"(?:{pattern.pattern})" for pattern in patterns)
    return np.asarray(compute.match_substring_regex(text, rf"\A(?:{any_of})\z").to_numpy(zero_copy_only=False))


def value_notes(
    files: Iterable[AnyPath], rows: Iterable[Ids], *, entities: Sequence[str], relations: Sequence[str]
) -> tuple[str, ...]:
    """The note on relations of tables whose tails are values: ids (head, relation, tail) come in pieces.

    A relation has none where a head is a number as well, or where such a tail is the head of another fact: ids may be
    numbers.
    """
    if not all(format_of(file) in TABLES for file in files):
        return ()
    possible, heads = np.ones(len(relations), dtype=bool), np.zeros(len(entities), dtype=bool)
    seen: list[Ids] = []
    size, left = VALUES_AT_ONCE, LOOKED_AT
    for part in rows:
        heads[part[:, 0]] = True
        rest = part[possible[part[:, 1]]]
        while left > 0 and len(rest):
            piece = rest[: min(size, left)]
            possible[piece[_of_value(entities, piece[:, 0]) | ~_of_value(entities, piece[:, 2]), 1]] = False
            seen.append(piece)
            rest = rest[len(piece) :]
            rest = rest[possible[rest[:, 1]]]
            size, left = 2 * size, left - len(piece)
        if not possible.any():
            return ()
    if not seen:
        return ()
    facts = np.concatenate(seen)
    possible[facts[heads[facts[:, 2]], 1]] = False
    possible &= np.bincount(facts[:, 1], minlength=len(relations)) >= ENOUGH
    found = np.flatnonzero(possible).tolist()
    if not found:
        return ()
    such = entities[int(facts[possible[facts[:, 1]], 2].min())]
    named = ", ".join(relations[r] for r in found[:NAMED]) + (", …" if len(found) > NAMED else "")
    return (
        f"the tails of {len(found):,} relation{'s' * (len(found) > 1)} ({named}) are numbers or dates, such as "
        f"{quoted(such)[1:-1]}. Each is an entity here, and a candidate for every answer: if they are values, "
        "leave these facts out of the file",
    )


def _of_value(entities: Sequence[str], ids: Ids) -> npt.NDArray[np.bool_]:
    """Which of the ids (n,) are called like a number or a date."""
    distinct, place = np.unique(ids, return_inverse=True)
    return np.concatenate([fits(text, NUMBER, DATE) for text in text_of(entities, distinct)])[place]


def column_order_notes(
    options: ReadOptions,
    files: Iterable[AnyPath],
    rows: Iterable[Ids],
    *,
    entities: Sequence[str],
    relations: Sequence[str],
) -> tuple[str, ...]:
    """Why ids (head, relation, tail) out of tables, given in pieces, look as if the columns were others.

    Where heads are tails too, neither can be a column of relations.
    """
    if options.columns is not None or not all(format_of(file) in TABLES for file in files):
        return ()
    ends, facts = np.zeros((2, len(entities)), dtype=bool), 0
    weights = not any(map(NUMBER.fullmatch, relations))
    for part in rows:
        weights = weights and all(fits(text, NUMBER).all() for text in text_of(entities, np.unique(part[:, 2])))
        if not weights and len(relations) <= ENOUGH:
            return ()
        ends[0][part[:, 0]] = ends[1][part[:, 2]] = True
        facts += len(part)
    if weights and (said := _linked(relations, text_of(entities, np.flatnonzero(ends[0])))):
        return (said,)
    heads, tails = ends.sum(axis=1).tolist()
    n_entities, n_relations = len(entities), len(relations)
    same_ends = 2 * int((ends[0] & ends[1]).sum()) >= min(heads, tails)
    if n_relations <= ENOUGH or same_ends:
        return ()
    few_ends = n_relations > MORE * min(heads, tails) and n_relations > facts // OFTEN
    if not few_ends and n_relations <= min(n_entities, facts // 2):
        return ()
    return (
        f"{n_relations:,} relations in {facts:,} facts with {heads:,} heads and {tails:,} tails: do the columns "
        f"stand in another order? If so, {SAY_WHICH}",
    )


def _linked(relations: Sequence[str], heads: Iterable[Any]) -> str:
    """The doubt about tails that are all numbers, where relations are heads too: links, each with its weight."""
    import pyarrow as pa
    from pyarrow import compute

    known = pa.array(list(relations), pa.large_string())
    shared = sum(compute.is_in(text, value_set=known).true_count for text in heads)
    if not shared or 2 * shared < len(known):
        return ""
    return (
        f"every tail is a number, and {shared:,} of the {len(relations):,} relations are heads too: are these source, "
        "target and weight? A fact has a relation between its two ends, such as Ann,knows,Bob: put that in place of "
        f"the weight, and {SAY_WHICH}"
    )
