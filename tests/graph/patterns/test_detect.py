from __future__ import annotations

from collections import defaultdict

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from conjoin.graph.graph import Graph
from conjoin.graph.patterns.detect import CARDINALITIES, cardinality, codes, distinct, find_leaks, find_mirrors

Triple = tuple[str, str, str]

triples = st.tuples(st.sampled_from("abcde"), st.sampled_from("rsu"), st.sampled_from("abcde"))
parts = st.lists(triples, max_size=30)


def kinds(train: list[Triple]) -> dict[str, str]:
    graph = Graph.from_triples(train)
    return {
        name: CARDINALITIES[kind] for name, kind in zip(graph.relations.names, cardinality(graph).kind, strict=True)
    }


@settings(deadline=None)
@given(parts, parts)
def test_codes_are_equal_exactly_where_triples_are(first: list[Triple], second: list[Triple]) -> None:
    graph = Graph.from_triples(first, second)
    left, right = codes(graph.train, graph.valid)
    for i, a in enumerate(first):
        for j, b in enumerate(second):
            assert (left[i] == right[j]) == (a == b)


@settings(deadline=None)
@given(parts)
def test_distinct_triples_are_sorted_and_complete(train: list[Triple]) -> None:
    graph = Graph.from_triples(train)
    assert distinct(graph.train).tolist() == sorted({tuple(row): list(row) for row in graph.train.tolist()}.values())


def test_cardinality_counts_partners_on_both_sides() -> None:
    one = [("a", "one", "b"), ("c", "one", "d")]
    many_tails = [("a", "many_tails", name) for name in "bcd"]
    many_heads = [(name, "many_heads", "a") for name in "bcd"]
    both = [(h, "both", t) for h in "ab" for t in "cd"]
    expected = {"one": "1-1", "many_tails": "1-n", "many_heads": "n-1", "both": "n-n"}
    assert kinds([*one, *many_tails, *many_heads, *both]) == expected


def test_average_of_one_and_a_half_partners_counts_as_many() -> None:
    assert kinds([("a", "r", "x"), ("a", "r", "y"), ("b", "r", "z")]) == {"r": "1-n"}
    assert kinds([("a", "r", "x"), ("a", "r", "y"), ("b", "r", "z"), ("c", "r", "w")]) == {"r": "1-1"}


def test_repeated_lines_do_not_change_the_cardinality() -> None:
    assert kinds([("a", "r", "x")] * 5) == {"r": "1-1"}


def test_relation_without_training_facts_has_no_cardinality() -> None:
    graph = Graph.from_triples([("a", "r", "b")], [("a", "s", "b")])
    assert cardinality(graph).kind.tolist() == [0, -1]
    assert np.isnan(cardinality(graph).tails_per_head[1])


def test_mirrors_are_found_across_splits() -> None:
    graph = Graph.from_triples(
        [("a", "near", "b"), ("c", "near", "d"), ("d", "near", "c"), ("a", "parent", "c"), ("b", "parent", "d")],
        [("b", "near", "a")],
        [("c", "child", "a"), ("d", "child", "b"), ("e", "alone", "f"), ("f", "alone", "g")],
    )
    mirrors = find_mirrors(graph)
    names = graph.relations.names
    found = [(names[a], names[b]) for a, b in zip(mirrors.relation, mirrors.other, strict=True)]
    assert found == [("child", "parent"), ("near", "near")]
    assert mirrors.support.tolist() == [2, 4]
    assert mirrors.confidence.tolist() == [1.0, 1.0]


def test_a_relation_of_self_loops_is_not_called_symmetric() -> None:
    assert len(find_mirrors(Graph.from_triples([(name, "same", name) for name in "abcdef"]))) == 0


def test_a_part_of_a_larger_relation_is_not_its_inverse() -> None:
    wide = [("a", "wide", str(i)) for i in range(10)]
    narrow = [(str(i), "narrow", "a") for i in range(3)]
    assert len(find_mirrors(Graph.from_triples([*wide, *narrow]))) == 0
    assert len(find_mirrors(Graph.from_triples([*wide, *narrow]), confidence=0.3)) == 1


@settings(deadline=None)
@given(parts, st.sampled_from([0.3, 0.5, 0.8, 1.0]), st.integers(1, 3))
def test_mirrors_equal_a_brute_force_count(train: list[Triple], confidence: float, support: int) -> None:
    graph = Graph.from_triples(train)
    pairs: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for h, r, t in train:
        if h != t:
            pairs[r].add((h, t))
    expected = {}
    for r, forward in pairs.items():
        for s, backward in pairs.items():
            met = sum((t, h) in backward for h, t in forward)
            share = min(met / len(forward), met / len(backward))
            if r <= s and met >= support and share >= confidence:
                expected[r, s] = (met, share)
    mirrors = find_mirrors(graph, confidence=confidence, support=support)
    names = graph.relations.names
    found = {
        (names[mirrors.relation[i]], names[mirrors.other[i]]): (mirrors.support[i], mirrors.confidence[i])
        for i in range(len(mirrors))
    }
    assert found == expected


@settings(deadline=None)
@given(parts, parts)
def test_leaks_equal_a_brute_force_search(train: list[Triple], test: list[Triple]) -> None:
    graph = Graph.from_triples(train, None, test)
    mirrors = find_mirrors(graph, confidence=0.5)
    names = graph.relations.names
    mirrored = {(names[a], names[b]) for a, b in zip(mirrors.relation, mirrors.other, strict=True)}
    mirrored |= {(b, a) for a, b in mirrored}
    leaks = find_leaks(graph, mirrors)
    for i, (h, r, t) in enumerate(test):
        back = {s for a, s, b in train if (a, b) == (t, h)}
        assert leaks.reverse[i] == bool(back)
        assert leaks.parallel[i] == any((a, b) == (h, t) for a, _, b in train)
        assert leaks.symmetric[i] == (r in back and (r, r) in mirrored)
        assert leaks.inverse[i] == any(s != r and (r, s) in mirrored for s in back)


def test_average_below_one_and_a_half_partners_counts_as_one() -> None:
    facts = [(f"h{i % 5}", "r", f"t{i}") for i in range(7)]
    assert kinds(facts) == {"r": "1-1"}
