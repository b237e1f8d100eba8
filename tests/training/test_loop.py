"""Training: repeatable, bounded, stopped in time, never a number out of a diverged model."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from tests.oracle import scores as oracle
from tests.oracle.models import rows
from tests.oracle.specs import NAMED, Spec, every_spec, specs
from tests.oracle.standings import graph_of, random_graph

from conjoin.datasets.load import load
from conjoin.errors import Diverged, UsageError
from conjoin.evaluation.rank import rank
from conjoin.graph.graph import Graph
from conjoin.model.model import Model
from conjoin.training.loop import Epoch, train
from conjoin.training.objective import loss
from conjoin.training.presets import settings_for
from conjoin.training.recipe import OPTIMIZERS, OptimizerName, Recipe

T = TypeVar("T")
SPECS = every_spec()
GRAPH = random_graph(0)


def fresh(form: str = "5star-conj", *, graph: Graph = GRAPH, seed: int = 0, budget: int | None = None) -> Model:
    return Model(form, graph.n_entities, graph.n_relations, rank=4, seed=seed, budget=budget)


def trained(recipe: Recipe, *, seed: int = 0, budget: int | None = None) -> tuple[Model, list[Epoch]]:
    model = fresh(seed=seed, budget=budget)
    return model, list(train(model, GRAPH, recipe, seed=seed))


def same(first: Model, second: Model) -> bool:
    return all(torch.equal(x, y) for x, y in zip(first.parameters(), second.parameters(), strict=True))


@pytest.mark.parametrize("name", SPECS)
def test_every_form_learns(name: str) -> None:
    model = fresh(SPECS[name].text())
    epochs = list(train(model, GRAPH, Recipe(epochs=12, batch=40, n3=0.001)))
    assert epochs[0].loss <= math.log(GRAPH.n_entities) * 1.2
    assert epochs[-1].loss < epochs[0].loss - 0.01
    assert all(math.isfinite(epoch.loss) and math.isfinite(epoch.penalty) for epoch in epochs)
    assert all(bool(torch.isfinite(parameter).all()) for parameter in model.parameters())


@settings(max_examples=25, deadline=None)
@given(specs())
def test_any_tie_pattern_trains(spec: Spec) -> None:
    model = fresh(spec.text())
    epochs = list(train(model, GRAPH, Recipe(epochs=4, batch=40)))
    assert all(math.isfinite(epoch.loss + epoch.penalty) for epoch in epochs)
    assert epochs[-1].loss < epochs[0].loss * 1.05
    assert bool(torch.isfinite(model.scores(torch.tensor([0]), torch.tensor([0]))).all())


@pytest.mark.parametrize("budget", [None, 500], ids=["dense", "chunked"])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_one_seed_one_result(optimizer: OptimizerName, budget: int | None) -> None:
    recipe = Recipe(epochs=3, batch=32, optimizer=optimizer, lr=0.05, validate_every=2)
    (first, epochs), (second, again) = (trained(recipe, budget=budget) for _ in range(2))
    assert same(first, second)
    told = [[(e.number, e.loss, e.penalty, e.valid, e.best) for e in run] for run in (epochs, again)]
    assert told[0] == told[1]
    other, _ = trained(recipe, seed=1, budget=budget)
    assert not same(first, other)


def test_two_threads_repeat_themselves() -> None:
    """Another number of threads rounds otherwise; the same one does not."""
    atlas = load("atlas")
    few, models, used = replace(atlas, train=atlas.train[:400]), [], set()
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        for _ in range(2):
            models.append(Model("5star", few.n_entities, few.n_relations, rank=32))
            training = train(models[-1], few, Recipe(epochs=2, batch=200))
            with training.threads():
                used.add(torch.get_num_threads())
            list(training)
    finally:
        torch.set_num_threads(before)
    assert used == {2}, "the step is large enough for both"
    assert same(*models)


def test_the_order_of_examples_depends_on_the_seed() -> None:
    results = []
    for seed in (0, 0, 1):
        model = fresh()
        list(train(model, GRAPH, Recipe(epochs=1, batch=16), seed=seed))
        results.append(model)
    assert same(results[0], results[1])
    assert not same(results[0], results[2])


def test_every_epoch_has_its_own_order() -> None:
    """SGD keeps no state, so two epochs in one order would equal a first epoch twice."""
    recipe = Recipe(epochs=1, batch=16, lr=1.0, optimizer="sgd")
    twice, once_and_again = fresh(), fresh()
    list(train(twice, GRAPH, replace(recipe, epochs=2)))
    for _ in range(2):
        list(train(once_and_again, GRAPH, recipe))
    assert not same(twice, once_and_again)


def test_result_does_not_depend_on_global_random_state() -> None:
    torch.manual_seed(1)
    first, _ = trained(Recipe(epochs=1))
    state = torch.get_rng_state()
    torch.manual_seed(2)
    np.random.seed(2)
    second, _ = trained(Recipe(epochs=1))
    assert same(first, second)
    torch.manual_seed(1)
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("budget", [None, 500], ids=["dense", "chunked"])
@pytest.mark.parametrize("other", [{}, {"group_queries": 4}, {"negatives": 5, "negatives_power": 0.5}])
def test_result_does_not_depend_on_torch_defaults(other: dict[str, Any], budget: int | None) -> None:
    recipe = Recipe(epochs=1, batch=40, **other)
    first, _ = trained(recipe, budget=budget)
    torch.set_default_device("meta")
    torch.set_default_dtype(torch.bfloat16)
    try:
        with torch.no_grad():
            second, _ = trained(recipe, budget=budget)
    finally:
        torch.set_default_device(None)
        torch.set_default_dtype(torch.float32)
    assert same(first, second)


@pytest.mark.parametrize("budget", [None, 500], ids=["dense", "chunked"])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("negatives", [0, 5])
def test_result_does_not_depend_on_inference_mode(negatives: int, optimizer: OptimizerName, budget: int | None) -> None:
    """Begun under it and ended without, so nothing that lasts may be of its tensors."""
    recipe = Recipe(epochs=2, batch=40, optimizer=optimizer, lr=0.05, negatives=negatives, validate_every=1)
    first, epochs = trained(recipe, budget=budget)
    with torch.inference_mode():
        second = fresh(budget=budget)
        training = train(second, GRAPH, recipe)
        again = [next(training)]
        ranks = rank(second, GRAPH, "valid").metrics()
    again += training
    assert ranks == again[0].valid
    assert [epoch.valid for epoch in again] == [epoch.valid for epoch in epochs]
    assert same(first, second)


def test_chunked_training_matches_unchunked() -> None:
    paths = []
    for budget in (None, 700):
        model = Model("5star-neg", GRAPH.n_entities, GRAPH.n_relations, rank=4, dtype=torch.float64, budget=budget)
        list(train(model, GRAPH, Recipe(epochs=5, batch=32)))
        paths.append(model)
    assert paths[0].entities.path(32).startswith("dense")
    assert paths[1].entities.path(32).startswith("chunked")
    for x, y in zip(paths[0].parameters(), paths[1].parameters(), strict=True):
        torch.testing.assert_close(x, y, rtol=0, atol=1e-8)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_conj_and_twin_train_along_one_path_from_matched_starts(optimizer: OptimizerName) -> None:
    """J conjugates the second half of every entity: what the paper ties by conjugation is tying."""
    conj, twin = (
        Model(f"complex-{kind}", GRAPH.n_entities, GRAPH.n_relations, rank=6, dtype=torch.float64, scale=0.3)
        for kind in ("conj", "twin")
    )
    j = torch.ones(12, dtype=torch.float64)
    j[9:] = -1
    with torch.no_grad():
        twin.entities.weight.mul_(j)
    start = conj.entities.weight.detach().clone()
    lr = 1.0 if optimizer == "sgd" else 0.05
    recipe = Recipe(epochs=6, batch=32, optimizer=optimizer, lr=lr, n3=0.05, f2=0.01)
    runs = [train(model, GRAPH, recipe) for model in (conj, twin)]
    for first, second in zip(*runs, strict=True):
        assert first.loss == pytest.approx(second.loss, abs=1e-10)
        assert first.penalty == pytest.approx(second.penalty, abs=1e-10)
        torch.testing.assert_close(conj.entities.weight, twin.entities.weight * j, rtol=0, atol=1e-9)
        torch.testing.assert_close(conj.relations, twin.relations, rtol=0, atol=1e-9)
    assert (conj.entities.weight - start).abs().max() > 0.05
    metrics = [rank(model, GRAPH, "test").metrics() for model in (conj, twin)]
    assert metrics[0] == metrics[1]


@pytest.mark.parametrize("batch", [1000, 64])
def test_epoch_loss_is_the_mean_over_both_directions(batch: int) -> None:
    """With a vanishing rate nothing moves, so every batch sees the first weights."""
    spec = NAMED["complex"]
    model = Model("complex", GRAPH.n_entities, GRAPH.n_relations, rank=4, dtype=torch.float64, scale=0.5)
    doubled = [(h, r, t) for h, r, t in GRAPH.train.tolist()]
    doubled += [(t, r + GRAPH.n_relations, h) for h, r, t in GRAPH.train.tolist()]
    nll, cost = oracle.loss(spec, rows(model.entities.weight), rows(model.relations), doubled, n3=0.1)
    (epoch,) = train(model, GRAPH, Recipe(epochs=1, batch=batch, lr=1e-15, n3=0.1))
    assert epoch.loss == pytest.approx(nll, rel=1e-9)
    assert epoch.penalty == pytest.approx(cost, rel=1e-9)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_step_is_that_of_the_optimizer(optimizer: OptimizerName) -> None:
    """One batch: Adagrad and Adam move by lr against the sign of the gradient, SGD by lr times the gradient."""
    model, before = (
        Model("5star", GRAPH.n_entities, GRAPH.n_relations, rank=2, dtype=torch.float64, scale=0.5) for _ in range(2)
    )
    recipe = Recipe(epochs=1, batch=1000, lr=0.01, optimizer=optimizer)
    h, r, t = torch.from_numpy(GRAPH.queries("train")).unbind(1)
    loss(before, h, r, t, recipe).backward()  # type: ignore[no-untyped-call]
    list(train(model, GRAPH, recipe))
    for after, start in zip(model.parameters(), before.parameters(), strict=True):
        assert start.grad is not None
        seen = start.grad.abs() > 1e-4
        step = start.grad if optimizer == "sgd" else start.grad.sign()
        torch.testing.assert_close((after - start)[seen], -0.01 * step[seen], rtol=1e-3, atol=0)


def test_validation_runs_every_n_epochs_and_after_the_last() -> None:
    model = fresh()
    for epoch in train(model, GRAPH, Recipe(epochs=7, validate_every=3)):
        assert (epoch.valid is not None) == (epoch.number in (3, 6, 7))
        if epoch.valid is not None:
            assert dict(epoch.valid) == rank(model, GRAPH, "valid").metrics()
    _, epochs = trained(Recipe(epochs=4))
    assert [(e.number, e.valid, e.best) for e in epochs] == [(n, None, False) for n in range(1, 5)]
    assert all(epoch.seconds > 0 for epoch in epochs)


def test_the_best_weights_are_those_of_the_best_validation() -> None:
    model = fresh()
    training = train(model, GRAPH, Recipe(epochs=30, batch=20, lr=0.3, n3=0.0, validate_every=1))
    best, snapshot, at = -1.0, {}, 0
    for epoch in training:
        assert epoch.valid is not None
        assert epoch.best == (epoch.valid["mrr"] > best)
        if epoch.best:
            best, at = epoch.valid["mrr"], epoch.number
            snapshot = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    assert (training.progress.best_epoch, training.progress.best_mrr) == (at, best)
    assert 1 <= at < 30
    assert all(torch.equal(training.best_weights[name], tensor) for name, tensor in snapshot.items())
    assert not torch.equal(training.best_weights["relations"], model.relations)
    model.load_state_dict(training.best_weights)
    assert rank(model, GRAPH, "valid").mrr() == best


@pytest.mark.parametrize(("every", "patience", "last"), [(1, 2, 3), (2, 1, 4), (2, 3, 8), (1, 0, 9), (3, 50, 9)])
def test_patience_counts_validations_without_a_better_mrr(every: int, patience: int, last: int) -> None:
    """A vanishing rate leaves the MRR as it is, so that only the first validation is better than none."""
    recipe = Recipe(epochs=9, lr=1e-15, validate_every=every, patience=patience)
    training = train(fresh(), GRAPH, recipe)
    epochs = list(training)
    assert epochs[-1].number == last
    assert [e.number for e in epochs if e.best] == [every]
    assert training.finished
    assert list(training) == []


def test_zero_epochs_change_nothing() -> None:
    model, epochs = trained(Recipe(epochs=0))
    assert epochs == []
    assert same(model, fresh())


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("budget", [None, 500], ids=["dense", "chunked"])
def test_divergence_raises_and_returns_no_metric(optimizer: OptimizerName, budget: int | None) -> None:
    recipe = Recipe(epochs=5, batch=20, lr=1e36, optimizer=optimizer)
    for every in (0, 1):
        model = fresh(budget=budget)
        training = train(model, GRAPH, replace(recipe, validate_every=every))
        for _ in range(2):
            with pytest.raises(Diverged, match=r"step .* epoch 1.*lr = 1e\+36"):
                next(training)
        assert training.progress.best_mrr == -1
        with pytest.raises(Diverged):
            rank(model, GRAPH)


def test_ranking_detects_divergence_of_the_last_step() -> None:
    """The loss of the only step is taken before it, so the epoch looks healthy."""
    model = fresh()
    (epoch,) = train(model, GRAPH, Recipe(epochs=1, batch=1000, lr=1e36))
    assert math.isfinite(epoch.loss)
    for split in ("valid", "test"):
        with pytest.raises(Diverged, match="finite"):
            rank(model, GRAPH, split)


def test_impossible_trainings_are_refused() -> None:
    with pytest.raises(UsageError, match="train"):
        train(fresh(), graph_of(20, 3, [], [], [(0, 0, 1)]))
    with pytest.raises(UsageError, match="dict"):
        train(fresh(), random_graph(0), {"epochs": 1})  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="21 and 3"):
        train(fresh(), random_graph(0, entities=21))
    with pytest.raises(UsageError, match="20 and 4"):
        train(fresh(), random_graph(0, relations=4))
    without = graph_of(20, 3, [(0, 0, 1)])
    with pytest.raises(UsageError, match="validate_every"):
        train(fresh(), without, Recipe(validate_every=1))
    frozen = fresh()
    frozen.relations.requires_grad_(False)
    with pytest.raises(UsageError, match="requires_grad"):
        train(frozen, GRAPH)
    with pytest.raises(UsageError, match=r"torch\.float16.*model\.float\(\)"):
        train(fresh().half(), GRAPH)
    with torch.inference_mode():
        converted = fresh().double()
    with pytest.raises(UsageError, match=r"torch\.inference_mode"):
        train(converted, GRAPH)
    assert len(list(train(fresh(), without, Recipe(epochs=2)))) == 2


def test_progress_is_reported_per_batch() -> None:
    seen: list[tuple[str, int | None, int]] = []

    def track(steps: Iterable[T], what: str, total: int | None) -> Iterator[T]:
        passed = list(steps)
        seen.append((what, total, len(passed)))
        return iter(passed)

    list(train(fresh(), GRAPH, Recipe(epochs=2, batch=50, validate_every=2), track=track))
    assert [(what, total) for what, total, _ in seen] == [("epoch 1", 4), ("epoch 2", 4), ("rank valid", 1)]
    assert all(total == passed for _, total, passed in seen)


def test_default_settings_equal_settings_for_the_graph() -> None:
    model = fresh()
    training = train(model, GRAPH)
    assert training.recipe == Recipe.from_mapping(settings_for(GRAPH, model.form))
    assert training.recipe != Recipe()
