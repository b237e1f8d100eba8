"""The fused step against a float64 step: on a GPU where triton compiles, elsewhere in triton's interpreter."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import cast

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

from conjoin.errors import UsageError
from conjoin.forms.base import Form
from conjoin.forms.notation import parse
from conjoin.model.model import Model
from conjoin.training.recipe import Recipe
from conjoin.training.steps import choose as steps
from conjoin.training.steps.choose import TrainingStep, optimizer_for, usual_precision, why_not

pytest.importorskip("triton", reason="triton is not installed: it is for Linux only")

from conjoin.kernels.fused_table import Tile
from conjoin.training.steps import fused
from conjoin.training.steps.fused import FusedStep, grouped

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SMALL = Tile(16, 16, 16, 4, 2)
FORMS = [
    "complex",
    "complex-conj",
    "complex-twin",
    "ComplEx(a2=conj(a1), layout=published)",
    "5star",
    "5star-conj",
    "5star-neg",
    "5star-vert",
    "5star-horiz",
    "5star-halfreg",
    "FiveStar(c=-conj(b), d=conj(a), quotient=aligned)",
    "FiveStar(quotient=mobius)",
    "FiveStar(c=conj(b), d=conj(a), quotient=mobius)",
    "FiveStar(b=0, c=0)",
    "pair",
    "quate",
    "Pair(c=-conj(b), d=conj(a), unit=true)",
]


@pytest.fixture(autouse=True)
def half_that_the_interpreter_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Triton's interpreter multiplies bfloat16 numbers as if their bits were integers; float16 takes the same path."""
    if DEVICE == "cpu":
        halves = {"bf16": torch.float16, "tf32": torch.float32}
        monkeypatch.setattr(fused, "precision_of", halves.__getitem__)


