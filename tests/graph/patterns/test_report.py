from __future__ import annotations

import numpy as np
import pytest

from conjoin.errors import UsageError
from conjoin.graph.graph import Graph
from conjoin.graph.patterns.report import NONE, PatternReport, Thresholds, find_patterns

pytest.importorskip("scipy", reason="relation patterns need SciPy: pip install 'conjoin[study]'")
FEW = Thresholds(support=2)


def portrait(train: list[tuple[str, str, str]], test: list[tuple[str, str, str]] | None = None) -> PatternReport:
    return find_patterns(Graph.from_triples(train, None, test), FEW)


def test_symmetry_is_found_across_splits() -> None:
    found = portrait([("a", "s", "b"), ("c", "s", "d")], [("b", "s", "a"), ("d", "s", "c")])
    assert found.symmetric.support.tolist() == [4]
    assert found.symmetric.confidence.tolist() == [1.0]
    assert found.patterns_of(0) == ["symmetric"]


def test_disjoint_heads_and_tails_do_not_count_as_antisymmetric() -> None:
    assert portrait([("ann", "born_in", "paris"), ("bob", "born_in", "rome")]).antisymmetric.support.tolist() == [0]
    chain = portrait([("a", "above", "b"), ("b", "above", "c"), ("c", "above", "d"), ("d", "above", "e")])
    assert chain.antisymmetric.support.tolist() == [2]
    assert "antisymmetric" in chain.patterns_of(0)


def test_self_loops_do_not_count_as_symmetric() -> None:
    found = portrait([("a", "r", "a"), ("b", "r", "b"), ("c", "r", "c")])
    assert found.pairs.tolist() == [0]
    assert found.patterns_of(0) == []
    assert found.plain.tolist() == [True]


def test_inverse_pairs_and_copies_are_found() -> None:
    rows = [(f"x{i}", "owns", f"y{i}") for i in range(4)]
    rows += [(f"y{i}", "owned_by", f"x{i}") for i in range(4)]
    rows += [(f"x{i}", "has", f"y{i}") for i in range(4)]
    told = portrait(rows).to_json()
    assert {(each["relation"], each["other"]) for each in told["inverses"]} == {
        ("has", "owned_by"),
        ("owned_by", "owns"),
    }
    assert [(each["relation"], each["other"]) for each in told["copies"]] == [("has", "owns")]


def test_groups_overlap_and_cover_everything() -> None:
    rows = [("a", "s", "b"), ("b", "s", "a"), ("a", "plain", "b")]
    found = portrait(rows)
    asked = found.graph.train[:, 1]
    groups = found.groups(asked)
    assert set(groups) == {"symmetric", NONE}
    assert np.logical_or.reduce(list(groups.values())).all()


@pytest.mark.parametrize("wrong", [{"confidence": 0.0}, {"composition": 1.5}, {"support": 0}])
def test_invalid_thresholds_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(UsageError):
        Thresholds(**wrong)  # type: ignore[arg-type]


def test_empty_graph_has_an_empty_report() -> None:
    assert find_patterns(Graph.from_triples([])).to_json()["relations"] == []
