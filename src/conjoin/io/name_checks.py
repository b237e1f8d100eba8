"""Notes about suspicious names and columns: missing values, spellings, numbers, swapped columns."""

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
"""Facts of the first piece that is examined; each later piece is twice as long. After a piece, relations with other
tails are excluded."""
LOOKED_AT = 1 << 20
"""Facts that are examined in all."""
NAMED = 5
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
TABLES = ("TSV", "CSV", "Parquet")
MORE = 3
OFTEN = 10
"""A relation column in which each value occurs in fewer facts than this, on average, may be a column of entities."""


class OddSpelling(NamedTuple):
    """A suspicious spelling: `fits` recognises it, `usual` gives the usual spelling, and `note` writes the note.

    The arguments of `note` are the kind of name, the count, some of the names, and the names whose usual spelling
    occurs too.
    """

    fits: Callable[[str], bool]
    usual: Callable[[str], str]
    note: Callable[[str, int, Sequence[str], Sequence[str]], str]


class OddNames:
    """Suspicious names: the count of each spelling, and up to `most` names of each (None: all)."""

    def __init__(self, most: int | None = None) -> None:
        self._most = most
        self._names: list[tuple[int, list[str]]] = [(0, []) for _ in SPELLINGS]

    def look_at(self, names: Sequence[str]) -> None:
        for i, spelling in enumerate(SPELLINGS):
            odd = [name for name in names if spelling.fits(name)]
            count, some = self._names[i]
            self._names[i] = count + len(odd), [*some, *odd][: self._most]

    def notes(self, kind: str, existing: Callable[[list[str]], Container[str]]) -> list[str]:
        """The notes on names of a kind; `existing` filters its arguments to names of the graph."""
        notes = []
        for spelling, (count, some) in zip(SPELLINGS, self._names, strict=True):
            others = existing([spelling.usual(name) for name in some]) if some else ()
            twins = [name for name in some if spelling.usual(name) in others]
            notes.append(spelling.note(kind, count, some, twins))
        return [note for note in notes if note]


def _padded(kind: str, count: int, some: Sequence[str], twins: Sequence[str]) -> str:
    if not some:
        return ""
    also = f"; {_least(count, some)}{len(twins):,} of them also occur without it, as a different {kind}" * bool(twins)
    return (
        f"{count:,} {kind} names begin or end with white space, for example {quoted(some[0])}{also}. "
        "Conjoin does not change names: if the space has no meaning, remove it from the file"
    )


def _uncomposed(kind: str, count: int, some: Sequence[str], twins: Sequence[str]) -> str:
    if not twins:
        return ""
    return (
        f"{_least(count, some)}{len(twins):,} {kind} names occur in two Unicode forms that look alike, for example "
        f"{quoted(twins[0])}. They are different names: convert the file to one form, such as NFC"
    )


def _decimal(kind: str, count: int, some: Sequence[str], twins: Sequence[str]) -> str:
    if not twins:
        return ""
    return (
        f"{_least(count, some)}{len(twins):,} {kind} names occur both with and without a decimal, for example "
        f"{quoted(twins[0])}. They are different names. Some programs add a decimal to ids in a column with gaps: "
        "if these are ids, write them without it"
    )


def _least(count: int, some: Sequence[str]) -> str:
    return "at least " if len(some) < count else ""