def questions(entities: int, relations: int, count: int, seed: int) -> Tensor:
    """Few different heads, so that rows repeat within a batch, as heads, as answers and as both."""
    source = torch.Generator().manual_seed(seed)
    highs = (max(1, entities // 3), 2 * relations, entities)
    return torch.stack([torch.randint(high, (count,), generator=source) for high in highs], dim=1).to(DEVICE)


def difference(
    form: str, recipe: Recipe, *, entities: int = 21, relations: int = 3, rank: int = 6, budget: int | None = None
) -> tuple[float, float, float]:
    """Largest relative errors of losses, and relative errors of both tables, after an epoch with a short last batch."""
    exact, ours = (
        Model(form, entities, relations, rank=rank, scale=0.5, dtype=dtype, device=DEVICE, budget=budget, seed=3)
        for dtype in (torch.float64, torch.float32)
    )
    plain = TrainingStep(exact, replace(recipe, precision="fp32"))
    step = FusedStep(ours, recipe, optimizer_for(ours, recipe), tile=SMALL)
    asked = questions(entities, relations, 2 * recipe.batch + recipe.batch // 2 + 1, seed=entities)
    wanted = torch.stack([plain(batch) for batch in plain.batches(asked)])
    found = torch.stack([step(batch) for batch in step.batches(asked)])
    tables = [(ours.entities.weight, exact.entities.weight), (ours.relations, exact.relations)]
    far = [float((a.detach() - b.detach()).norm() / b.detach().norm()) for a, b in tables]
    return float(((found - wanted) / wanted).abs().max()), far[0], far[1]


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_a_form_in_registers_learns_as_its_formula_says(form: str) -> None:
    recipe = Recipe(batch=5, lr=0.05, n3=0.1, f2=0.03, precision="tf32")
    limit = 1e-5 if DEVICE == "cpu" else 2e-2
    assert max(difference(form, recipe)) < limit


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", ["adagrad", "adam", "sgd"])
@pytest.mark.parametrize("precision", ["tf32", "bf16"])
def test_every_optimiser_in_every_precision(optimizer: str, precision: str) -> None:
    recipe = Recipe(batch=5, lr=0.02, n3=0.1, optimizer=optimizer, precision=precision)  # type: ignore[arg-type]
    limit = 2e-2 if DEVICE == "cuda" else 1e-3 if precision == "bf16" else 1e-5
    assert max(difference("5star-conj", recipe)) < limit


@pytest.mark.slow
@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    entities=st.integers(1, 50),
    relations=st.integers(1, 4),
    rank=st.integers(1, 9),
    batch=st.integers(1, 18),
    budget=st.sampled_from([None, 2048]),
)
def test_ragged_shapes(entities: int, relations: int, rank: int, batch: int, budget: int | None) -> None:
    recipe = Recipe(batch=batch, lr=0.05, n3=0.01, precision="tf32")
    limit = 2e-5 if DEVICE == "cpu" else 2e-2
    errors = difference("5star-neg", recipe, entities=entities, relations=relations, rank=rank, budget=budget)
    assert max(errors[1:]) < limit


@pytest.mark.slow
def test_chunks_change_nothing() -> None:
    recipe = Recipe(batch=5, lr=0.05, n3=0.1, precision="tf32")
    assert max(difference("complex-conj", recipe, entities=70, budget=16 * 16 * 4)) < (
        2e-2 if DEVICE == "cuda" else 1e-5
    )


@pytest.mark.slow
def test_wrong_answers_far_above_the_right_one_do_not_end_a_training() -> None:
    """exp(q·E - s_t) overflows float32 at 89."""
    recipe = Recipe(batch=4, lr=0.1, precision="tf32")
    model = Model("quate", 30, 2, rank=8, scale=20.0, device=DEVICE)
    step = FusedStep(model, recipe, optimizer_for(model, recipe), tile=SMALL)
    asked = questions(30, 2, 8, seed=1)
    losses = [float(torch.stack([step(batch) for batch in step.batches(asked)])[:, 0].sum()) for _ in range(12)]
    assert (
        float(TrainingStep(Model("quate", 30, 2, rank=8, scale=20.0), replace(recipe, precision="fp32"))(asked)[0])
        > 8 * 89
    )
    assert all(map(math.isfinite, losses))
    assert losses[-1] < losses[0]


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")  # NumPy in the interpreter meets inf - inf
@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
def test_a_number_that_is_not_finite_is_not_hidden(bad: float) -> None:
    recipe = Recipe(batch=4, lr=0.1, precision="tf32")
    model = Model("complex", 13, 2, rank=4, device=DEVICE)
    with torch.no_grad():
        model.entities.weight[5, 2] = bad
    step = FusedStep(model, recipe, optimizer_for(model, recipe), tile=SMALL)
    costs = torch.stack([step(batch) for batch in step.batches(questions(13, 2, 8, seed=1))])
    assert not costs[-1].isfinite().all()


@pytest.mark.slow
def test_fused_training_continues_from_a_loaded_checkpoint() -> None:
    """Loading replaces the state's tensors: kernels bound to the old ones would train on garbage."""
    recipe = Recipe(batch=4, lr=0.1, precision="tf32")
    asked = questions(13, 2, 8, seed=1)

    def trained(*, reload: bool) -> Tensor:
        model = Model("complex", 13, 2, rank=4, scale=0.3, device=DEVICE)
        optimizer = optimizer_for(model, recipe)
        step = FusedStep(model, recipe, optimizer, tile=SMALL)
        for _ in range(2):
            for batch in step.batches(asked):
                step(batch)
            if reload:
                optimizer.remember(dict(optimizer.remembered()))
        return model.entities.weight.detach().clone()

    assert torch.equal(trained(reload=True), trained(reload=False))


@given(st.lists(st.integers(0, 5), min_size=1, max_size=20))
def test_groups_say_where_each_distinct_id_begins(ids: list[int]) -> None:
    found = grouped(torch.tensor([ids], dtype=torch.int32), 6)
    sorted_ids = found.ids[0].tolist()
    assert sorted_ids == sorted(ids)
    assert [ids[i] for i in found.order[0].tolist()] == sorted_ids
    starts = [i for i in found.starts[0].tolist() if i < len(ids)]
    assert starts == [sorted_ids.index(one) for one in sorted(set(ids))]


@pytest.mark.parametrize(
    ("able", "recipe", "form", "told"),
    [
        (True, Recipe(precision="bf16"), "complex", "; gradients by bf16 products"),
        (False, Recipe(precision="bf16"), "complex", "; fp32: this processor"),
        (True, Recipe(precision="tf32"), "complex", "; fp32: tf32 is for GPUs"),
        (True, Recipe(precision="bf16", negatives=3), "complex", "; fp32: the softmax is sampled"),
        (True, Recipe(precision="bf16"), "complex(layout=published)", "; fp32: the form reads"),
        (True, Recipe(), "complex", "budget"),
        (True, Recipe(negatives=3), "complex", "sampled by 3 entities"),
    ],
)
def test_a_cpu_says_in_which_precision_it_computes(
    monkeypatch: pytest.MonkeyPatch, able: bool, recipe: Recipe, form: str, told: str
) -> None:
    monkeypatch.setattr(steps, "has_bf16_products", lambda: able)
    model = Model(form, 5, 1, rank=2)
    assert told in TrainingStep(model, recipe).path
    assert "CUDA" in str(why_not(model, Recipe(precision="bf16")))


def test_a_cpu_rounds_the_factors_of_gradients_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first loss is that of fp32 to the last bit; what the tables move differs by the rounding."""
    monkeypatch.setattr(steps, "has_bf16_products", lambda: True)
    batch = torch.tensor([[0, 0, 1], [2, 1, 0], [0, 0, 3], [4, 1, 4]])
    losses, moved = {}, {}
    for precision in ("fp32", "bf16"):
        model = Model("5star-conj", 40, 2, rank=6, seed=1, scale=0.5)
        before = model.entities.weight.detach().clone()
        step = TrainingStep(model, Recipe(precision=precision, batch=4, optimizer="sgd", lr=0.1, n3=0.01))
        losses[precision] = step(batch)
        moved[precision] = model.entities.weight.detach() - before
    assert torch.equal(losses["fp32"], losses["bf16"])
    off = float((moved["fp32"] - moved["bf16"]).norm() / moved["fp32"].norm())
    assert 1e-6 < off < 2**-7


def test_the_usual_precision_is_the_fastest_that_can_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = torch.device("cuda")
    monkeypatch.setattr(steps, "_lacking", lambda _: None)
    form = parse("5star")
    assert usual_precision(gpu, form) == "bf16"
    assert usual_precision(gpu, form, settings={"negatives": 100}) == usual_precision(gpu, form, processes=2) == "tf32"
    assert usual_precision(gpu, cast("Form", object())) == "tf32", "a family of another package has no kernels"
    monkeypatch.setattr(steps, "_lacking", lambda _: "triton is not installed")
    assert usual_precision(gpu, form) == "tf32"
    assert usual_precision(torch.device("cpu"), form) == "fp32"


@pytest.mark.slow
def test_spans_of_an_epoch_train_as_the_epoch_does() -> None:
    """The last span is shorter: its steps stand in the buffers of the others."""
    recipe = Recipe(batch=4, lr=0.1, precision="tf32")
    asked = questions(13, 2, 22, seed=1)

    def trained(span: int) -> tuple[Tensor, Tensor]:
        model = Model("complex", 13, 2, rank=4, scale=0.3, device=DEVICE)
        step = FusedStep(model, recipe, optimizer_for(model, recipe), tile=SMALL)
        costs = []
        for _ in range(2):
            for part in torch.split(asked, span):
                costs.append(torch.stack([step(number) for number in step.batches(part)]))
        return model.entities.weight.detach().clone(), torch.cat(costs)

    for found, wanted in zip(trained(8), trained(22), strict=True):
        assert torch.equal(found, wanted)


def test_a_training_that_was_stopped_may_begin_with_a_later_step() -> None:
    recipe = Recipe(batch=4, lr=0.1, precision="tf32")
    asked = questions(13, 2, 12, seed=1)

    def trained(part: Tensor, number: int) -> tuple[Tensor, Tensor]:
        model = Model("complex", 13, 2, rank=4, scale=0.3, device=DEVICE)
        step = FusedStep(model, recipe, optimizer_for(model, recipe), tile=SMALL)
        assert len(step.batches(part)) > number
        return step(number).clone(), model.entities.weight.detach()

    for found, wanted in zip(trained(asked, 2), trained(asked[8:], 0), strict=True):
        assert torch.equal(found, wanted)


def test_bf16_is_refused_on_a_gpu_without_its_kernels_also_to_a_run_that_began_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = Model("complex", 5, 2, rank=4)
    monkeypatch.setattr(Model, "device", torch.device("cuda"))
    with pytest.raises(UsageError, match="bf16"):
        TrainingStep(model, Recipe(precision="bf16", negatives=2))
    assert TrainingStep(model, Recipe(precision="tf32", negatives=2)).path.endswith("not fused: the softmax is sampled")
