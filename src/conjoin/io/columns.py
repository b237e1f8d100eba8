"""Which columns of a table are head, relation and tail: what their names say, and what is done where they say nothing.

The two ends have names that come in pairs (subject and object, from and to), so that a further column that is called
source or type does no harm beside them. Of three columns the third follows from two. Where no name says anything, the
columns are taken in their order, which is said; where a name says otherwise, that order is refused.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from conjoin.errors import GraphError, did_you_mean, quoted
from conjoin.graph.column_roles import (
    PLACES,
    ROLES,
    Positions,
    _bare,
    _completed,
    _contradiction,
    _named,
    _whole,
    listed_cells,
)
from conjoin.io.read_options import ReadOptions

CHOOSE = "choose three with ReadOptions(columns=(...)) (--columns subject,verb,object)"
DELIMITERS = ",;\t|"


@dataclass(frozen=True)
class Chosen:
    """Where head, relation and tail stand, and what a person should know about the choice, if anything."""

    positions: Positions
    note: str = ""


def choose(where: str, names: Sequence[str], options: ReadOptions) -> Chosen:
    """Head, relation and tail among columns with these names."""
    if options.columns is not None:
        head, relation, tail = (_position(where, names, column) for column in options.columns)
        return Chosen((head, relation, tail))
    found = _named(names)
    if len(names) == 3 and found.count(None) == 1:
        found = _completed(names, found)
    if (positions := _whole(found)) is not None:
        listed = ", ".join(quoted(names[i], limit=30) for i in positions)
        plain = len(names) == 3 and positions == (0, 1, 2) and all(_bare(name) in ROLES for name in names)
        return Chosen(positions, "" if plain else f"head, relation and tail are the columns {listed}")
    if len(names) != 3:
        raise GraphError(f"{where}: {len(names)} columns ({listed_cells(names)}): {CHOOSE}")
    if said := _contradiction(names):
        raise GraphError(f"{where}: {said}: {CHOOSE}")
    taken = ", ".join(f"{role} {quoted(name, limit=30)}" for role, name in zip(PLACES, names, strict=True))
    order = ",".join(names) if all(re.fullmatch(r"\w+", name) for name in names) else "0,1,2"
    return Chosen(
        (0, 1, 2),
        f"its columns were taken in their order: {taken}; if that is not so, "
        f"name them with ReadOptions(columns=(...)) (--columns {order})",
    )


def _position(where: str, names: Sequence[str], column: int | str) -> int:
    if isinstance(column, int):
        if column >= len(names):
            raise GraphError(
                f"{where}: no column {column}, counted from 0: there are {len(names)} ({listed_cells(names)})"
            )
        return column
    places = [i for i, name in enumerate(names) if name == column]
    if len(places) != 1:
        count = f"{len(places)} columns are" if places else "no column is"
        guess = "" if places else did_you_mean(column, names) + (other_delimiter(names[0]) if len(names) == 1 else "")
        raise GraphError(f"{where}: {count} named {column!r}; there are {listed_cells(names)}.{guess}")
    return places[0]


def other_delimiter(line: str) -> str:
    """What else may separate the cells of a line that has only one."""
    likely = " " if line.count(" ") == 2 and not any(map(line.count, DELIMITERS)) else max(DELIMITERS, key=line.count)
    count = line.count(likely) + 1
    if count < 3:
        return ""
    return f" With {likely!r} it has {count}: try ReadOptions(delimiter={likely!r}) (--delimiter {likely!r})"
