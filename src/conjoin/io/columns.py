"""Choose the columns of a table that hold head, relation and tail.

Names for the two ends come in pairs (subject and object, from and to), so a further column called source or type does
not confuse the choice. If two of three columns are recognised, the third is the one that is left. If no name is
recognised, the columns are read in their order and a note says so. A name that contradicts this order is an error.
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
    _contradiction,
    listed_cells,
    recognised_roles,
)
from conjoin.io.read_options import ReadOptions

CHOOSE = "Choose three with ReadOptions(columns=(...)) (--columns subject,verb,object)"
DELIMITERS = ",;\t|"


@dataclass(frozen=True)
class Chosen:
    """The positions of head, relation and tail, and a note for the user if the choice needs one."""

    positions: Positions
    note: str = ""


def choose(where: str, names: Sequence[str], options: ReadOptions) -> Chosen:
    """Choose head, relation and tail among columns with these names; `where` (file and line) begins an error."""
    if options.columns is not None:
        head, relation, tail = (_position(where, names, column) for column in options.columns)
        return Chosen((head, relation, tail))
    if (positions := recognised_roles(names)) is not None:
        listed = ", ".join(quoted(names[i], limit=30) for i in positions)
        plain = len(names) == 3 and positions == (0, 1, 2) and all(_bare(name) in ROLES for name in names)
        return Chosen(positions, "" if plain else f"head, relation and tail are the columns {listed}")
    if len(names) != 3:
        raise GraphError(
            f"{where}: the table has {len(names)} columns ({listed_cells(names)}), and their names do not tell which "
            f"are head, relation and tail. {CHOOSE}."
        )
    if contradiction := _contradiction(names):
        raise GraphError(f"{where}: {contradiction}. {CHOOSE}.")
    roles = ", ".join(f"{role} {quoted(name, limit=30)}" for role, name in zip(PLACES, names, strict=True))
    order = ",".join(names) if all(re.fullmatch(r"\w+", name) for name in names) else "0,1,2"
    return Chosen(
        (0, 1, 2),
        f"the columns were read in their order: {roles}. If the order is another one, "
        f"name the columns with ReadOptions(columns=(...)) (--columns {order})",
    )


def _position(where: str, names: Sequence[str], column: int | str) -> int:
    if isinstance(column, int):
        if column >= len(names):
            raise GraphError(
                f"{where}: column {column} does not exist. Columns are counted from 0; "
                f"this table has {len(names)} ({listed_cells(names)})."
            )
        return column
    positions = [i for i, name in enumerate(names) if name == column]
    if len(positions) != 1:
        count = f"{len(positions)} columns are" if positions else "no column is"
        guess = "" if positions else did_you_mean(column, names)
        guess += other_delimiter(names[0]) if not positions and len(names) == 1 else ""
        raise GraphError(f"{where}: {count} named {column!r}. The columns are {listed_cells(names)}.{guess}")
    return positions[0]


def other_delimiter(line: str) -> str:
    """A hint at another delimiter for a line in which only one cell was found; empty if none gives three cells."""
    likely = " " if line.count(" ") == 2 and not any(map(line.count, DELIMITERS)) else max(DELIMITERS, key=line.count)
    count = line.count(likely) + 1
    if count < 3:
        return ""
    return (
        f" With the delimiter {likely!r} it has {count}: try ReadOptions(delimiter={likely!r}) (--delimiter {likely!r})"
    )
