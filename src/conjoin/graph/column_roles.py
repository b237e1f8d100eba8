"""Find the columns of head, relation and tail in a table by their names."""

from __future__ import annotations

import re
from collections.abc import Sequence

from conjoin.errors import GraphError, quoted

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
"""Words for the relation in order of preference: of the columns `predicate` and `label`, `predicate` is chosen."""
ROLES = dict([pair for h, t in ENDS for pair in ((h, 0), (t, 2))] + [(r, 1) for words in RELATIONS for r in words])
BESIDE = {"weight", "score", "confidence", "probability", "count", "timestamp", "time", "date", "year"}
"""Names of columns that are never head, relation or tail."""
ENDING = re.compile(r"[ _-]?(id|name|uri|iri)$")
SAY_WHICH = "name the columns of head, relation and tail with ReadOptions(columns=(...)) (--columns 0,2,1)"
Positions = tuple[int, int, int]
PartialPositions = tuple[int | None, int | None, int | None]
"""Positions of head, relation and tail; None for a role that no name gives."""


PLACES = ("head", "relation", "tail")


def is_header(cells: Sequence[str]) -> bool:
    """Does a line name all three columns, with at most one single-letter name?"""
    positions = _by_name(cells)
    return None not in positions and sum(len(cells[i].strip()) == 1 for i in positions if i is not None) < 2


def column_roles(names: Sequence[str]) -> Positions:
    """The positions of head, relation and tail in a table: by the names of the columns, else the first three."""
    if (positions := recognised_roles(names)) is not None:
        return positions
    if contradiction := _contradiction(names):
        raise GraphError(f"{contradiction}. Rename the columns of head, relation and tail to head, relation and tail.")
    return 0, 1, 2


def recognised_roles(names: Sequence[str]) -> Positions | None:
    """The positions of head, relation and tail if the names tell all three; of three columns the third is the rest."""
    head, relation, tail = positions = _by_name(names)
    if len(names) == 3 and positions.count(None) == 1:
        head, relation, tail = _completed(names, positions)
    return None if head is None or relation is None or tail is None else (head, relation, tail)


def _contradiction(names: Sequence[str]) -> str:
    """Why the first three columns cannot be head, relation and tail in this order; empty if they can."""
    for position, name in enumerate(names[:3]):
        word = _bare(name)
        if word in BESIDE or (len(word) > 1 and ROLES.get(word, position) != position):
            columns = f"the columns are named {listed_cells(names)}"
            return f"{columns}, but {quoted(name, limit=30)} cannot be the {PLACES[position]}"
    return ""


def names_columns(cells: Sequence[str]) -> bool:
    """Are two cells of a line usual names of columns? Then the line may be a header with an unusual third name."""
    words = [_bare(cell) for cell in cells]
    return sum(len(word) > 1 and (word in ROLES or word in BESIDE) for word in words) >= 2


def _by_name(names: Sequence[str]) -> PartialPositions:
    """Positions of head, relation and tail by name; None for a role that no name or several names give."""
    exact = _matched([name.strip().casefold() for name in names])
    return exact if None not in exact else max(exact, _matched([_bare(name) for name in names]), key=_n_known)


def _n_known(positions: PartialPositions) -> int:
    return 3 - positions.count(None)


def _matched(words: Sequence[str]) -> PartialPositions:
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
    positions = [i for i, word in enumerate(words) if word in choices]
    return positions[0] if len(positions) == 1 else None


def _completed(names: Sequence[str], positions: PartialPositions) -> PartialPositions:
    """Give the third of three columns the missing role.

    Not if its name means something else, and not if the head would then follow the tail although a relation is named:
    in `entity, type, source` the last column is probably not the head.
    """
    rest = ({0, 1, 2} - {*positions}).pop()
    word = _bare(names[rest])
    if word in BESIDE or (len(word) > 1 and word in ROLES):
        return positions
    head, relation, tail = (rest if position is None else position for position in positions)
    if positions[1] is not None and head is not None and tail is not None and head > tail:
        return positions
    return head, relation, tail


def _bare(name: str) -> str:
    """A name in lower case, without Neo4j's colon and without an ending such as `_id`: `:START_ID` becomes `start`."""
    return ENDING.sub("", name.strip().casefold().strip(":"))


def listed_cells(cells: Sequence[str]) -> str:
    """Up to twelve cells, quoted, for a message."""
    return ", ".join(quoted(cell, limit=30) for cell in cells[:12]) + (", …" if len(cells) > 12 else "")
