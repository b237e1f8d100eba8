"""Room for one more tail, against sets."""

from __future__ import annotations

import numpy as np
import pytest

from conjoin.graph.graph import Graph
from conjoin.predict.completeness import DOUBT, TailCompleteness


def graph_of(seed: int) -> Graph:
    random = np.random.default_rng(seed)
    facts = {(f"e{h:02}", f"r{r}", f"e{t:02}") for h, r, t in random.integers(0, [15, 3, 15], (40, 3)).tolist()}
    ordered = sorted(facts)
    return Graph.from_triples(ordered[4:], ordered[:2], ordered[2:4])


@pytest.mark.parametrize("seed", range(4))
def test_room_is_the_share_of_kin_with_more(seed: int) -> None:
    graph = graph_of(seed)
    facts = {fact for split in ("train", "valid", "test") for fact in map(tuple, graph.triples(split).tolist())}
    everyone = range(graph.n_entities)
    roles = [{(r, 0) for h, r, _ in facts if h == e} | {(r, 1) for _, r, t in facts if t == e} for e in everyone]
    for r in range(graph.n_relations):
        count = [len({t for h, q, t in facts if (h, q) == (e, r)}) for e in everyone]
        found = TailCompleteness(graph).of(r)
        for e in everyone:
            kin = [other for other in everyone if roles[other] - {(r, 0)} == roles[e] - {(r, 0)}]
            at_least, more = (sum(count[o] >= count[e] + one for o in everyone) for one in (0, 1))
            kin_at_least, kin_more = (sum(count[o] >= count[e] + one for o in kin) for one in (0, 1))
            expected = (kin_more + (more + DOUBT) / (at_least + 1)) / (kin_at_least + 1)
            assert found[e] == pytest.approx(expected)


def test_how_often_a_relation_goes_both_ways() -> None:
    twins = [("a", "borders", "b"), ("b", "borders", "a"), ("b", "borders", "c"), ("c", "borders", "b")]
    graph = Graph.from_triples([*twins, ("a", "needs", "b"), ("b", "needs", "c"), ("c", "needs", "c")])
    back = dict(zip(graph.relations.names, TailCompleteness(graph).back.tolist(), strict=True))
    assert back == pytest.approx({"borders": (4 + DOUBT) / 5, "needs": DOUBT / 3})


def test_a_city_that_lies_nowhere_and_a_currency() -> None:
    cities = [(f"city {i}", "twinned with", f"city {(i + 1) % 20}") for i in range(20)]
    lies = [(f"city {i}", "lies in", f"land {i % 4}") for i in range(19)]
    pays = [(f"land {i}", "pays in", f"money {i % 2}") for i in range(4)]
    graph = Graph.from_triples([*cities, *lies, *pays])
    room = TailCompleteness(graph).of(graph.relations.index["lies in"])
    assert room[graph.entities.index["city 19"]] > 0.9
    assert room[graph.entities.index["city 3"]] < 0.01
    assert room[graph.entities.index["money 0"]] < 0.3


def test_facts_that_come_again_count_once() -> None:
    facts = [("a", "r", "b"), ("b", "r", "a"), ("a", "r", "c"), ("c", "s", "a"), ("d", "s", "d")]
    once, often = Graph.from_triples(facts), Graph.from_triples([*facts, *facts[2:]], facts[2:4], facts[:1])
    assert np.array_equal(TailCompleteness(often).back, TailCompleteness(once).back)
    for r in range(2):
        assert np.array_equal(TailCompleteness(often).of(r), TailCompleteness(once).of(r))
