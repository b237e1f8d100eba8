from __future__ import annotations

import json

import pytest
from tests.benchmarks import benchmark_folder

from conjoin.graph.graph import Graph
from conjoin.graph.statistics import Measure, graph_statistics
from conjoin.io.read_graph import read_graph


@pytest.fixture(scope="module")
def family() -> Graph:
    """Can be counted by hand: a repeated line, two exact leaks, a self-loop, an unseen entity, a new relation."""
    return Graph.from_triples(
        [
            ("ann", "parent", "bob"),
            ("ann", "parent", "cid"),
            ("ann", "parent", "cid"),
            ("cid", "child", "ann"),
            ("bob", "child", "ann"),
            ("dee", "married", "ann"),
            ("bob", "likes", "bob"),
        ],
        [("ann", "married", "dee"), ("eve", "likes", "bob")],
        [("ann", "parent", "bob"), ("cid", "child", "ann"), ("bob", "fears", "eve"), ("cid", "likes", "dee")],
        name="family",
        notes=["counted by hand"],
    )


def test_sizes_are_the_row_of_the_dataset_table(family: Graph) -> None:
    sizes = graph_statistics(family).sizes
    assert (sizes.train, sizes.valid, sizes.test) == (7, 2, 4)
    assert (sizes.entities, sizes.relations, sizes.examples) == (5, 5, 14)


def test_degrees_count_training_triples_of_all_entities(family: Graph) -> None:
    degrees = graph_statistics(family).degrees
    assert (degrees.minimum, degrees.median, degrees.mean, degrees.maximum) == (0, 3, 14 / 5, 6)
    assert (degrees.once.count, degrees.once.of) == (1, 5)


def test_relations_are_sorted_by_frequency_with_their_cardinality(family: Graph) -> None:
    rows = graph_statistics(family).relations
    assert [row.relation for row in rows] == ["parent", "child", "likes", "married", "fears"]
    parent, fears = rows[0], rows[-1]
    assert (parent.train, parent.valid, parent.test) == (3, 0, 1)
    assert (parent.tails_per_head, parent.heads_per_tail, parent.cardinality) == (2.0, 1.0, "1-n")
    assert (fears.train, fears.test, fears.tails_per_head, fears.cardinality) == (0, 1, None, None)


def test_cardinality_rows_add_up(family: Graph) -> None:
    rows = graph_statistics(family).cardinalities
    assert [(row.cardinality, row.relations, row.train, row.test) for row in rows] == [
        ("1-1", 2, 2, 1),
        ("1-n", 1, 3, 1),
        ("n-1", 1, 2, 1),
        ("n-n", 0, 0, 0),
        (None, 1, 0, 1),
    ]


def test_repeats_within_and_between_splits(family: Graph) -> None:
    repeats = graph_statistics(family).repeats
    assert (repeats.within_train.count, repeats.within_valid.count, repeats.within_test.count) == (1, 0, 0)
    assert (repeats.valid_in_train.count, repeats.test_in_train.count, repeats.test_in_valid.count) == (0, 2, 0)
    assert (repeats.self_loops.count, repeats.self_loops.of) == (1, 13)


def test_leakage_by_every_definition(family: Graph) -> None:
    leakage = graph_statistics(family).leakage
    assert (leakage.linked.count, leakage.reverse.count, leakage.parallel.count) == (2, 2, 2)
    assert (leakage.mirrored.count, leakage.symmetric.count, leakage.inverse.count) == (2, 0, 2)
    assert leakage.linked.share == 0.5


def test_mirrors_are_listed_with_their_evidence(family: Graph) -> None:
    found = [
        (row.pattern, row.relation, row.other, row.support, row.confidence) for row in graph_statistics(family).mirrors
    ]
    assert found == [("inverse", "child", "parent", 2, 1.0), ("symmetric", "married", "married", 2, 1.0)]


def test_unseen_entities_and_relations(family: Graph) -> None:
    unseen = graph_statistics(family).unseen
    assert (unseen.entities.count, unseen.valid_triples.count, unseen.test_triples.count) == (1, 1, 1)
    assert (unseen.relations, unseen.relation_test_triples.count) == (("fears",), 1)


def test_json_is_plain_and_defines_each_count(family: Graph) -> None:
    plain = graph_statistics(family).to_json()
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain
    assert list(plain)[:3] == ["name", "sizes", "degrees"]
    assert plain["sizes"]["examples"] == 14
    assert plain["leakage"]["linked"]["share"] == 0.5
    assert "any direction" in plain["leakage"]["linked"]["definition"]
    assert plain["notes"] == ["counted by hand"]


def test_empty_graph_has_statistics() -> None:
    empty = graph_statistics(Graph.from_triples([]))
    assert empty.sizes.train == empty.degrees.maximum == 0
    assert empty.leakage.linked.share is None
    json.dumps(empty.to_json(), allow_nan=False)


def test_leakage_of_an_empty_test_split_is_zero() -> None:
    found = graph_statistics(Graph.from_triples([("a", "r", "b"), ("b", "r", "a")]))
    assert found.leakage.reverse == Measure(0, 0, found.leakage.reverse.definition)
    assert found.mirrors[0].pattern == "symmetric"


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "linked", "reverse", "mirrored", "test"),
    [
        ("WN18", 0.9396, 0.9396, 0.9316, (42, 1847, 1981, 1130)),
        ("FB15K", 0.8093, 0.7756, 0.7180, (963, 5645, 9332, 43131)),
        ("WN18RR", 0.3497, 0.3494, 0.3357, (42, 475, 1487, 1130)),
    ],
)
def test_leakage_of_the_benchmarks(
    name: str, linked: float, reverse: float, mirrored: float, test: tuple[int, ...]
) -> None:
    found = graph_statistics(read_graph(benchmark_folder(name)))
    shares = [found.leakage.linked.share, found.leakage.reverse.share, found.leakage.mirrored.share]
    assert shares == pytest.approx([linked, reverse, mirrored], abs=5e-5)
    assert tuple(row.test for row in found.cardinalities) == test