SPELLINGS = (
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
    """The note on entities called like a missing value.

    `rows` are pieces (n, 3) of ids (head, relation, tail); `known` maps the names of entities to ids.
    """
    ids = {known[name]: name for name in BLANKS if name in known}
    facts, used = 0, set[int]()
    for part in rows if ids else ():
        ends = part[:, ::2]
        missing = np.isin(ends, [*ids])
        facts += int(missing.any(axis=1).sum())
        used.update(np.unique(ends[missing]).tolist())
    if not facts:
        return ()
    names = " or ".join(name for i, name in ids.items() if i in used)
    which = "1 fact has a head or tail" if facts == 1 else f"{facts:,} facts have a head or tail"
    return (
        f"{which} named {names}. Conjoin treats it as an entity: "
        f"if it means a missing value, remove {'this fact' if facts == 1 else 'these facts'} from the file",
    )


def text_of(names: Sequence[str], ids: Ids) -> Iterator[Any]:
    """The names of ids (n,) as Arrow arrays, in order and in pieces."""
    import pyarrow as pa

    whole: Any = None
    if isinstance(names, MmapNames):
        parts = (pa.py_buffer(names.starts), pa.py_buffer(names.content))
        whole = pa.LargeStringArray.from_buffers(len(names), *parts)
    for start in range(0, len(ids), AT_ONCE):
        piece = ids[start : start + AT_ONCE]
        yield pa.array([names[i] for i in piece.tolist()], pa.large_string()) if whole is None else whole.take(piece)


def fits(text: Any, *patterns: re.Pattern[str]) -> npt.NDArray[np.bool_]:
    """Which names of an Arrow array (n,) match one of the patterns completely, as booleans (n,); digits are ASCII."""
    from pyarrow import compute

    any_of = "|".join(f"(?:{pattern.pattern})" for pattern in patterns)
    return np.asarray(compute.match_substring_regex(text, rf"\A(?:{any_of})\z").to_numpy(zero_copy_only=False))


def value_notes(
    files: Iterable[AnyPath], rows: Iterable[Ids], *, entities: Sequence[str], relations: Sequence[str]
) -> tuple[str, ...]:
    """The note on relations of tables whose tails are numbers or dates.

    `rows` are pieces (n, 3) of ids (head, relation, tail). Ids of entities may be numbers too, so a relation is left
    out if one of its heads is a number, or if one of its tails is the head of another fact.
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
    of_values = np.flatnonzero(possible).tolist()
    if not of_values:
        return ()
    example = entities[int(facts[possible[facts[:, 1]], 2].min())]
    named = ", ".join(relations[r] for r in of_values[:NAMED]) + (", …" if len(of_values) > NAMED else "")
    return (
        f"all tails of {len(of_values):,} relation{'s' * (len(of_values) > 1)} ({named}) are numbers or dates, for "
        f"example {quoted(example)[1:-1]}. Conjoin treats each as an entity and as a candidate for every answer: "
        "if they are values, remove these facts from the file",
    )


def _of_value(entities: Sequence[str], ids: Ids) -> npt.NDArray[np.bool_]:
    """Which of the entities `ids` (n,) have a number or a date as their name, as booleans (n,)."""
    distinct, index = np.unique(ids, return_inverse=True)
    return np.concatenate([fits(text, NUMBER, DATE) for text in text_of(entities, distinct)])[index]


def column_order_notes(
    options: ReadOptions,
    files: Iterable[AnyPath],
    rows: Iterable[Ids],
    *,
    entities: Sequence[str],
    relations: Sequence[str],
) -> tuple[str, ...]:
    """The note on tables whose columns are probably in another order.

    `rows` are pieces (n, 3) of ids (head, relation, tail). If heads are tails too, neither column holds relations.
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
    if weights and (note := _weight_note(relations, text_of(entities, np.flatnonzero(ends[0])))):
        return (note,)
    heads, tails = ends.sum(axis=1).tolist()
    n_entities, n_relations = len(entities), len(relations)
    same_ends = 2 * int((ends[0] & ends[1]).sum()) >= min(heads, tails)
    if n_relations <= ENOUGH or same_ends:
        return ()
    few_ends = n_relations > MORE * min(heads, tails) and n_relations > facts // OFTEN
    if not few_ends and n_relations <= min(n_entities, facts // 2):
        return ()
    return (
        f"{n_relations:,} relations in {facts:,} facts with {heads:,} heads and {tails:,} tails is unusual: the "
        f"columns may be in another order. If so, {SAY_WHICH}",
    )


def _weight_note(relations: Sequence[str], heads: Iterable[Any]) -> str:
    """The note on links with weights: all tails are numbers, and at least half of the relations are heads too."""
    import pyarrow as pa
    from pyarrow import compute

    known = pa.array(list(relations), pa.large_string())
    shared = sum(compute.is_in(text, value_set=known).true_count for text in heads)
    if not shared or 2 * shared < len(known):
        return ""
    return (
        f"every tail is a number, and {shared:,} of the {len(relations):,} relations are also heads: the columns look "
        "like source, target and weight. A fact needs a relation between its two ends, such as Ann,knows,Bob: replace "
        f"the weight by a relation, and {SAY_WHICH}"
    )
