"""Names that programs write where a value is missing: in a table they look like any other, and become one entity."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from conjoin.graph.graph import Ids

BLANKS = (
    *("?", "-", "--", "NaN", "nan", "NAN", "NaT", "<NA>", "N/A", "n/a", "#N/A", "None", "NULL", "null", "nil", "\\N"),
    *("unknown", "Unknown", "UNKNOWN", "undefined", "missing"),
)


def said_of_blanks(rows: Iterable[Ids], known: Mapping[str, int]) -> tuple[str, ...]:
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
