"""Which columns of a table hold head, relation and tail, judged by their names."""

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
"""Words for the relation, the plainer ones first: of `predicate` and `label` the first is meant."""
ROLES = dict([pair for h, t in ENDS for pair in ((h, 0), (t, 2))] + [(r, 1) for words in RELATIONS for r in words])
BESIDE = {"weight", "score", "confidence", "probability", "count", "timestamp", "time", "date", "year"}
"""What a column holds that is never one of the three."""
ENDING = re.compile(r"[ _-]?(id|name|uri|iri)$")
SAY_WHICH = "say which are head, relation and tail with ReadOptions(columns=(...)) (--columns 0,2,1)"
Positions = tuple[int, int, int]
Found = tuple[int | None, int | None, int | None]


PLACES = ("head", "relation", "tail")


def is_header(cells: Sequence[str]) -> bool:
    """Does a line name all three columns, in words of which no two are single letters?"""
    found = _named(cells)
    return None not in found and sum(len(cells[i].strip()) == 1 for i in found if i is not None) < 2


def column_roles(names: Sequence[str]) -> Positions:
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
            called = f"the columns are called {listed_cells(names)}"
            return f"{called}, and {quoted(name, limit=30)} stands where the {PLACES[place]} is expected"
    return ""


def names_columns(cells: Sequence[str]) -> bool:
    """Are two words of a line such as columns are called by, so that it may be a header though it lacks the third?"""
    words = [_bare(cell) for cell in cells]
    return sum(len(word) > 1 and (word in ROLES or word in BESIDE) for word in words) >= 2


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


def listed_cells(cells: Sequence[str]) -> str:
    return ", ".join(quoted(cell, limit=30) for cell in cells[:12]) + (", …" if len(cells) > 12 else "")
