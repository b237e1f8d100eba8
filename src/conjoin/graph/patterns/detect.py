"""What a graph's relations are like: cardinality, symmetry, inverses, and what these give away about the test set."""

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
    """Per relation, measured in train: the two means and the place in CARDINALITIES (-1: no training triple)."""

    tails_per_head: Reals
    heads_per_tail: Reals
    kind: Ids


@dataclass(frozen=True, eq=False)
class Mirrors:
    """Pairs of relations that are each other's reverse, `relation <= other`; a symmetric relation mirrors itself.

    `support` counts the pairs (h, t) of `relation` whose reverse (t, h) is in `other`, self-loops left out;
    `confidence` is the smaller of the two shares: support among the pairs of `relation`, and among those of `other`.
    """

    relation: Ids
    other: Ids
    support: Ids
    confidence: Reals

    def __len__(self) -> int:
        return len(self.relation)

    def between_two(self) -> Mirrors:
        """Without those of a relation with itself."""
        two = self.relation != self.other
        return Mirrors(self.relation[two], self.other[two], self.support[two], self.confidence[two])


@dataclass(frozen=True, eq=False)
class Leaks:
    """Per test triple (h, r, t): which kind of link between h and t does train contain?"""

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
    """The usual rule: a side is 'n' when it has, on average, at least 1.5 distinct partners in train."""
    train, n = distinct(graph.train), graph.n_relations
    triples = np.bincount(train[:, 1], minlength=n).astype(np.float64)
    with np.errstate(invalid="ignore"):
        tails = triples / _distinct_ends(train[:, 0], train[:, 1], n)
        heads = triples / _distinct_ends(train[:, 2], train[:, 1], n)
    kind = 2 * (heads >= MANY) + (tails >= MANY)
    return Cardinality(tails, heads, np.where(triples > 0, kind, -1).astype(np.int64))


def find_mirrors(graph: Graph, *, confidence: float = MIRROR_CONFIDENCE, support: int = MIRROR_SUPPORT) -> Mirrors:
    """Symmetric relations and pairs of inverses among all triples of the graph, whichever split holds them.

    Train alone would hide them: where a tenth of the triples is held out, a perfect inverse is confirmed for at most
    nine tenths of the training pairs.
    """
    return _matches(graph, 2, 0, confidence=confidence, support=support)


def find_copies(graph: Graph, *, confidence: float = MIRROR_CONFIDENCE, support: int = MIRROR_SUPPORT) -> Mirrors:
    """Pairs of different relations that hold the same pairs (h, t), among all triples of the graph."""
    return _matches(graph, 0, 2, confidence=confidence, support=support).between_two()


def _matches(graph: Graph, head: int, tail: int, *, confidence: float, support: int) -> Mirrors:
    """Pairs of relations such that (h, t) of one is (column `head`, column `tail`) of the other."""
    everything = all_links(graph)
    size = np.bincount(everything[:, 1], minlength=graph.n_relations)
    # A relation with too few pairs cannot reach the support; without it the join below stays small.
    everything = everything[size[everything[:, 1]] >= support]
    pairs = everything[:, 0] * graph.n_entities + everything[:, 2]
    turned = everything[:, head] * graph.n_entities + everything[:, tail]
    left, right = join(pairs, turned)
    first, second = everything[left, 1], everything[right, 1]
    once = first <= second
    both, met = np.unique(first[once] * graph.n_relations + second[once], return_counts=True)
    relation, other = np.divmod(both, max(graph.n_relations, 1))
    share = met / np.maximum(size[relation], size[other])
    kept = (share >= confidence) & (met >= support)
    return Mirrors(relation[kept], other[kept], met[kept].astype(np.int64), share[kept])


def find_leaks(graph: Graph, mirrors: Mirrors) -> Leaks:
    """What train gives away about each test triple, shape (n_test,) each."""
    train, test, n = graph.train, graph.test, graph.n_entities
    pairs = train[:, 0] * n + train[:, 2]
    reverse = np.isin(test[:, 2] * n + test[:, 0], pairs)
    parallel = np.isin(test[:, 0] * n + test[:, 2], pairs)
    same = mirrors.relation == mirrors.other
    found = []
    for relation, other in (
        (mirrors.relation[same], mirrors.other[same]),
        (
            np.concatenate([mirrors.relation[~same], mirrors.other[~same]]),
            np.concatenate([mirrors.other[~same], mirrors.relation[~same]]),
        ),
    ):
        question, pair = join(test[:, 1], relation)
        wanted = np.stack([test[question, 2], other[pair], test[question, 0]], axis=1)
        known, asked = codes(train, wanted)
        hit = np.zeros(len(test), dtype=bool)
        hit[question[np.isin(asked, known)]] = True
        found.append(hit)
    return Leaks(reverse, parallel, symmetric=found[0], inverse=found[1])


def _distinct_ends(end: Ids, relation: Ids, n_relations: int) -> Ids:
    """How many different entities stand at one end of each relation."""
    seen = np.unique(end * n_relations + relation)
    return np.bincount(seen % max(n_relations, 1), minlength=n_relations)


def scipy_sparse() -> Any:
    """The part of an optional package that some patterns are found with."""
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
