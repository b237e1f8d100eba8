"""Which columns of a table are head, relation and tail: what their names say, and what is done where they say nothing.

The two ends have names that come in pairs (subject and object, from and to), so that a further column that is called
source or type does no harm beside them. Of three columns the third follows from two. Where no name says anything, the
columns are taken in their order, which is said; where a name says otherwise, that order is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from conjoin.errors import GraphError, did_you_mean
from conjoin.graph.files.report import ENOUGH, ReadOptions, shortened
from conjoin.graph.files.source import AnyPath, format_of
from conjoin.graph.files.texts import fits, text_of
from conjoin.graph.graph import PLACES, Ids

ENDS = (
    ("head", "tail"),
    ("subject", "object"),
    ("subj", "obj"),
    ("source", "target"),
    ("src", "dst"),
    ("from", "to"),
    ("start", "end"),
    ("node1", "node2"),
    ("h", "t"),
    ("s", "o"),
)
RELATIONS = (
    ("relation", "rel", "predicate", "pred", "property", "relationship"),
    ("edge", "type", "label", "verb", "link"),
    ("r", "p"),
)
"""Words for the relation, the plainer ones first: of `predicate` and `label` the first is meant."""
ROLES = dict([pair for h, t in ENDS for pair in ((h, 0), (t, 2))] + [(r, 1) for words in RELATIONS for r in words])
BESIDE = {"weight", "score", "confidence", "probability", "count", "timestamp", "time", "date", "year"}
"""What a column holds that is never one of the three."""
ENDING = re.compile(r"[ _-]?(id|name|uri|iri)$")
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
CHOOSE = "choose three with ReadOptions(columns=(...)) (--columns subject,verb,object)"
SAY_WHICH = "say which are head, relation and tail with ReadOptions(columns=(...)) (--columns 0,2,1)"
DELIMITERS = ",;\t|"

TABLES = ("TSV", "CSV", "Parquet")
MORE = 3
OFTEN = 10
"""So many times as many relations as heads or as tails, each in fewer facts than that, are a sign of columns in another
order."""

Positions = tuple[int, int, int]
Found = tuple[int | None, int | None, int | None]


@dataclass(frozen=True)
class Chosen:
    """Where head, relation and tail stand, and what a person should know about the choice, if anything."""

    positions: Positions
    note: str = ""


def is_header(cells: Sequence[str]) -> bool:
    """Does a line name all three columns, in words of which no two are single letters?"""
    found = _named(cells)
    return None not in found and sum(len(cells[i].strip()) == 1 for i in found if i is not None) < 2


def choose(where: str, names: Sequence[str], options: ReadOptions) -> Chosen:
    """Head, relation and tail among columns with these names."""
    if options.columns is not None:
        head, relation, tail = (_position(where, names, column) for column in options.columns)
        return Chosen((head, relation, tail))
    found = _named(names)
    if len(names) == 3 and found.count(None) == 1:
        found = _completed(names, found)
    if (positions := _whole(found)) is not None:
        listed = ", ".join(shortened(names[i], limit=30) for i in positions)
        plain = len(names) == 3 and positions == (0, 1, 2) and all(_bare(name) in ROLES for name in names)
        return Chosen(positions, "" if plain else f"head, relation and tail are the columns {listed}")
    if len(names) != 3:
        raise GraphError(f"{where}: {len(names)} columns ({cells_told(names)}): {CHOOSE}")
    if said := _contradiction(names):
        raise GraphError(f"{where}: {said}: {CHOOSE}")
    taken = ", ".join(f"{role} {shortened(name, limit=30)}" for role, name in zip(PLACES, names, strict=True))
    order = ",".join(names) if all(re.fullmatch(r"\w+", name) for name in names) else "0,1,2"
    return Chosen(
        (0, 1, 2),
        f"its columns were taken in their order: {taken}; if that is not so, "
        f"name them with ReadOptions(columns=(...)) (--columns {order})",
    )


def places_in(names: Sequence[str]) -> Positions:
    """Head, relation and tail in a table that was made by a program: where its names say so, else the first three."""
    found = _named(names)
    if len(names) == 3 and found.count(None) == 1:
        found = _completed(names, found)
    if (positions := _whole(found)) is not None:
        return positions
    if said := _contradiction(names):
        raise GraphError(f"{said}: rename the three that are meant to head, relation and tail")
    return 0, 1, 2


def _contradiction(names: Sequence[str]) -> str:
    """Why the first three columns are hardly head, relation and tail in this order; nothing where they may be."""
    for place, name in enumerate(names[:3]):
        word = _bare(name)
        if word in BESIDE or (len(word) > 1 and ROLES.get(word, place) != place):
            called = f"the columns are called {cells_told(names)}"
            return f"{called}, and {shortened(name, limit=30)} stands where the {PLACES[place]} is expected"
    return ""


def names_columns(cells: Sequence[str]) -> bool:
    """Are two words of a line such as columns are called by, so that it may be a header though it lacks the third?"""
    words = [_bare(cell) for cell in cells]
    return sum(len(word) > 1 and (word in ROLES or word in BESIDE) for word in words) >= 2


def doubts(
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


def _named(names: Sequence[str]) -> Found:
    """Where the names say head, relation and tail; None where none says it, or several do."""
    exact = _matched([name.strip().casefold() for name in names])
    return exact if None not in exact else max(exact, _matched([_bare(name) for name in names]), key=_certain)


def _certain(found: Found) -> int:
    return 3 - found.count(None)


def _matched(words: Sequence[str]) -> Found:
    head = tail = relation = None
    for pair in ENDS:
        if words.count(pair[0]) == 1 == words.count(pair[1]):
            head, tail = words.index(pair[0]), words.index(pair[1])
            break
    else:
        head, tail = (_only(words, {pair[end] for pair in ENDS}) for end in (0, 1))
    for choices in RELATIONS:
        if any(word in choices for word in words):
            relation = _only(words, set(choices))
            break
    return head, relation, tail


def _only(words: Sequence[str], choices: set[str]) -> int | None:
    places = [i for i, word in enumerate(words) if word in choices]
    return places[0] if len(places) == 1 else None


def _completed(names: Sequence[str], found: Found) -> Found:
    """Of three columns the one that is left, unless its name says that it is something else, or one end stands on the
    other's side: in `entity, type, source` the last is hardly the head."""
    rest = ({0, 1, 2} - {*found}).pop()
    word = _bare(names[rest])
    if word in BESIDE or (len(word) > 1 and word in ROLES):
        return found
    head, relation, tail = (rest if place is None else place for place in found)
    if found[1] is not None and head is not None and tail is not None and head > tail:
        return found
    return head, relation, tail


