"""Planted graphs, what follows from them, and that the miner finds just that."""

from __future__ import annotations

import numpy as np
import pytest

from conjoin.datasets.load import load
from conjoin.errors import ConjoinError
from conjoin.graph.patterns.report import USUAL
from conjoin.graph.patterns.rules import recovery
from conjoin.graph.synthetic import FAMILIES, FEWEST, SyntheticSpec, generate

pytest.importorskip("scipy", reason="relation patterns need SciPy: pip install 'conjoin[study]'")


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(("entities", "seed"), [(FEWEST, 0), (120, 1), (150, 2)])
def test_without_noise_the_miner_finds_exactly_the_planted_rules(family: str, entities: int, seed: int) -> None:
    planted = generate(SyntheticSpec(family=family, entities=entities, seed=seed))
    found = recovery(planted.theory, planted.graph)
    assert not found.missed
    assert not found.invented
    assert (found.precision, found.recall) == (1.0, 1.0)


@pytest.mark.parametrize("family", ["symmetric", "inverse", "composition", "dihedral"])
def test_noise_changes_its_share_of_the_facts(family: str) -> None:
    clean, noisy = (generate(SyntheticSpec(family=family, entities=150, noise=noise)).graph for noise in (0.0, 0.2))
    facts = [
        {
            (g.entities.names[h], r, g.entities.names[t])
            for split in (g.train, g.valid, g.test)
            for h, r, t in split.tolist()
        }
        for g in (clean, noisy)
    ]
    assert len(facts[0]) == len(facts[1])
    assert len(facts[1] - facts[0]) / len(facts[0]) == pytest.approx(0.2, abs=0.05)


def test_all_noise_leaves_no_composition() -> None:
    planted = generate(SyntheticSpec(family="composition", noise=1.0))
    assert not recovery(planted.theory, planted.graph, USUAL).closure & recovery(planted.theory, planted.graph).found


@pytest.mark.parametrize("family", FAMILIES)
def test_synthetic_graph_is_determined_by_its_name(family: str) -> None:
    plan = SyntheticSpec(family=family, entities=110, noise=0.1, seed=3)
    assert SyntheticSpec.parse(str(plan)) == plan
    generate.cache_clear()
    once = generate(plan).graph
    generate.cache_clear()
    assert load(str(plan)).checksum == once.checksum
    assert load(str(SyntheticSpec(family=family, entities=110, noise=0.1, seed=4))).checksum != once.checksum


def test_held_out_facts_of_a_symmetric_relation_are_reversed_training_facts() -> None:
    graph = generate(SyntheticSpec(family="symmetric")).graph
    known = {(h, t) for h, _, t in graph.train.tolist()}
    held = np.concatenate([graph.valid, graph.test])
    assert len(held) > 50
    assert all((t, h) in known for h, _, t in held.tolist())


def test_held_out_facts_of_a_composition_can_be_derived() -> None:
    graph = generate(SyntheticSpec(family="composition")).graph
    first, second, third = (graph.relations.find(name) for name in ("works_for", "supplies", "works_for_supplier_of"))
    train = graph.train.tolist()
    onward = {(h, t) for h, r, t in train if r == second}
    for h, r, t in graph.test.tolist():
        assert r == third
        assert any((y, t) in onward for x, s, y in train if s == first and x == h)


@pytest.mark.parametrize(
    "text",
    ["synthetic:nothing", "synthetic:symmetric(size=3)", "synthetic:symmetric(noise=much)", "synthetic:symmetric("],
)
def test_invalid_synthetic_names_are_refused(text: str) -> None:
    with pytest.raises(ConjoinError):
        load(text)


@pytest.mark.parametrize("wrong", [{"entities": 10}, {"entities": 10**30}, {"noise": 2.0}, {"seed": -1}])
def test_invalid_synthetic_specs_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ConjoinError):
        SyntheticSpec(family="symmetric", **wrong)  # type: ignore[arg-type]
