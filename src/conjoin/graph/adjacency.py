"""Look up the training facts of an entity or a relation without a pass over the graph."""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np

from conjoin.graph.graph import Graph, Ids
from conjoin.graph.patterns.detect import distinct


@dataclass(frozen=True, eq=False)
class Adjacency:
    """The distinct training facts, and every fact as two edges (from, relation, to, fact number), sorted by `from`.

    An edge from tail to head has relation + n_relations. The edges of entity e are starts[e]:starts[e + 1].
    """

    facts: Ids
    edges: Ids
    starts: Ids
    by_relation: Ids
    relation_starts: Ids

    @property
    def degrees(self) -> Ids:
        """Edges per entity; a self-loop counts twice."""
        return np.diff(self.starts)

    def edges_of(self, e: int) -> Ids:
        """The edges that leave e, shape (degree, 4)."""
        return self.edges[self.starts[e] : self.starts[e + 1]]

    def facts_with(self, r: int) -> Ids:
        """Numbers of the facts with relation r."""
        return self.by_relation[self.relation_starts[r] : self.relation_starts[r + 1]]


_CACHE: WeakKeyDictionary[Graph, Adjacency] = WeakKeyDictionary()


def adjacency(graph: Graph) -> Adjacency:
    """The adjacency of a graph's training facts, built once per graph."""
    cached = _CACHE.get(graph)
    if cached is None:
        cached = _CACHE[graph] = _build(graph)
    return cached


def _build(graph: Graph) -> Adjacency:
    facts = distinct(graph.train)
    number = np.arange(len(facts))
    along = np.column_stack([facts, number])
    against = np.column_stack([facts[:, 2], facts[:, 1] + graph.n_relations, facts[:, 0], number])
    edges = np.concatenate([along, against])
    edges = edges[np.argsort(edges[:, 0], kind="stable")]
    return Adjacency(
        facts,
        edges,
        np.searchsorted(edges[:, 0], np.arange(graph.n_entities + 1)),
        np.argsort(facts[:, 1], kind="stable"),
        np.searchsorted(np.sort(facts[:, 1]), np.arange(graph.n_relations + 1)),
    )
