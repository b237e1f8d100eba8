"""Weights of facts and targets: the weighted cross-entropy of torch, on every path."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.oracle.models import model_of, penalty_of
from tests.oracle.standings import random_graph
from tests.training.steps.test_rowwise import everyone
from torch import Tensor

from conjoin.errors import UsageError
from conjoin.model.model import Model
from conjoin.training.loop import train
from conjoin.training.objective import Objective, loss
from conjoin.training.recipe import Recipe
from conjoin.training.steps import dense
from conjoin.training.steps.choose import TrainingStep
from conjoin.training.steps.dense import gradients, gradients_on_cpu
from conjoin.training.weights import ExampleWeights, parts_of

CPU = torch.device("cpu")
BATCH = torch.tensor([(0, 0, 1), (1, 3, 0), (0, 0, 2), (2, 0, 2), (5, 1, 0), (0, 0, 1), (0, 3, 5)])
WEIGHTS = torch.tensor([1.0, 0.2, 3.0, 0.7, 0.1, 2.0, 1.5])
RECIPE = Recipe(n3=0.1, f2=0.2)


def reference(model: Model, recipe: Recipe) -> tuple[Tensor, list[Tensor]]:
    """The weighted mean of the cross-entropy, its penalty, and their gradients by autograd."""
    h, r, t = BATCH.unbind(1)
    losses = torch.nn.functional.cross_entropy(model.scores(h, r), t, reduction="none")
    cost = penalty_of(model, h, r, t, recipe)
    nll = (losses * WEIGHTS.double()).sum() / WEIGHTS.double().sum()
    return torch.stack([nll, cost]).detach(), list(torch.autograd.grad(nll + cost, list(model.parameters())))


@pytest.mark.parametrize("grouped", [500, 3], ids=["single", "grouped"])
@pytest.mark.parametrize("budget", [None, 150], ids=["dense", "chunked"])
@pytest.mark.parametrize("name", ["complex-conj", "5star-conj", "quate", "complex(layout=published)"])
def test_gradients_are_those_of_the_weighted_mean(
    name: str, budget: int | None, grouped: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dense, "GROUPED", grouped)
    costs, expected = reference(model_of(name), RECIPE)
    (h, r, t), weight = BATCH.unbind(1), parts_of(WEIGHTS.double(), torch.float64)
    for way in (gradients, gradients_on_cpu):
        model = model_of(name, budget=budget)
        found = way(model, h, r, t, Objective.of(RECIPE), weight=weight)
        torch.testing.assert_close(found, costs, rtol=1e-10, atol=1e-12)
        for parameter, gradient in zip(model.parameters(), expected, strict=True):
            torch.testing.assert_close(parameter.grad, gradient, rtol=1e-10, atol=1e-12)
    value = loss(model, h, r, t, RECIPE, weight=weight)
    assert value.item() == pytest.approx(costs.sum().item(), rel=1e-10)


@pytest.mark.parametrize("path", ["whole", "tiles", "sampled"])
def test_every_path_takes_the_weighted_step(path: str) -> None:
    model = model_of("complex", budget=100 if path == "tiles" else None)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    recipe = Recipe(optimizer="sgd", lr=0.01, n3=0.1, f2=0.2, batch=len(BATCH), negatives=7 if path == "sampled" else 0)
    costs, expected = reference(model_of("complex"), recipe)
    sample = everyone(model, BATCH[:, 2]) if path == "sampled" else None
    found = TrainingStep(model, recipe, weighted=True)(BATCH, sample, WEIGHTS.double())
    torch.testing.assert_close(found, costs, rtol=1e-10, atol=1e-12)
    for parameter, start, slope in zip(model.parameters(), before, expected, strict=True):
        torch.testing.assert_close(parameter.detach(), start - 0.01 * slope, rtol=1e-10, atol=1e-12)


def test_the_weights_of_a_step_are_those_of_its_facts_and_targets() -> None:
    """Slow and obvious: for each example, its fact and its target."""
    graph = random_graph(1)
    facts = np.random.default_rng(0).uniform(0.5, 2, len(graph.train))
    weights = ExampleWeights(graph, Recipe(target_weights="degree"), facts, device=CPU)
    queries = torch.from_numpy(graph.queries("train"))
    order = torch.randperm(len(queries))
    found = weights.of(order, queries[order, 2])
    degrees = [sum(int(h == e) + int(t == e) for h, _, t in graph.train.tolist()) for e in range(graph.n_entities)]
    for number, weight in zip(order.tolist(), found.tolist(), strict=True):
        degree = degrees[int(queries[number, 2])]
        expected = facts[number % len(graph.train)] * (0.1 + 0.9 * degree / max(degrees))
        assert weight == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("settings", [{}, {"group_queries": 4}, {"negatives": 5}])
def test_equal_weights_are_bit_identical_to_none(settings: dict[str, int]) -> None:
    graph = random_graph(0)
    trained = []
    for weights in (None, np.full(len(graph.train), 0.3)):
        model = Model("complex-conj", graph.n_entities, graph.n_relations, rank=4)
        list(train(model, graph, Recipe.from_mapping({"epochs": 2, "batch": 30, **settings}), fact_weights=weights))
        trained.append(model.state_dict())
    assert all(torch.equal(trained[0][name], trained[1][name]) for name in trained[0])


def test_facts_with_large_weights_are_learned_better() -> None:
    graph = random_graph(0)
    heavy = np.where(np.arange(len(graph.train)) % 2, 1.0, 50.0)
    losses = []
    for weights in (heavy, 1 / heavy):
        model = Model("complex", graph.n_entities, graph.n_relations, rank=8, scale=0.1)
        list(train(model, graph, Recipe(epochs=15, batch=40, n3=0.0), fact_weights=weights))
        h, r, t = torch.from_numpy(graph.train[heavy > 1]).unbind(1)
        losses.append(torch.nn.functional.cross_entropy(model.scores(h, r), t).item())
    assert losses[0] < losses[1]


def test_impossible_weights_are_refused_before_training() -> None:
    graph = random_graph(0)
    model = Model("complex", graph.n_entities, graph.n_relations, rank=4)
    with pytest.raises(UsageError, match="80"):
        train(model, graph, Recipe(), fact_weights=[1.0, 2.0])
    for wrong in (0.0, -1.0, np.nan, np.inf):
        with pytest.raises(UsageError, match=str(wrong)):
            train(model, graph, Recipe(), fact_weights=[wrong, *[1.0] * (len(graph.train) - 1)])
