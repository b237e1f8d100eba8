"""The loss against loops, its gradients against finite differences, and training's gradients against both."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracle import scores as oracle
from tests.oracle.memory import Allocations
from tests.oracle.models import model_of, penalty_of, rows
from tests.oracle.specs import Spec, every_spec, specs

from conjoin.training.objective import Objective, loss
from conjoin.training.penalties import FACTORS, FactorPenalty
from conjoin.training.recipe import Recipe
from conjoin.training.steps import dense
from conjoin.training.steps.dense import gradients, gradients_on_cpu

SPECS = every_spec()
WAYS = [gradients, gradients_on_cpu]
# Heads that are tails too, a repeated triple, a loop, a relation three times.
BATCH = [(0, 0, 1), (1, 3, 0), (0, 0, 1), (2, 0, 2), (5, 1, 0), (0, 3, 5)]
PENALTIES = {"none": (0.0, 0.0), "n3": (0.3, 0.0), "f2": (0.0, 0.2), "both": (0.3, 0.2)}


@pytest.fixture(autouse=True, scope="module")
def small_batches_are_grouped_too() -> Iterator[None]:
    """Those shorter than three go the other way."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dense, "GROUPED", 3)
        yield


def recipe(name: str) -> Recipe:
    n3, f2 = PENALTIES[name]
    return Recipe(n3=n3, f2=f2)


def objective(name: str) -> Objective:
    return Objective.of(recipe(name))


def batch() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    h, r, t = torch.tensor(BATCH).unbind(1)
    return h, r, t


def check_loss(spec: Spec, name: str, rank: int, seed: int) -> None:
    model = model_of(spec, rank=rank, seed=seed)
    n3, f2 = PENALTIES[name]
    nll, cost = oracle.loss(spec, rows(model.entities.weight), rows(model.relations), BATCH, n3=n3, f2=f2)
    assert loss(model, *batch(), recipe(name)).item() == pytest.approx(nll + cost, rel=1e-10, abs=1e-10)
    for way in WAYS:
        assert way(model, *batch(), objective(name)).tolist() == pytest.approx([nll, cost], rel=1e-10, abs=1e-10)


@pytest.mark.parametrize("name", SPECS)
@pytest.mark.parametrize("kind", PENALTIES)
def test_the_loss_equals_the_oracle(name: str, kind: str) -> None:
    check_loss(SPECS[name], kind, rank=4, seed=2)


@settings(max_examples=25, deadline=None)
@given(specs(), st.sampled_from(sorted(PENALTIES)), st.integers(0, 10**6))
def test_the_loss_of_any_tie_pattern_equals_the_oracle(spec: Spec, kind: str, seed: int) -> None:
    check_loss(spec, kind, rank=2, seed=seed)


@pytest.mark.parametrize("name", SPECS)
@pytest.mark.parametrize("kind", ["n3", "f2"])
def test_the_loss_passes_gradcheck(name: str, kind: str) -> None:
    for budget in (None, 100):
        model = model_of(SPECS[name], entities=6, rank=2, seed=3, budget=budget)
        parameters = model.entities.weight, model.relations
        assert torch.autograd.gradcheck(lambda *_, m=model: loss(m, *batch(), recipe(kind)), parameters)


@pytest.mark.parametrize("budget", [None, 1, 150], ids=["dense", "one by one", "chunked"])
@pytest.mark.parametrize("kind", PENALTIES)
@pytest.mark.parametrize("name", SPECS)
def test_training_gradients_are_those_of_the_loss(name: str, kind: str, budget: int | None) -> None:
    model = model_of(SPECS[name], seed=4, budget=budget)
    reference = model_of(SPECS[name], seed=4)
    h, r, t = batch()
    plain = torch.nn.functional.cross_entropy(reference.scores(h, r), t)
    (plain + penalty_of(reference, h, r, t, recipe(kind))).backward()  # type: ignore[no-untyped-call]
    for way in WAYS:
        way(model, h, r, t, objective(kind))
        for found, wanted in zip(model.parameters(), reference.parameters(), strict=True):
            torch.testing.assert_close(found.grad, wanted.grad, rtol=1e-10, atol=1e-12)
    loss(reference, h, r, t, recipe(kind)).backward()  # type: ignore[no-untyped-call]
    for found, wanted in zip(model.parameters(), reference.parameters(), strict=True):
        assert wanted.grad is not None
        torch.testing.assert_close(found.grad, wanted.grad / 2, rtol=1e-10, atol=1e-12)


@settings(max_examples=25, deadline=None)
@given(
    triples=st.lists(st.tuples(st.integers(0, 12), st.integers(0, 3), st.integers(0, 12)), min_size=1, max_size=20),
    budget=st.one_of(st.none(), st.integers(1, 2000)),
    spec=specs(),
)
def test_any_batch_under_any_budget(triples: list[tuple[int, int, int]], budget: int | None, spec: Spec) -> None:
    model, reference = (model_of(spec, entities=13, rank=2, seed=5, budget=b) for b in (budget, None))
    h, r, t = torch.tensor(triples).unbind(1)
    loss(reference, h, r, t, recipe("both")).backward()  # type: ignore[no-untyped-call]
    for way in WAYS:
        way(model, h, r, t, objective("both"))
        for found, wanted in zip(model.parameters(), reference.parameters(), strict=True):
            torch.testing.assert_close(found.grad, wanted.grad, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("gradients", WAYS)
def test_gradients_do_not_add_up_over_batches(gradients: Callable[..., torch.Tensor]) -> None:
    model, fresh = model_of("5star-conj"), model_of("5star-conj")
    h, r, t = batch()
    gradients(model, t, r, h, objective("n3"))
    gradients(model, h[:2], r[:2], t[:2], objective("n3"))
    gradients(fresh, h[:2], r[:2], t[:2], objective("n3"))
    for found, wanted in zip(model.parameters(), fresh.parameters(), strict=True):
        assert torch.equal(found.grad, wanted.grad)  # type: ignore[arg-type]


def test_the_penalty_is_per_example() -> None:
    """Factors 1, 2 and 3 in each of two coordinates: Σ m³ = 2 · 36, Σ m² = 2 · 14, whatever the batch."""
    for size in (1, 5):
        squared = dict(zip(FACTORS, (torch.full((size, 2), modulus**2) for modulus in (1.0, 2.0, 3.0)), strict=True))
        for n3, f2, expected in ((0.5, 0.0, 36), (0.0, 0.5, 14), (0.5, 0.5, 50), (0.0, 0.0, 0)):
            assert FactorPenalty(n3, f2).per_example(squared).tolist() == pytest.approx([expected] * size)


@pytest.mark.parametrize("name", ["complex", "5star", "5star-halfreg", "quate"])
def test_factors_of_zero_have_finite_gradients(name: str) -> None:
    model = model_of(name)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    gradients(model, *batch(), objective("both"))
    assert all(bool(torch.isfinite(p.grad).all()) for p in model.parameters() if p.grad is not None)


def test_bounded_gradients_do_not_allocate_the_score_matrix() -> None:
    budget, entities = 256 << 10, 6000
    model = model_of("5star-conj", entities=entities, rank=2, budget=budget)
    h, r, t = torch.arange(64), torch.arange(64) % 4, torch.arange(64) + 64
    with Allocations() as seen:
        gradients(model, h, r, t, objective("n3"))
    assert seen.largest <= budget
    assert seen.peak <= 2 * budget + 3 * entities * 4 * 8 < 64 * entities * 8
