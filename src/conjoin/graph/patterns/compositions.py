"""Find compositions: rules r1(x, y) and r2(y, z) → r3(x, z).

A path may follow a relation from tail to head: in `first` and `second` the number r + n_relations means r read
backwards. Counts are exact, and they count distinct pairs (x, z), not paths. The closed paths come from the triangles
of the graph, which are few. The number of all pairs that a path connects is computed only for rules that can still
reach the required confidence.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations
from typing import Any

import numpy as np

from conjoin.graph.graph import Graph, Ids
from conjoin.graph.patterns.detect import Reals, all_links, join, scipy_sparse

AT_ONCE = 4_000_000
"""Paths held in memory at a time."""
COLUMNS = 4_096
"""Pairs of relations whose bounds are computed together."""


@dataclass(frozen=True, eq=False)
class Compositions:
    """Rules first ∘ second → third, one per entry, in order of decreasing support. Self-loops are ignored.

    support  pairs (x, z), x ≠ z, that the path connects and that are facts of `third`
    reached  pairs that the path connects
    held     pairs of `third`
    """

    first: Ids
    second: Ids
    third: Ids
    support: Ids
    reached: Ids
    held: Ids

    def __len__(self) -> int:
        return len(self.first)

    @property
    def confidence(self) -> Reals:
        """The share of the connected pairs that are facts of `third`."""
        return self.support / np.maximum(self.reached, 1)

    @property
    def coverage(self) -> Reals:
        """The share of the pairs of `third` that the path connects."""
        return self.support / np.maximum(self.held, 1)


def find_compositions(graph: Graph, *, confidence: float, support: int) -> Compositions:
    """Every composition with at least this confidence and support among all triples of the graph."""
    links = all_links(graph)
    first, second, third, met = _closed(links, graph.n_entities, graph.n_relations)
    enough = met >= max(support, 1)
    first, second, third, met = first[enough], second[enough], third[enough], met[enough]
    # x → y → z and the same path from z back to x connect equally many pairs, so one computation serves both.
    width, turn = 2 * graph.n_relations, graph.n_relations
    there, back = first * width + second, (second + turn) % max(width, 1) * width + (first + turn) % max(width, 1)
    pairs, place = np.unique(np.minimum(there, back), return_inverse=True)
    reached = _reached(links, pairs, _best(met, place, len(pairs)) / confidence, graph)[place]
    rules = np.flatnonzero((reached > 0) & (met >= confidence * reached))
    rules = rules[np.lexsort((third[rules], second[rules], first[rules], -met[rules]))]
    held = np.bincount(links[:, 1], minlength=graph.n_relations)
    return Compositions(first[rules], second[rules], third[rules], met[rules], reached[rules], held[third[rules]])


def _best(met: Ids, place: Ids, n: int) -> Ids:
    best = np.zeros(n, dtype=np.int64)
    np.maximum.at(best, place, met)
    return best


def _closed(links: Ids, n: int, n_relations: int) -> tuple[Ids, Ids, Ids, Ids]:
    """All triples of relations that close a path: first, second, third, and the number of distinct pairs of each."""
    both = np.concatenate([links, np.stack([links[:, 2], links[:, 1] + n_relations, links[:, 0]], axis=1)])
    key = both[:, 0] * n + both[:, 2]
    order = np.lexsort((both[:, 1], key))
    relation = both[order, 1]
    pair, begin, count = np.unique(key[order], return_index=True, return_counts=True)
    # Reversed relations come last among the relations of a pair: the first `forward` of them are facts of `third`.
    forward = np.bincount(np.searchsorted(pair, links[:, 0] * n + links[:, 2]), minlength=len(pair))
    width = 2 * n_relations
    codes, counts = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    for one, two, across in _paths(pair, n, count=count, forward=forward):
        size = count[one] * count[two] * forward[across]
        at = np.repeat(np.arange(len(one)), size)
        within = np.arange(len(at)) - np.repeat(np.cumsum(size) - size, size)
        within, i3 = np.divmod(within, forward[across][at])
        i1, i2 = np.divmod(within, count[two][at])
        fact = begin[across][at] + i3
        body = relation[begin[one][at] + i1] * width + relation[begin[two][at] + i2]
        body, fact = np.divmod(_once(body * len(relation) + fact), len(relation))
        code, met = _counted(body * n_relations + relation[fact])
        codes.append(code)
        counts.append(met)
    code, place = np.unique(np.concatenate(codes), return_inverse=True)
    met = np.bincount(place, weights=np.concatenate(counts), minlength=len(code)).astype(np.int64)
    body, third = np.divmod(code, max(n_relations, 1))
    first, second = np.divmod(body, max(width, 1))
    return first, second, third, met


def _once(values: Ids) -> Ids:
    """The distinct values in order, by sorting, which is far faster here than the hash table of np.unique."""
    ordered = np.sort(values)
    return ordered[np.append(True, ordered[1:] != ordered[:-1])] if len(ordered) else ordered


def _counted(values: Ids) -> tuple[Ids, Ids]:
    """The distinct values in order and how often each occurs."""
    ordered = np.sort(values)
    ends = np.flatnonzero(np.append(ordered[1:] != ordered[:-1], True)) if len(ordered) else np.zeros(0, dtype=np.int64)
    return ordered[ends], np.diff(ends, prepend=-1)


def _paths(pair: Ids, n: int, *, count: Ids, forward: Ids) -> Iterator[tuple[Ids, Ids, Ids]]:
    """Paths x → y → z next to a link x → z, as indices into `pair`, in blocks; all paths of one (x, z) are together."""
    corner = _triangles(pair, n)
    side = {(x, y): np.searchsorted(pair, corner[x] * n + corner[y]) for x, y in permutations(range(3), 2)}
    ways = list(permutations(range(3)))
    firsts = np.concatenate([side[x, y] for x, y, _ in ways])
    seconds = np.concatenate([side[y, z] for _, y, z in ways])
    ends = np.concatenate([side[x, z] for x, _, z in ways])
    order = np.argsort(ends, kind="stable")
    firsts, seconds, ends = firsts[order], seconds[order], ends[order]
    weight = np.cumsum(count[firsts] * count[seconds] * forward[ends])
    group = np.flatnonzero(np.append(ends[1:] != ends[:-1], True)) + 1 if len(ends) else np.zeros(0, dtype=np.int64)
    start = 0
    while start < len(ends):
        done = weight[start - 1] if start else 0
        fitting = np.searchsorted(weight[group - 1], done + AT_ONCE, "right") - 1
        stop = int(group[max(fitting, np.searchsorted(group, start, "right"))])
        yield firsts[start:stop], seconds[start:stop], ends[start:stop]
        start = stop


def _triangles(pair: Ids, n: int) -> tuple[Ids, Ids, Ids]:
    """All triangles: three entities of which every two are linked in some direction, each triangle once.

    Each link points to its end of higher degree, so that no entity has many outgoing links.
    """
    x, z = np.divmod(pair, n)
    degree = np.bincount(x, minlength=n)
    outward = (degree[x] < degree[z]) | ((degree[x] == degree[z]) & (x < z))
    source, target = x[outward], z[outward]
    known = pair[outward]
    triangles: list[tuple[Ids, Ids, Ids]] = []
    out = np.bincount(source, minlength=n)
    ahead = np.cumsum(out[target])
    start = 0
    while start < len(source):
        done = ahead[start - 1] if start else 0
        stop = max(int(np.searchsorted(ahead, done + AT_ONCE, "right")), start + 1)
        edge, onward = join(target[start:stop], source)
        u, w = source[start:stop][edge], target[onward]
        wanted = u * n + w
        index = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
        closed = known[index] == wanted
        triangles.append((u[closed], target[start:stop][edge[closed]], w[closed]))
        start = stop
    if not triangles:
        none = np.zeros(0, dtype=np.int64)
        return none, none, none
    low, middle, high = (np.concatenate(part) for part in zip(*triangles, strict=True))
    return low, middle, high


def _reached(links: Ids, pairs: Ids, most: Reals, graph: Graph) -> Ids:
    """The number of pairs x ≠ z that each path of two relations connects; 0 if it certainly exceeds `most`.

    A single entity y in the middle connects (ways in) × (ways out) different pairs. This bound settles most paths.
    """
    sparse = scipy_sparse()
    n, r = graph.n_entities, graph.n_relations
    both = np.concatenate([links, np.stack([links[:, 2], links[:, 1] + r, links[:, 0]], axis=1)])
    leaving = sparse.csc_matrix((np.ones(len(both), dtype=np.int64), (both[:, 0], both[:, 1])), shape=(n, 2 * r))
    first, second = np.divmod(pairs, max(2 * r, 1))
    back = (first + r) % max(2 * r, 1)
    least = np.zeros(len(pairs), dtype=np.int64)
    for start in range(0, len(pairs), COLUMNS):
        part = slice(start, start + COLUMNS)
        ways_in, ways_out = leaving[:, back[part]], leaving[:, second[part]]
        # y may connect an x to itself, at most once for each x; these pairs are subtracted.
        product = ways_in.multiply(ways_out) - ways_in.minimum(ways_out)
        least[part] = product.max(axis=0).toarray().ravel()
    reached = np.zeros(len(pairs), dtype=np.int64)
    open_ones = np.flatnonzero(least <= most)
    matrices: dict[int, Any] = {}
    order = np.argsort(both[:, 1], kind="stable")
    bounds = np.searchsorted(both[order, 1], np.arange(2 * r + 1))

    def matrix(relation: int) -> Any:
        if relation not in matrices:
            rows = both[order[bounds[relation] : bounds[relation + 1]]]
            cells = (np.ones(len(rows), dtype=np.int32), (rows[:, 0], rows[:, 2]))
            matrices[relation] = sparse.csr_matrix(cells, shape=(n, n))
        return matrices[relation]

    for i in open_ones.tolist():
        product = matrix(int(first[i])) @ matrix(int(second[i]))
        reached[i] = product.nnz - np.count_nonzero(product.diagonal())
    return reached
