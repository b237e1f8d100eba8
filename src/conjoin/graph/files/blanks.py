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
    found = [name for name in BLANKS if name in known]
    ids = [known[name] for name in found]
    facts = sum(int(np.isin(part[:, ::2], ids).any(axis=1).sum()) for part in rows) if found else 0
    if not facts:
        return ()
    return (
        f"a head or a tail of {facts:,} fact{'s' * (facts > 1)} is called {' or '.join(found)}, an entity like any "
        f"other here: if that means a missing value, leave {'it' if facts == 1 else 'them'} out of the file",
    )
