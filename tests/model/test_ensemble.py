"""An ensemble against the sum of log-softmax in float64, entity by entity."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracle import scores as oracle
from tests.oracle.models import rows
from tests.oracle.specs import every_spec
from tests.oracle.standings import filtered, graph_of, random_graph

from conjoin.errors import Diverged, UsageError
from conjoin.evaluation.rank import rank
from conjoin.model.ensemble import Ensemble
from conjoin.model.model import Model
from conjoin.model.scorer import Scorer

SPECS = every_spec()
BUDGETS = (None, 1, 3000, 100_000)


def member(name: str, *, seed: int, budget: int | None = None, dtype: torch.dtype = torch.float64) -> Model:
    return Model(SPECS[name].text(), 130, 3, rank=4, seed=seed, scale=0.7, dtype=dtype, budget=budget)


def log_softmax(name: str, model: Model, h: int, r: int) -> list[float]:
    found = oracle.scores(SPECS[name], rows(model.entities.weight), rows(model.relations)[r], h)
    top = max(found)
    total = top + math.log(sum(math.exp(score - top) for score in found))
    return [score - total for score in found]


H, R, T = torch.tensor([0, 7, 129, 7]), torch.tensor([0, 4, 2, 5]), torch.tensor([3, 7, 128, 0])


@pytest.mark.parametrize("budgets", [(None, None), (1, None), (3000, 1), (9000, 20_000)])
def test_scores_are_weighted_sums_of_log_softmax(budgets: tuple[int | None, int | None]) -> None:
    names, weights = ("complex", "5star-conj"), (0.75, 2.0)
    members = [member(name, seed=i, budget=b) for i, (name, b) in enumerate(zip(names, budgets, strict=True))]
    ensemble = Ensemble(members, weights)
    expected = [
        np.sum([w * np.array(log_softmax(n, m, h, r)) for n, m, w in zip(names, members, weights, strict=True)], axis=0)
        for h, r in zip(H.tolist(), R.tolist(), strict=True)
    ]
    found = ensemble.scores(H, R)
    np.testing.assert_allclose(found.numpy(), expected, rtol=0, atol=1e-10)
    np.testing.assert_allclose(ensemble.score(H, R, T).numpy(), found.gather(1, T[:, None])[:, 0], rtol=0, atol=1e-12)
    one = ensemble.score(H, R, torch.tensor(5))
    np.testing.assert_allclose(one.numpy(), found[:, 5], rtol=0, atol=1e-12)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), budgets=st.tuples(*[st.sampled_from(BUDGETS)] * 2))
def test_entities_that_every_member_holds_equal_tie_exactly(seed: int, budgets: tuple[int | None, int | None]) -> None:
    graph = random_graph(5, entities=40, held_out=15)
    members = [
        Model(form, 40, graph.n_relations, rank=4, seed=seed, scale=1.0, budget=budget)
        for form, budget in zip(("complex", "5star"), budgets, strict=True)
    ]
    with torch.no_grad():
        for model in members:
            model.entities.weight[20:] = model.entities.weight[:20]
    ranks = rank(Ensemble(members, [1.0, 0.3]), graph, "test")
    known = graph.known
    for i in range(len(ranks)):
        asked, other = (ranks.head, ranks.tail) if ranks.direction[i] == 0 else (ranks.tail, ranks.head)
        r = int(ranks.relation[i]) + int(ranks.direction[i]) * graph.n_relations
        twin = (int(other[i]) + 20) % 40
        hidden = twin in known.tails_of(int(asked[i]), r).tolist()
        assert ranks.tied[i] == (not hidden)


@pytest.mark.parametrize("name", ["complex", "5star-conj", "pair"])
@pytest.mark.parametrize("budget", [None, 1, 4000])
def test_one_member_ranks_as_it_does_alone(name: str, budget: int | None) -> None:
    graph = random_graph(3)
    model = Model(SPECS[name].text(), graph.n_entities, graph.n_relations, rank=4, scale=0.7, budget=budget)
    alone, together = rank(model, graph, "test"), rank(Ensemble([model], [3.0]), graph, "test")
    assert np.array_equal(alone.better, together.better)
    assert np.array_equal(alone.tied, together.tied)
    assert np.array_equal(alone.candidates, together.candidates)


@pytest.mark.parametrize("budget", BUDGETS)
def test_ranks_equal_going_through_all_entities(budget: int | None) -> None:
    graph = random_graph(3)
    names = ("complex-conj", "5star")
    members = [
        Model(
            SPECS[n].text(),
            graph.n_entities,
            graph.n_relations,
            rank=4,
            seed=i,
            scale=0.7,
            dtype=torch.float64,
            budget=budget,
        )
        for i, n in enumerate(names)
    ]

    def score(h: int, r: int) -> list[float]:
        parts = [log_softmax(name, model, h, r) for name, model in zip(names, members, strict=True)]
        return [0.5 * a + 1.5 * b for a, b in zip(*parts, strict=True)]

    ranks = rank(Ensemble(members, [0.5, 1.5]), graph, "test")
    found = list(zip(ranks.better.tolist(), ranks.tied.tolist(), ranks.candidates.tolist(), strict=True))
    asked = [(h, r, t) for h, r, t in graph.triples("test").tolist()]
    assert found == filtered(graph, asked, score)


@pytest.mark.parametrize("budget", [None, 1, 5000])
def test_best_equals_sorting_all_scores(budget: int | None) -> None:
    ensemble = Ensemble([member("complex", seed=0, budget=budget), member("pair", seed=1)])
    hidden = torch.tensor([0, 0, 2]), torch.tensor([3, 100, 5])
    expected = ensemble.scores(H, R)
    expected[hidden] = -torch.inf
    scores, ids = ensemble.best(H, R, 9, hidden)
    order = expected.argsort(dim=1, descending=True)[:, :9]
    assert torch.equal(ids, order)
    torch.testing.assert_close(scores, expected.gather(1, order), rtol=0, atol=1e-12)
    among = torch.tensor([2, 3, 50, 100, 129])
    scores, ids = ensemble.best(H, R, 9, hidden, among)
    assert torch.equal(ids, among[expected[:, among].argsort(dim=1, descending=True)])
    assert scores.shape == (4, 5)


def test_an_ensemble_can_be_a_member() -> None:
    parts = [member("complex", seed=0), member("5star", seed=1), member("pair", seed=2)]
    inner = Ensemble(parts[:2], [2.0, 1.0])
    nested = Ensemble([inner, parts[2]])
    log_p = torch.log_softmax(inner.scores(H, R), dim=1) + torch.log_softmax(parts[2].scores(H, R).detach(), dim=1)
    torch.testing.assert_close(nested.scores(H, R), log_p, rtol=0, atol=1e-10)


def test_similarity_is_the_weighted_mean_of_cosines() -> None:
    parts = [member("complex", seed=0), member("5star", seed=1)]
    found = Ensemble(parts, [3.0, 1.0]).similarity(4)
    expected = 0.75 * parts[0].similarity(4) + 0.25 * parts[1].similarity(4)
    torch.testing.assert_close(found, expected.double(), rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("other", "named"),
    [
        (Model("pair", 7, 2, rank=2), "entities: 7.*has 6"),
        (Model("pair", 6, 3, rank=2), "relations: 3.*has 2"),
    ],
)
def test_members_of_other_sizes_are_refused_by_number(other: Scorer, named: str) -> None:
    model = Model("complex", 6, 2, rank=2)
    with pytest.raises(UsageError, match=f"(?s)3.*Pair.*{named}"):
        Ensemble([model, model, other])


@pytest.mark.parametrize("weights", [[], [1.0], [1.0, 0.0], [1.0, -2.0], [1.0, math.nan], [math.inf, 1.0]])
def test_weights_must_be_positive_finite_and_one_per_member(weights: list[float]) -> None:
    model = Model("complex", 6, 2, rank=2)
    with pytest.raises(UsageError):
        Ensemble([model, model], weights)


def test_an_ensemble_needs_a_member() -> None:
    with pytest.raises(UsageError):
        Ensemble([])


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_diverged_member_is_an_error(bad: float) -> None:
    graph = graph_of(4, 1, [(0, 0, 1)], [], [(1, 0, 2)])
    models = [Model("complex", 4, graph.n_relations, rank=2, seed=seed) for seed in (0, 1)]
    with torch.no_grad():
        models[1].entities.weight.fill_(bad)
    with pytest.raises(Diverged):
        rank(Ensemble(models), graph, "test")
