"""The filter of a ranking: for every query (head, relation) the tails that are known to be true. Immutable."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class KnownTails:
    """Compressed rows: query i has keys[i] = head * n_relations + relation and the tails of starts[i]:starts[i + 1].

    Keys are sorted and unique, tails are sorted and unique within a row. All arrays are read-only.
    """

    keys: Ids
    starts: Ids
    tails: Ids
    n_relations: int

    @classmethod
    def from_queries(cls, queries: Ids, *, n_relations: int) -> KnownTails:
        """Build from (n, 3) queries, duplicates allowed; `n_relations` counts reciprocals."""
        queries = queries.astype(np.int64, copy=False)
        keys = queries[:, 0] * n_relations + queries[:, 1]
        order = np.lexsort((queries[:, 2], keys))
        keys, tails = keys[order], queries[order, 2]
        fresh = np.ones(len(keys), dtype=bool)
        fresh[1:] = (keys[1:] != keys[:-1]) | (tails[1:] != tails[:-1])
        keys, tails = keys[fresh], tails[fresh]
        unique, starts = np.unique(keys, return_index=True)
        parts = unique, np.append(starts, len(keys)).astype(np.int64), tails
        for part in parts:
            part.setflags(write=False)
        return cls(*parts, n_relations=n_relations)

    @classmethod
    def of_asked(cls, asked: Ids, queries: Iterable[Ids], *, n_relations: int) -> KnownTails:
        """Build from blocks of queries (n, 3), with only the (head, relation) pairs that occur in `asked` (m, 3)."""
        wanted = np.unique(asked[:, 0] * n_relations + asked[:, 1])
        selected = [asked[:0]]
        for block in queries:
            keys = block[:, 0] * n_relations + block[:, 1]
            index = np.minimum(np.searchsorted(wanted, keys), max(0, len(wanted) - 1))
            selected.append(block[wanted[index] == keys] if len(wanted) else block[:0])
        return cls.from_queries(np.concatenate(selected), n_relations=n_relations)

    def __len__(self) -> int:
        return len(self.tails)

    def tails_of(self, head: int, relation: int) -> Ids:
        """The known tails (n,) of one query, sorted; empty if none is known."""
        return self.pairs(np.array([head]), np.array([relation]))[1]

    def neighbours(self, head: int) -> Ids:
        """The known tails (n,) of one head by any relation, sorted, each once."""
        first, stop = np.searchsorted(self.keys, [head * self.n_relations, (head + 1) * self.n_relations])
        return np.unique(self.tails[self.starts[first] : self.starts[stop]])

    def pairs(self, heads: Ids, relations: Ids) -> tuple[Ids, Ids]:
        """All (query number, known tail) pairs of a batch of queries, as two arrays (m,), in the order of the batch."""
        wanted = heads.astype(np.int64, copy=False) * self.n_relations + relations
        query, tails = matching_pairs(np, np.repeat, (self.keys, self.starts, self.tails), wanted)
        return query, tails

    def contains(self, queries: Ids) -> npt.NDArray[np.bool_]:
        """Which (head, relation, tail) of shape (n, 3) are known, as booleans (n,)."""
        query, tails = self.pairs(queries[:, 0], queries[:, 1])
        hit = np.zeros(len(queries), dtype=bool)
        hit[query[tails == queries[query, 2]]] = True
        return hit


def matching_pairs(library: Any, repeat: Any, rows: tuple[Any, Any, Any], wanted: Any) -> tuple[Any, Any]:
    """All (number in `wanted`, tail) pairs of compressed rows, as two arrays (m,), in the order of `wanted` (n,).

    `rows` holds keys, starts and tails as in `KnownTails`, `library` is numpy or torch, whichever they are arrays of,
    and `repeat(values, counts)` is its function for that.
    """
    keys, starts, tails = rows
    if not len(keys):
        return wanted[:0], tails[:0]
    row = library.searchsorted(keys, wanted)
    row = library.where(row < len(keys), row, len(keys) - 1)
    first = starts[row]
    count = library.where(keys[row] == wanted, starts[row + 1] - first, 0)
    query = repeat(library.ones_like(count).cumsum(0) - 1, count)
    within = library.ones_like(query).cumsum(0) - 1 - (count.cumsum(0) - count)[query]
    return query, tails[first[query] + within]
