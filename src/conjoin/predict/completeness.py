"""Is there one more fact to find? The chance that a head has a further tail, from what its kin have.

Kin are the entities that take part in the same relations in the same roles, the relation in question aside: cities
lie somewhere, so a city that lies nowhere probably lacks that fact; a currency does not.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from conjoin.graph.graph import Graph, Ids

Reals = npt.NDArray[np.float64]
Keys = npt.NDArray[np.uint64]
DOUBT = 0.02
"""Of one: how much is believed in what was never seen, such as a tail more than any entity has."""


class TailCompleteness:
    """The chances of one more tail in a graph, relation by relation. All its splits count as known.

    `back` (relations,) are the chances that a fact holds in the other direction too: 1 where a relation is symmetric.

    >>> facts = [("Lima", "in", "Peru"), ("Cusco", "in", "Peru"), ("Peru", "has", "Lima")]
    >>> graph = Graph.from_triples([*facts, ("Chile", "has", "Arica")])
    >>> dict(zip(graph.entities.names, TailCompleteness(graph).of(0).round(2).tolist(), strict=True))["Arica"]
    0.17
    """

    def __init__(self, graph: Graph) -> None:
        self.graph, n, known = graph, graph.n_relations, graph.known
        entity, role = np.divmod(known.keys, 2 * n)
        # A set of roles is the exclusive or of one random number for each: taking one away is that operation again.
        self._signs: Keys = np.random.default_rng(0).integers(2**64, size=2 * n, dtype=np.uint64)
        self._keys: Keys = np.zeros(graph.n_entities, dtype=np.uint64)
        np.bitwise_xor.at(self._keys, entity, self._signs[role])
        counts = np.diff(known.starts)
        facts = np.stack([np.repeat(entity, counts), np.repeat(role, counts), known.tails], axis=1)
        facts = facts[(facts[:, 1] < n) & (facts[:, 0] != facts[:, 2])]
        both = facts[known.contains(facts[:, ::-1])]
        of_each, of_both = (np.bincount(part[:, 1], minlength=n) for part in (facts, both))
        self.back: Reals = (of_both + DOUBT) / (of_each + 1)

    def of(self, r: int) -> Reals:
        """For every entity (n,): of its kin with at least as many known tails, the share that has more.

        Where kin are few, all entities have a say, with the weight of one.
        """
        everyone = np.arange(self.graph.n_entities)
        question, _ = self.graph.known.pairs(everyone, np.full_like(everyone, r))
        count = np.bincount(question, minlength=len(everyone))
        kin = np.where(count > 0, self._keys ^ self._signs[r], self._keys)
        at_least, more = _as_many(np.unique(kin, return_inverse=True)[1].ravel(), count)
        return np.asarray((more + _share_with_more(count)) / (at_least + 1), dtype=np.float64)


def _share_with_more(count: Ids) -> Reals:
    at_least = np.bincount(count)[::-1].cumsum()[::-1]
    more = np.append(at_least[1:], 0)
    return np.asarray(((more + DOUBT) / (at_least + 1))[count], dtype=np.float64)


def _as_many(group: Ids, count: Ids) -> tuple[Ids, Ids]:
    """For every member the number in its group with at least its count, itself included, and with a larger one."""
    keys = group * (int(count.max(initial=0)) + 1) + count
    ordered, groups = np.sort(keys), np.sort(group)
    end = np.searchsorted(groups, group, side="right")
    return end - np.searchsorted(ordered, keys), end - np.searchsorted(ordered, keys, side="right")
