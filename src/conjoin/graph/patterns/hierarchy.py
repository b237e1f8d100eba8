"""Measure how similar a relation is to a forest of trees.

A relation is a forest exactly if it has no cycle and no child has two parents. These are two of Krackhardt's four
conditions for a hierarchy; a single tree meets the other two (one component, common superiors) by definition. Both are
measured as shares of 1:

    order    pairs (h, t) that lie on no cycle of the relation, among all its pairs
    parents  children among all pairs: one over the mean number of parents

Parents may be the heads (has_part) or the tails (part_of): the side that gives a child fewer parents is chosen.
tree-likeness = order × parents; it is 1 exactly for forests. A relation of depth 1 (stars without a second level) is
not a hierarchy, whatever its order. Self-loops are ignored.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from conjoin.graph.graph import Graph, Ids
from conjoin.graph.patterns.detect import Flags, Reals, all_links, scipy_sparse

DEEPEST = 64
"""Longer chains are not followed: a depth of 64 means 64 or more."""


@dataclass(frozen=True, eq=False)
class Hierarchy:
    """Per relation; 0 if it has no pair. `upward`: the parent is the tail."""

    order: Reals
    parents: Reals
    depth: Ids
    upward: Flags

    @property
    def likeness(self) -> Reals:
        """Between 0 and 1, and 1 exactly for forests."""
        return self.order * self.parents


def measure_hierarchy(graph: Graph) -> Hierarchy:
    """Order, parents and depth of every relation, over all triples of the graph."""
    links = all_links(graph)
    n, r = graph.n_entities, graph.n_relations
    relation = links[:, 1]
    size = np.bincount(relation, minlength=r)
    heads, tails = (np.unique(relation * n + links[:, end]) // max(n, 1) for end in (0, 2))
    n_heads, n_tails = (np.bincount(ends, minlength=r) for ends in (heads, tails))
    upward = n_heads > n_tails
    nodes, source, target = _nodes(links, n)
    component = _components(source, target, len(nodes))
    across = component[source] != component[target]
    with np.errstate(invalid="ignore"):
        order = np.nan_to_num(np.bincount(relation, weights=across, minlength=r) / size)
        parents = np.nan_to_num(np.maximum(n_heads, n_tails) / size)
    depth = _depth(component[source[across]], component[target[across]], relation[across], r)
    return Hierarchy(order, parents, depth, upward)


def _nodes(links: Ids, n: int) -> tuple[Ids, Ids, Ids]:
    """The distinct (relation, entity) pairs as nodes, and source and target of every link as indices of nodes."""
    ends = np.concatenate([links[:, 1] * n + links[:, 0], links[:, 1] * n + links[:, 2]])
    nodes, index = np.unique(ends, return_inverse=True)
    return nodes, index[: len(links)], index[len(links) :]


def _components(source: Ids, target: Ids, n: int) -> Ids:
    """The strongly connected component of every node (n,): two nodes on one cycle have the same."""
    sparse = scipy_sparse()
    matrix = sparse.csr_matrix((np.ones(len(source), dtype=np.int8), (source, target)), shape=(n, n))
    component = sparse.csgraph.connected_components(matrix, directed=True, connection="strong")[1]
    return np.asarray(component, dtype=np.int64)


def _depth(source: Ids, target: Ids, relation: Ids, n_relations: int) -> Ids:
    """The length of the longest chain in each relation: how often links without a predecessor can be removed."""
    depth = np.zeros(n_relations, dtype=np.int64)
    for _ in range(DEEPEST):
        if not len(source):
            break
        depth[np.unique(relation)] += 1
        entered = np.zeros(int(max(source.max(), target.max())) + 1, dtype=bool)
        entered[target] = True
        left = entered[source]
        source, target, relation = source[left], target[left], relation[left]
    return depth
