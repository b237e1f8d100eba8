"""Steps without a gradient of the whole table, and with a sample of it, against the plain step and slow formulas."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracle.memory import Allocations
from tests.oracle.models import penalty_of
from torch import Tensor

from conjoin.errors import UsageError
from conjoin.graph.graph import Graph
from conjoin.model.model import Model
from conjoin.model.softmax import NegativeSample
from conjoin.model.table import EntityTable
from conjoin.training.loop import train
from conjoin.training.negatives import Negatives
from conjoin.training.recipe import Recipe
from conjoin.training.steps.choose import TrainingStep

CPU = torch.device("cpu")
OPTIMIZERS = ("adagrad", "adam", "sgd")


def model_of(*, budget: int | None = None, entities: int = 30, rank: int = 3) -> Model:
    return Model("5star-conj", entities, 2, rank=rank, scale=0.5, dtype=torch.float64, budget=budget)


def examples(count: int, *, entities: int = 30, seed: int = 0) -> Tensor:
    source = torch.Generator().manual_seed(seed)
    return torch.stack([torch.randint(n, (count,), generator=source) for n in (entities, 4, entities)], dim=1)


def everyone(model: Model, t: Tensor) -> NegativeSample:
    return NegativeSample(torch.arange(len(model.entities)), torch.zeros(len(model.entities)), torch.zeros(len(t)))


@pytest.mark.parametrize(("n3", "f2"), [(0.0, 0.0), (0.1, 0.0), (0.0, 0.1)])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_tiles_and_a_full_sample_end_where_the_plain_step_does(optimizer: str, n3: float, f2: float) -> None:
    settings = {"optimizer": optimizer, "n3": n3, "f2": f2, "batch": 8, "lr": 0.05}
    plain, tiled, sampled = model_of(), model_of(budget=200), model_of()
    steps = [
        TrainingStep(plain, Recipe.from_mapping(settings)),
        TrainingStep(tiled, Recipe.from_mapping(settings)),
        TrainingStep(sampled, Recipe.from_mapping({**settings, "negatives": 30})),
    ]
    assert not plain.entities.in_tiles(8)
    assert tiled.entities.in_tiles(8)
    for number in range(4):
        batch = examples(8, seed=number)
        costs = [step(batch) for step in steps[:2]] + [steps[2](batch, everyone(sampled, batch[:, 2]))]
        torch.testing.assert_close(costs[1], costs[0], rtol=0, atol=1e-12)
        torch.testing.assert_close(costs[2], costs[0], rtol=0, atol=1e-12)
    for other in (tiled, sampled):
        torch.testing.assert_close(other.entities.weight, plain.entities.weight, rtol=0, atol=1e-12)
        torch.testing.assert_close(other.relations, plain.relations, rtol=0, atol=1e-12)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 12), st.integers(1, 40), st.integers(0, 10**6))
def test_the_sampled_loss_is_cross_entropy_over_the_target_and_the_sample(batch: int, drawn: int, seed: int) -> None:
    source = torch.Generator().manual_seed(seed)
    table = EntityTable(torch.randn(20, 4, dtype=torch.float64, generator=source))
    q = torch.randn(batch, 4, dtype=torch.float64, generator=source).requires_grad_()
    t = torch.randint(20, (batch,), generator=source)
    log_q = torch.randn(20, dtype=torch.float64, generator=source)
    ids = torch.randint(20, (drawn,), generator=source).sort().values
    gradient = torch.zeros_like(table.weight)

    def add(rows: Tensor, gradients: Tensor) -> None:
        gradient.index_add_(0, rows, gradients)

    nll, dq = table.sampled_softmax(q.detach(), t, NegativeSample(ids, log_q[ids], log_q[t]), take=add)
    losses = []
    for i in range(batch):
        target = q[i] @ table.weight[t[i]] - log_q[t[i]]
        others = [q[i] @ table.weight[e] - log_q[e] for e in ids.tolist() if e != int(t[i])]
        losses.append(torch.logsumexp(torch.stack([target, *others]), 0) - target)
    torch.stack(losses).mean().backward()  # type: ignore[no-untyped-call]
    torch.testing.assert_close(nll, torch.stack(losses).detach())
    torch.testing.assert_close(dq, q.grad)
    torch.testing.assert_close(gradient, table.weight.grad)


@pytest.mark.parametrize("negatives", [0, 5])
def test_untouched_rows_do_not_change(negatives: int) -> None:
    """Sampled, only rows of the batch and of the sample change; Adam too leaves the others alone."""
    for optimizer in OPTIMIZERS:
        model = model_of()
        before = model.entities.weight.detach().clone()
        batch = examples(3)
        sample = NegativeSample(torch.tensor([1, 1, 29]), torch.zeros(3), torch.zeros(3))
        recipe = Recipe.from_mapping({"optimizer": optimizer, "negatives": max(negatives, 1), "batch": 3})
        TrainingStep(model, recipe)(batch, sample)
        changed = set((model.entities.weight != before).any(dim=1).nonzero().squeeze(1).tolist())
        assert changed == {*batch[:, 0].tolist(), *batch[:, 2].tolist(), 1, 29}


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_sampled_steps_are_the_rule_on_the_rows_they_touch(optimizer: str) -> None:
    """Written out in plain arithmetic: moments of other rows do not fade, and all rows share one count of steps."""
    recipe = Recipe.from_mapping({"optimizer": optimizer, "negatives": 4, "batch": 3, "n3": 0.1, "lr": 0.05})
    model, expected, log_q = model_of(entities=12), model_of(entities=12), torch.linspace(-2, 0, 12).double()
    step, moments = (
        TrainingStep(model, recipe),
        [table.detach().new_zeros(2, *table.shape) for table in tables(expected)],
    )
    for number in range(1, 6):
        batch = examples(3, entities=12, seed=number)
        ids = torch.tensor([number, number, number + 3, number + 5])
        costs = step(batch, NegativeSample(ids, log_q[ids], log_q[batch[:, 2]]))
        cost = sampled_cost(expected, batch, ids, log_q, recipe)
        torch.testing.assert_close(costs.sum(), cost.detach(), rtol=0, atol=1e-9)
        gradients = torch.autograd.grad(cost, tables(expected))
        touched = torch.unique(torch.cat([batch[:, 0], batch[:, 2], ids]))
        with torch.no_grad():
            for table, gradient, kept, rows in zip(
                tables(expected), gradients, moments, (touched, torch.arange(4)), strict=True
            ):
                table[rows] -= 0.05 * direction(optimizer, gradient[rows], kept, rows, number)
    for found, wanted in zip(tables(model), tables(expected), strict=True):
        torch.testing.assert_close(found, wanted, rtol=0, atol=1e-9)


def tables(model: Model) -> tuple[torch.nn.Parameter, torch.nn.Parameter]:
    return model.entities.weight, model.relations


def sampled_cost(model: Model, batch: Tensor, ids: Tensor, log_q: Tensor, recipe: Recipe) -> Tensor:
    """Cross-entropy of each target against the sample, both less log Q, and the penalty."""
    h, r, t = batch.unbind(dim=1)
    scores = model.scores(h, r) - log_q
    losses = [
        torch.stack([row[target], *(row[e] for e in ids.tolist() if e != int(target))]).logsumexp(0) - row[target]
        for row, target in zip(scores, t, strict=True)
    ]
    return torch.stack(losses).mean() + penalty_of(model, h, r, t, recipe)


def direction(rule: str, gradient: Tensor, kept: Tensor, rows: Tensor, number: int) -> Tensor:
    """What a rule makes of a gradient; `kept` are the moments of the whole table."""
    if rule == "sgd":
        return gradient
    if rule == "adagrad":
        kept[0, rows] += gradient**2
        return gradient / (kept[0, rows].sqrt() + 1e-10)
    kept[0, rows] = 0.9 * kept[0, rows] + 0.1 * gradient
    kept[1, rows] = 0.999 * kept[1, rows] + 0.001 * gradient**2
    mean, square = kept[0, rows] / (1 - 0.9**number), kept[1, rows] / (1 - 0.999**number)
    return mean / (square.sqrt() + 1e-8)


def test_a_step_in_tiles_holds_nothing_as_large_as_the_table() -> None:
    entities, budget = 6000, 64 << 10
    model = model_of(entities=entities, rank=8, budget=budget)
    step = TrainingStep(model, Recipe(batch=64))
    with Allocations() as seen:
        step(examples(64, entities=entities))
    assert model.entities.weight.grad is None
    assert seen.largest <= budget
    assert seen.peak < model.entities.weight.nbytes


@pytest.mark.parametrize("power", [0.0, 0.75, 1.0])
def test_entities_are_drawn_as_often_as_they_should_be(power: float) -> None:
    facts = [("a", "r", f"e{i}") for i in range(9)] + [("b", "r", "e0"), ("b", "r", "e1")]
    graph = Graph.from_triples(facts)
    recipe = Recipe(negatives=4, negatives_power=power)
    negatives, source = Negatives(graph, recipe, device=CPU), torch.Generator().manual_seed(0)
    t = torch.tensor([0, 5])
    drawn = [negatives.draw(t, source) for _ in range(3000)]
    counts = torch.bincount(torch.cat([sample.ids for sample in drawn]), minlength=graph.n_entities) / 3000
    degree = torch.bincount(torch.from_numpy(graph.train[:, [0, 2]].ravel()), minlength=graph.n_entities)
    expected = (1.0 + degree) ** power
    assert counts.tolist() == pytest.approx((4 * expected / expected.sum()).tolist(), abs=0.04)
    sample = drawn[0]
    assert bool((sample.ids.diff() >= 0).all())
    offset = sample.log_q - expected.log()[sample.ids]
    assert offset.tolist() == pytest.approx([0.0] * 4, abs=1e-5)
    assert sample.log_q_of_targets.tolist() == pytest.approx(expected.log()[t].tolist(), abs=1e-5)


def test_a_sample_of_everyone_is_everyone() -> None:
    graph = Graph.from_triples([(f"e{i}", "r", f"e{i + 1}") for i in range(50)])
    negatives = Negatives(graph, Recipe(negatives=51), device=CPU)
    for seed in range(20):
        assert torch.equal(
            negatives.draw(torch.zeros(1).long(), torch.Generator().manual_seed(seed)).ids, torch.arange(51)
        )


def test_more_negatives_than_entities_are_refused() -> None:
    graph = Graph.from_triples([("a", "r", "b")])
    model = Model("complex", 2, 1, rank=2)
    with pytest.raises(UsageError, match=r"3.*2"):
        train(model, graph, Recipe(negatives=3))


@pytest.mark.parametrize(
    "wrong", [{"negatives": -1}, {"negatives_power": 0.5}, {"negatives": 5, "negatives_power": math.inf}]
)
def test_recipes_with_impossible_samples_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(UsageError, match="negatives"):
        Recipe(**wrong)  # type: ignore[arg-type]
