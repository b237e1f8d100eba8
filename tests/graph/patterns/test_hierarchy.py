from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conjoin.graph.graph import Graph
from conjoin.graph.patterns.hierarchy import DEEPEST, measure_hierarchy

pytest.importorskip("scipy", reason="relation patterns need SciPy: pip install 'conjoin[study]'")


def measured(pairs: list[tuple[str, str]]) -> tuple[float, float, int, bool]:
    found = measure_hierarchy(Graph.from_triples([(h, "r", t) for h, t in pairs]))
    return float(found.order[0]), float(found.parents[0]), int(found.depth[0]), bool(found.upward[0])


def test_hierarchy_of_a_tree_is_found_in_both_directions() -> None:
    tree = [("b", "a"), ("c", "a"), ("d", "b"), ("e", "b")]
    assert measured(tree) == (1.0, 1.0, 2, True)
    assert measured([(t, h) for h, t in tree]) == (1.0, 1.0, 2, False)


def test_star_has_one_level() -> None:
    assert measured([(leaf, "hub") for leaf in "abcd"])[2] == 1


def test_second_parent_lowers_the_share_of_single_parents() -> None:
    order, parents, _, _ = measured([("c", "a"), ("c", "b"), ("d", "c"), ("e", "c")])
    assert (order, parents) == (1.0, 0.75)


def test_links_on_cycles_lower_the_order() -> None:
    assert measured([("a", "b"), ("b", "c"), ("c", "a")])[0] == 0
    assert measured([("a", "b"), ("b", "a"), ("c", "a"), ("d", "c")])[0] == 0.5


def test_link_between_two_cycles_is_not_on_a_cycle() -> None:
    pairs = [("a", "b"), ("b", "a"), ("b", "c"), ("c", "d"), ("d", "c")]
    assert measured(pairs)[0] == pytest.approx(0.2)


def test_long_chains_are_cut_at_the_depth_limit() -> None:
    assert measured([(f"e{i:04}", f"e{i + 1:04}") for i in range(3 * DEEPEST)])[2] == DEEPEST


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(st.sampled_from("abcdefg"), st.sampled_from("abcdefg")), min_size=1, max_size=14))
def test_likeness_is_1_exactly_for_forests(pairs: list[tuple[str, str]]) -> None:
    links = {(h, t) for h, t in pairs if h != t}
    found = measure_hierarchy(Graph.from_triples([(h, "r", t) for h, t in pairs]))
    assert np.isclose(found.likeness[0], 1) == bool(links and (forest(links) or forest({(t, h) for h, t in links})))


def forest(links: set[tuple[str, str]]) -> bool:
    """One parent each, and from every child the way up ends."""
    parent = dict(links)
    if len(parent) < len(links):
        return False
    for start in parent:
        place, steps = start, 0
        while place in parent and steps <= len(links):
            place, steps = parent[place], steps + 1
        if place in parent:
            return False
    return True
