"""Numbers and dates as tails: a table does not say which of its cells are values, RDF does."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from conjoin.graph.files.columns import NUMBER, TABLES
from conjoin.graph.files.report import ENOUGH, shortened
from conjoin.graph.files.source import AnyPath, format_of
from conjoin.graph.files.texts import fits, text_of
from conjoin.graph.graph import Ids

DATE = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d.*)?", re.ASCII)
AT_ONCE = 4096
"""Facts that are looked at before relations with other tails are left out of the rest, at first; then twice as many."""
LOOKED_AT = 1 << 20
"""Facts of such relations that are looked at in all."""
NAMED = 5


def said_of_values(
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
    size, left = AT_ONCE, LOOKED_AT
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
        f"{shortened(such)[1:-1]}. Each is an entity here, and a candidate for every answer: if they are values, "
        "leave these facts out of the file",
    )


def _of_value(entities: Sequence[str], ids: Ids) -> npt.NDArray[np.bool_]:
    """Which of the ids (n,) are called like a number or a date."""
    distinct, place = np.unique(ids, return_inverse=True)
    return np.concatenate([fits(text, NUMBER, DATE) for text in text_of(entities, distinct)])[place]
