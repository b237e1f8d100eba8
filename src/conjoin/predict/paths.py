"""Short paths between two entities through training facts, followed in both directions, largest weight first.

The weight of a path is the product of 1 / degree over the entities in between: the probability that a random walk
takes it. A path through an entity with many facts has a small weight.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from conjoin.graph.adjacency import Adjacency, adjacency
from conjoin.graph.graph import Graph, Ids

Found = tuple[float, tuple[int, ...]]
EDGES = 500_000
"""Most edges that the middle hop looks at; beyond that the entities of the largest degree are skipped."""


@dataclass(frozen=True)
class PathStep:
    """A training fact of a path; `forward` where the path walks it from head to tail."""

    head: str
    relation: str
    tail: str
    label: str
    forward: bool


@dataclass(frozen=True)
class Path:
    """Facts that lead from one entity to another; `strength` is the weight, 1 for a direct link."""

    steps: tuple[PathStep, ...]
    strength: float


def short_paths(graph: Graph, start: int, end: int, *, without: tuple[int, int, int], k: int) -> list[Path]:
    """The k paths of at most three hops with the largest weight, without repeated entities and without one fact.

    If several facts link two entities, the one with the rarest relation is used.
    """
    index = adjacency(graph)
    barred = _number(index, without)
    if start == end:
        return []
    there, back = _simplest(index, start, barred), _simplest(index, end, barred)
    found: list[Found] = []
    degrees = np.maximum(index.degrees, 1)
    if len(direct := there[there[:, 2] == end]):
        found.append((1.0, (int(direct[0, 3]),)))
    there, back = there[there[:, 2] != end], back[back[:, 2] != start]
    _, i, j = np.intersect1d(there[:, 2], back[:, 2], return_indices=True)
    for a, b in _rarest(1 / degrees[there[i, 2]], np.stack([i, j], axis=1), k):
        found.append((float(1 / degrees[there[a, 2]]), (int(there[a, 3]), int(back[b, 3]))))
    found += _through_two(index, there, back, barred=barred, k=k)
    found.sort(key=lambda each: (-each[0], len(each[1]), each[1]))
    return [Path(_steps(graph, index, start, numbers), weight) for weight, numbers in found[:k]]


def _through_two(index: Adjacency, there: Ids, back: Ids, *, barred: int, k: int) -> list[Found]:
    """Paths start → a → b → end, from the edges start → a and end → b."""
    degrees = np.maximum(index.degrees, 1)
    order = np.argsort(degrees[there[:, 2]], kind="stable")
    order = order[np.cumsum(degrees[there[order, 2]]) <= EDGES]
    last = np.full(len(degrees), -1)
    last[back[:, 2]] = np.arange(len(back))
    first = np.repeat(order, degrees[there[order, 2]])
    places = [np.arange(index.starts[e], index.starts[e + 1]) for e in there[order, 2]]
    middle = index.edges[np.concatenate(places)] if places else index.edges[:0]
    meets = last[middle[:, 2]]
    fits = (meets >= 0) & (middle[:, 0] != middle[:, 2]) & (middle[:, 3] != barred)
    first, middle, meets = first[fits], middle[fits], meets[fits]
    weight = 1 / (degrees[middle[:, 0]] * degrees[middle[:, 2]])
    seen: set[tuple[int, int]] = set()
    paths: list[Found] = []
    for i in np.lexsort((_uses(index, middle), -weight)):
        between = int(middle[i, 0]), int(middle[i, 2])
        if between not in seen:
            seen.add(between)
            paths.append((float(weight[i]), (int(there[first[i], 3]), int(middle[i, 3]), int(back[meets[i], 3]))))
        if len(paths) == k:
            break
    return paths


def _simplest(index: Adjacency, e: int, barred: int) -> Ids:
    """One edge from e to each of its neighbours: that with the rarest relation."""
    edges = index.edges_of(e)
    edges = edges[(edges[:, 3] != barred) & (edges[:, 2] != e)]
    ordered: Ids = edges[np.lexsort((edges[:, 3], _uses(index, edges), edges[:, 2]))]
    fresh = np.ones(len(ordered), dtype=bool)
    fresh[1:] = ordered[1:, 2] != ordered[:-1, 2]
    return ordered[fresh]


def _uses(index: Adjacency, edges: Ids) -> Ids:
    """How many facts the relation of each edge has."""
    n_relations = len(index.relation_starts) - 1
    return np.diff(index.relation_starts)[edges[:, 1] % n_relations]


def _rarest(weight: np.ndarray, rows: Ids, k: int) -> Ids:
    return rows[np.argsort(-weight, kind="stable")[:k]]


def _number(index: Adjacency, fact: tuple[int, int, int]) -> int:
    edges = index.edges_of(fact[0])
    same = (edges[:, 1] == fact[1]) & (edges[:, 2] == fact[2])
    return int(edges[same][0, 3]) if same.any() else -1


def _steps(graph: Graph, index: Adjacency, start: int, numbers: tuple[int, ...]) -> tuple[PathStep, ...]:
    steps, place = [], start
    for number in numbers:
        h, r, t = map(int, index.facts[number])
        forward = h == place
        steps.append(PathStep(*graph.names(h, r, t), graph.label(h, r, t), forward))
        place = t if forward else h
    return tuple(steps)
