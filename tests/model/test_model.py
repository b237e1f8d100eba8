"""Scores and sizes of models."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracle import scores as oracle
from tests.oracle.models import model_of, rows
from tests.oracle.specs import NAMED, TIED_FIVE_STARS, Spec, every_spec, specs

from conjoin.errors import FormError, UsageError
from conjoin.model.model import Model

SPECS = every_spec()


def check_scores(spec: Spec, rank: int, seed: int) -> None:
    model = model_of(spec, rank=rank, seed=seed)
    h, r = torch.tensor([0, 3, 6, 3, 1]), torch.tensor([0, 3, 1, 3, 2])
    found = model.scores(h, r)
    entities, relations = rows(model.entities.weight), rows(model.relations)
    for i in range(len(h)):
        expected = oracle.scores(spec, entities, relations[r[i]], int(h[i]))
        assert found[i].tolist() == pytest.approx(expected, rel=1e-10, abs=1e-10)


@pytest.mark.parametrize("name", SPECS)
def test_scores_equal_the_oracle(name: str) -> None:
    check_scores(SPECS[name], rank=6, seed=1)


@settings(max_examples=40, deadline=None)
@given(specs(), st.sampled_from([2, 4]), st.integers(0, 10**6))
def test_scores_of_any_tie_pattern_equal_the_oracle(spec: Spec, rank: int, seed: int) -> None:
    check_scores(spec, rank, seed)


def test_parameters_on_fb15k_237() -> None:
    tied = dict.fromkeys(TIED_FIVE_STARS, 15_489_000)
    expected = {
        "5star": 16_437_000,
        "5star-halfreg": 16_437_000,
        "complex": 15_015_000,
        "complex-conj": 14_778_000,
        **tied,
    }
    found = {}
    for name in expected:
        model = Model(name, 14541, 237, rank=500)
        found[name] = model.n_parameters
        assert model.n_parameters == sum(parameter.numel() for parameter in model.parameters())
        assert model.n_relation_parameters == model.n_parameters - 14541 * 1000
    assert found == expected


@pytest.mark.parametrize("name", SPECS)
def test_an_entity_is_two_reals_per_rank_and_all_forms_share_the_entities(name: str) -> None:
    model = Model(SPECS[name].text(), 9, 2, rank=4, seed=5)
    assert model.entities.weight.shape == (9, 8)
    assert model.relations.shape == (4, SPECS[name].relation_width(4))
    assert torch.equal(model.entities.weight, Model("complex", 9, 2, rank=4, seed=5).entities.weight)
    assert not torch.equal(model.entities.weight, Model("complex", 9, 2, rank=4, seed=6).entities.weight)
    assert 0 < model.entities.weight.abs().max() < 1e-2
    assert 0 < model.relations.abs().max() < 1e-2


def test_initial_scale_and_dtype() -> None:
    small, large = (Model("5star", 50, 2, rank=8, scale=scale).entities.weight for scale in (1e-3, 1.0))
    torch.testing.assert_close(small * 1e3, large)
    assert (
        Model("5star", 5, 2, rank=2, dtype=torch.float64).scores(torch.tensor([0]), torch.tensor([0])).dtype
        == torch.float64
    )


def test_initial_weights_do_not_depend_on_torch_defaults() -> None:
    usual = Model("5star", 20, 2, rank=4)
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    torch.set_default_device("meta")
    try:
        other = Model("5star", 20, 2, rank=4)
    finally:
        torch.set_default_dtype(before)
        torch.set_default_device(None)
    assert torch.equal(usual.entities.weight, other.entities.weight)
    assert torch.equal(usual.relations, other.relations)


def test_seeds_must_be_integers() -> None:
    assert torch.equal(
        *(Model("5star", 5, 2, rank=2, seed=one).relations for one in (1, np.int64(1)))  # type: ignore[arg-type]
    )
    with pytest.raises(TypeError, match="integer"):
        Model("5star", 5, 2, rank=2, seed=1.0)  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", [torch.float16, torch.int64, torch.complex64])
def test_types_that_cannot_be_trained_are_refused(dtype: torch.dtype) -> None:
    with pytest.raises(UsageError, match=f"{dtype}.*float32, float64, bfloat16"):
        Model("complex", 5, 2, rank=4, dtype=dtype)


@pytest.mark.parametrize("name", ["complex", "quate"])
def test_relations_do_not_repeat_the_entities(name: str) -> None:
    """These forms have relation rows as wide as entity rows, the same block of numbers if drawn from one stream."""
    model = Model(name, 8, 4, rank=4)
    assert model.relations.shape == model.entities.weight.shape
    assert not torch.isin(model.relations, model.entities.weight).any()


def test_factors_are_those_of_the_batch() -> None:
    spec = NAMED["5star-conj"]
    model = model_of(spec)
    batch = torch.tensor([1, 2]), torch.tensor([3, 0]), torch.tensor([2, 2])
    found = model.factors(("head", "relation", "tail"), *batch).values()
    entities, relations = rows(model.entities.weight), rows(model.relations)
    for i, (h, r, t) in enumerate([(1, 3, 2), (2, 0, 2)]):
        ends = [[abs(z) for z in oracle.tail(entities[end])] for end in (h, t)]
        for squared, factor in zip(found, (ends[0], oracle.modulus(spec, relations[r]), ends[1]), strict=True):
            assert squared[i].tolist() == pytest.approx([m**2 for m in factor])


def test_impossible_models_are_refused() -> None:
    with pytest.raises(FormError, match="got 3"):
        Model("complex", 5, 2, rank=3)
    for entities, relations in ((0, 1), (1, 0)):
        with pytest.raises(UsageError, match=f"{entities} entities and {relations} relations"):
            Model("5star", entities, relations, rank=3)


@pytest.mark.parametrize("device", ["cuda:99", "cdua"])
def test_missing_devices_are_refused_by_name(device: str) -> None:
    with pytest.raises(UsageError, match=f"device '{device}'"):
        Model("complex", 3, 1, rank=2, device=device)
