"""Compositions against a slow count with sets."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conjoin.graph.graph import Graph
from conjoin.graph.patterns import compositions
from conjoin.graph.patterns.compositions import find_compositions

pytest.importorskip("scipy", reason="relation patterns need SciPy: pip install 'conjoin[study]'")

Rule = tuple[int, int, int, int, int, int]
Triple = tuple[str, str, str]
triples = st.tuples(st.sampled_from("abcdef"), st.sampled_from("rsu"), st.sampled_from("abcdef"))


def slow(graph: Graph, *, confidence: float, support: int) -> set[Rule]:
    """first, second, third, support, reached, held of every rule, by trying all."""
    everything = np.concatenate([graph.train, graph.valid, graph.test]).tolist()
    n = graph.n_relations
    pairs: dict[int, set[tuple[int, int]]] = {r: set() for r in range(2 * n)}
    for h, r, t in everything:
        if h != t:
            pairs[r].add((h, t))
            pairs[r + n].add((t, h))
    rules = set()
    for first, second in product(range(2 * n), repeat=2):
        reached = {(x, z) for x, y in pairs[first] for w, z in pairs[second] if y == w and x != z}
        for third in range(n):
            met = len(reached & pairs[third])
            if met >= support and met >= confidence * len(reached):
                rules.add((first, second, third, met, len(reached), len(pairs[third])))
    return rules


def fast(graph: Graph, *, confidence: float, support: int) -> set[Rule]:
    found = find_compositions(graph, confidence=confidence, support=support)
    columns = (found.first, found.second, found.third, found.support, found.reached, found.held)
    rules = list(zip(*(column.tolist() for column in columns), strict=True))
    assert len(rules) == len(set(rules))
    return set(rules)


@settings(deadline=None, max_examples=40)
@given(st.lists(triples, max_size=30), st.lists(triples, max_size=5), st.sampled_from([0.01, 0.5, 1.0]))
def test_compositions_equal_a_brute_force_search(train: list[Triple], test: list[Triple], confidence: float) -> None:
    graph = Graph.from_triples(train, None, test)
    assert fast(graph, confidence=confidence, support=1) == slow(graph, confidence=confidence, support=1)


def test_compositions_do_not_depend_on_the_memory_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = np.random.default_rng(0)
    rows = [(f"e{h}", f"r{r}", f"e{t}") for h, r, t in draw.integers(0, [20, 4, 20], size=(300, 3))]
    graph = Graph.from_triples(rows)
    whole = fast(graph, confidence=0.1, support=2)
    monkeypatch.setattr(compositions, "AT_ONCE", 7)
    monkeypatch.setattr(compositions, "COLUMNS", 3)
    assert whole
    assert fast(graph, confidence=0.1, support=2) == whole == slow(graph, confidence=0.1, support=2)


def test_first_pair_above_the_memory_bound_is_processed_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    both = [(f"{a}{n}", "r", f"{b}{n}") for n in range(3) for a, b in permutations("xyz", 2)]
    pieces, paths = [], compositions._paths

    def watched(*pairs: Any, **how: Any) -> Iterator[Any]:
        for piece in paths(*pairs, **how):
            pieces.append(len(set(piece[2].tolist())))
            yield piece

    monkeypatch.setattr(compositions, "_paths", watched)
    monkeypatch.setattr(compositions, "AT_ONCE", 1)
    assert len(find_compositions(Graph.from_triples(both), confidence=0.5, support=1))
    assert pieces == [1] * 18


def test_composition_father_father_is_found() -> None:
    rows = [(f"child{i}", "father", f"father{i}") for i in range(5)]
    rows += [(f"father{i}", "father", f"grandfather{i}") for i in range(5)]
    rows += [(f"child{i}", "grandfather", f"grandfather{i}") for i in range(4)]
    found = find_compositions(Graph.from_triples(rows), confidence=0.8, support=3)
    assert found.support.tolist() == [4, 4, 4]
    place = [found.third.tolist().index(1)]
    assert found.confidence[place].tolist() == [0.8]
    assert found.coverage[place].tolist() == [1.0]


def test_graphs_without_paths_have_no_compositions() -> None:
    assert len(find_compositions(Graph.from_triples([]), confidence=0.5, support=1)) == 0
    assert len(find_compositions(Graph.from_triples([("a", "r", "a")]), confidence=0.5, support=1)) == 0
