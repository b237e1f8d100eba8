"""Detect cardinality, symmetric relations and inverse pairs, and the leakage into the test split that they cause."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from conjoin.errors import NotInstalled
from conjoin.graph.graph import Graph, Ids

Flags = npt.NDArray[np.bool_]
Reals = npt.NDArray[np.float64]

CARDINALITIES = ("1-1", "1-n", "n-1", "n-n")
MANY = 1.5
MIRROR_CONFIDENCE = 0.8
MIRROR_SUPPORT = 2


@dataclass(frozen=True, eq=False)
class Cardinality:
    """Per relation, measured in train: the two means, and the index into CARDINALITIES (-1: no training triple)."""

    tails_per_head: Reals
    heads_per_tail: Reals
    kind: Ids


@dataclass(frozen=True, eq=False)
class Mirrors:
    """Pairs of relations that are inverses of each other, `relation <= other`; a symmetric relation is its own inverse.

    `support` counts the pairs (h, t) of `relation` whose reverse (t, h) is in `other`, without self-loops.
    `confidence` is support divided by the number of pairs of `relation`, or of `other`, whichever share is smaller.
    """

    relation: Ids
    other: Ids
    support: Ids
    confidence: Reals

    def __len__(self) -> int:
        return len(self.relation)

    def between_two(self) -> Mirrors:
        """The pairs of two different relations."""
        two = self.relation != self.other
        return Mirrors(self.relation[two], self.other[two], self.support[two], self.confidence[two])


@dataclass(frozen=True, eq=False)
class Leaks:
    """Per test triple (h, r, t): does train contain a link of this kind between h and t? Booleans (n_test,)."""

    reverse: Flags
    parallel: Flags
    symmetric: Flags
    inverse: Flags


def codes(*parts: Ids) -> list[Ids]:
    """One integer per triple of each part, equal exactly where the triples are equal, in the order of (h, r, t)."""
    stacked = np.concatenate(parts)
    order = np.lexsort((stacked[:, 2], stacked[:, 1], stacked[:, 0]))
    placed = stacked[order]
    fresh = np.zeros(len(stacked), dtype=np.int64)
    fresh[1:] = (placed[1:] != placed[:-1]).any(axis=1)
    code = np.empty(len(stacked), dtype=np.int64)
    code[order] = np.cumsum(fresh)
    return np.split(code, np.cumsum([len(part) for part in parts])[:-1])


def distinct(triples: Ids) -> Ids:
    """The triples without repetition, sorted by head, relation and tail."""
    _, first = np.unique(codes(triples)[0], return_index=True)
    return triples[first]


def all_links(graph: Graph) -> Ids:
    """The distinct triples of all splits without self-loops, sorted by head, relation and tail."""
    everything: Ids = distinct(graph.everything())
    linked: Ids = everything[everything[:, 0] != everything[:, 2]]
    return linked


def cardinality(graph: Graph) -> Cardinality:
    """The usual rule: a side is 'n' if it has on average at least 1.5 distinct partners in train."""
    train, n = distinct(graph.train), graph.n_relations
    triples = np.bincount(train[:, 1], minlength=n).astype(np.float64)
    with np.errstate(invalid="ignore"):
        tails = triples / _distinct_ends(train[:, 0], train[:, 1], n)
        heads = triples / _distinct_ends(train[:, 2], train[:, 1], n)
    kind = 2 * (heads >= MANY) + (tails >= MANY)
    return Cardinality(tails, heads, np.where(triples > 0, kind, -1).astype(np.int64))


def find_mirrors(graph: Graph, *, confidence: float = MIRROR_CONFIDENCE, support: int = MIRROR_SUPPORT) -> Mirrors:
    """Symmetric relations and inverse pairs, over the triples of all splits.

    Train alone would underestimate them: with a tenth of the triples held out, a perfect inverse is confirmed for at
    most nine tenths of the training pairs.
    """
    return _matches(graph, 2, 0, confidence=confidence, support=support)


def find_copies(graph: Graph, *, confidence: float = MIRROR_CONFIDENCE, support: int = MIRROR_SUPPORT) -> Mirrors:
    """Pairs of different relations that contain the same pairs (h, t), over the triples of all splits."""
    return _matches(graph, 0, 2, confidence=confidence, support=support).between_two()


def _matches(graph: Graph, head: int, tail: int, *, confidence: float, support: int) -> Mirrors:
    """Pairs of relations such that (h, t) of one is (column `head`, column `tail`) of the other."""
    everything = all_links(graph)
    size = np.bincount(everything[:, 1], minlength=graph.n_relations)
    # A relation with too few pairs cannot reach the support; leaving it out keeps the join below small.
    everything = everything[size[everything[:, 1]] >= support]
    pairs = everything[:, 0] * graph.n_entities + everything[:, 2]
    turned = everything[:, head] * graph.n_entities + everything[:, tail]
    left, right = join(pairs, turned)
    first, second = everything[left, 1], everything[right, 1]
    once = first <= second
    both, met = np.unique(first[once] * graph.n_relations + second[once], return_counts=True)
    relation, other = np.divmod(both, max(graph.n_relations, 1))
    share = met / np.maximum(size[relation], size[other])
    enough = (share >= confidence) & (met >= support)
    return Mirrors(relation[enough], other[enough], met[enough].astype(np.int64), share[enough])


def find_leaks(graph: Graph, mirrors: Mirrors) -> Leaks:
    """The links in train that give away a test triple; booleans (n_test,) for each kind."""
    train, test, n = graph.train, graph.test, graph.n_entities
    pairs = train[:, 0] * n + train[:, 2]
    reverse = np.isin(test[:, 2] * n + test[:, 0], pairs)
    parallel = np.isin(test[:, 0] * n + test[:, 2], pairs)
    same = mirrors.relation == mirrors.other
    leaked = []
    for relation, other in (
        (mirrors.relation[same], mirrors.other[same]),
        (
            np.concatenate([mirrors.relation[~same], mirrors.other[~same]]),
            np.concatenate([mirrors.other[~same], mirrors.relation[~same]]),
        ),
    ):
        query, pair = join(test[:, 1], relation)
        wanted = np.stack([test[query, 2], other[pair], test[query, 0]], axis=1)
        known, asked = codes(train, wanted)
        hit = np.zeros(len(test), dtype=bool)
        hit[query[np.isin(asked, known)]] = True
        leaked.append(hit)
    return Leaks(reverse, parallel, symmetric=leaked[0], inverse=leaked[1])


def _distinct_ends(end: Ids, relation: Ids, n_relations: int) -> Ids:
    """The number of different entities at one end of each relation, shape (n_relations,)."""
    seen = np.unique(end * n_relations + relation)
    return np.bincount(seen % max(n_relations, 1), minlength=n_relations)


def scipy_sparse() -> Any:
    """The module scipy.sparse; NotInstalled if scipy is missing."""
    try:
        import scipy.sparse
        import scipy.sparse.csgraph
    except ImportError as error:
        raise NotInstalled("scipy", "study", "finding relation patterns") from error
    return scipy.sparse


def join(left: Ids, right: Ids) -> tuple[Ids, Ids]:
    """All (i, j) with left[i] == right[j], in the order of i."""
    order = np.argsort(right, kind="stable")
    ordered = right[order]
    low, high = np.searchsorted(ordered, left, "left"), np.searchsorted(ordered, left, "right")
    count = high - low
    i = np.repeat(np.arange(len(left)), count)
    within = np.arange(len(i)) - np.repeat(np.cumsum(count) - count, count)
    return i, order[low[i] + within]