def _whole(found: Found) -> Positions | None:
    head, relation, tail = found
    return None if head is None or relation is None or tail is None else (head, relation, tail)


def _bare(name: str) -> str:
    """A name without case, the signs of Neo4j and what says that it is an id: `:START_ID` is start."""
    return ENDING.sub("", name.strip().casefold().strip(":"))


def _position(where: str, names: Sequence[str], column: int | str) -> int:
    if isinstance(column, int):
        if column >= len(names):
            raise GraphError(
                f"{where}: no column {column}, counted from 0: there are {len(names)} ({cells_told(names)})"
            )
        return column
    places = [i for i, name in enumerate(names) if name == column]
    if len(places) != 1:
        count = f"{len(places)} columns are" if places else "no column is"
        guess = "" if places else did_you_mean(column, names) + (other_delimiter(names[0]) if len(names) == 1 else "")
        raise GraphError(f"{where}: {count} named {column!r}; there are {cells_told(names)}.{guess}")
    return places[0]


def cells_told(cells: Sequence[str]) -> str:
    return ", ".join(shortened(cell, limit=30) for cell in cells[:12]) + (", …" if len(cells) > 12 else "")


def other_delimiter(line: str) -> str:
    """What else may separate the cells of a line that has only one."""
    likely = " " if line.count(" ") == 2 and not any(map(line.count, DELIMITERS)) else max(DELIMITERS, key=line.count)
    count = line.count(likely) + 1
    if count < 3:
        return ""
    return f" With {likely!r} it has {count}: try ReadOptions(delimiter={likely!r}) (--delimiter {likely!r})"
