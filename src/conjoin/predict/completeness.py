"""Estimate the probability that a head has a further, unknown tail under a relation.

The estimate compares entities with the same relation profile, that is, entities that take part in the same relations
in the same roles, apart from the relation itself. Cities have a country, so a city without one probably lacks that
fact; a currency does not.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from conjoin.graph.graph import Graph, Ids

Reals = npt.NDArray[np.float64]
Keys = npt.NDArray[np.uint64]
DOUBT = 0.02
"""Pseudo-count of events that were never observed, such as one tail more than any entity has."""


class TailCompleteness:
    """Probabilities of one more tail, relation by relation. The facts of all splits count as known.

    `back` (relations,) is the probability that a fact also holds in the other direction: near 1 if symmetric.

    >>> facts = [("Lima", "in", "Peru"), ("Cusco", "in", "Peru"), ("Peru", "has", "Lima")]
    >>> graph = Graph.from_triples([*facts, ("Chile", "has", "Arica")])
    >>> dict(zip(graph.entities.names, TailCompleteness(graph).of(0).round(2).tolist(), strict=True))["Arica"]
    0.17
    """

    def __init__(self, graph: Graph) -> None:
        self.graph, n, known = graph, graph.n_relations, graph.known
        entity, role = np.divmod(known.keys, 2 * n)
        # The key of a set of roles is the XOR of one random number per role, so that XOR also removes a role.
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
        """For every entity (n,): among entities with the same relation profile and at least as many tails, the fraction
        with more. The fraction among all entities is added with the weight of one entity.
        """
        entities = np.arange(self.graph.n_entities)
        question, _ = self.graph.known.pairs(entities, np.full_like(entities, r))
        count = np.bincount(question, minlength=len(entities))
        profile = np.where(count > 0, self._keys ^ self._signs[r], self._keys)
        at_least, more = _as_many(np.unique(profile, return_inverse=True)[1].ravel(), count)
        return np.asarray((more + _share_with_more(count)) / (at_least + 1), dtype=np.float64)


def _share_with_more(count: Ids) -> Reals:
    at_least = np.bincount(count)[::-1].cumsum()[::-1]
    more = np.append(at_least[1:], 0)
    return np.asarray(((more + DOUBT) / (at_least + 1))[count], dtype=np.float64)


def _as_many(group: Ids, count: Ids) -> tuple[Ids, Ids]:
    """For every member: how many of its group have at least its count (itself included), and how many a larger one."""
    keys = group * (int(count.max(initial=0)) + 1) + count
    ordered, groups = np.sort(keys), np.sort(group)
    end = np.searchsorted(groups, group, side="right")
    return end - np.searchsorted(ordered, keys), end - np.searchsorted(ordered, keys, side="right")
