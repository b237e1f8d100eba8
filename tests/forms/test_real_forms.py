"""Forms over real numbers: scores and factors against their formulas, training gradients against autograd."""

from __future__ import annotations

import pytest
import torch
from tests.oracle import real_forms as oracle

from conjoin.errors import FormError
from conjoin.evaluation.rank import rank
from conjoin.forms.base import Form
from conjoin.forms.notation import FORMS, parse
from conjoin.forms.tied import TiedForm
from conjoin.graph.graph import Graph
from conjoin.model.model import Model
from conjoin.predict.fold_in import fold_in
from conjoin.predict.predictor import Predictor
from conjoin.training.loop import train
from conjoin.training.objective import Objective, loss
from conjoin.training.recipe import Recipe
from conjoin.training.steps.dense import gradients, gradients_on_cpu

REAL = [name for name, form in FORMS.items() if not isinstance(form, TiedForm)]
ENTITIES, RELATIONS, RANK = 7, 2, 4
TEXTS = [*REAL, "TransE(distance=l1)", "TransE(distance=squared-bias)", "TransE(distance=dot)"]


def model_of(text: str, *, budget: int | None = None) -> Model:
    return Model(text, ENTITIES, RELATIONS, rank=RANK, seed=1, dtype=torch.float64, scale=0.7, budget=budget)


def batch() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    h, r, t = torch.tensor([(0, 0, 1), (1, 3, 0), (0, 0, 1), (2, 0, 2), (5, 1, 0), (0, 3, 5)]).unbind(1)
    return h, r, t


def test_every_real_form_has_an_oracle() -> None:
    assert set(REAL) == set(oracle.SCORES)


@pytest.mark.parametrize("name", REAL)
def test_scores_equal_the_oracle(name: str) -> None:
    model = model_of(name)
    assert model.entities.weight.shape == (ENTITIES, RANK)
    assert model.relations.shape == (2 * RELATIONS, RANK * oracle.RELATION_WIDTH.get(name, 1))
    entities, relations = model.entities.weight.tolist(), model.relations.tolist()
    h, r, _ = batch()
    expected = [
        [oracle.SCORES[name](entities[head], relations[relation], tail) for tail in entities]
        for head, relation in zip(h.tolist(), r.tolist(), strict=True)
    ]
    torch.testing.assert_close(model.scores(h, r).detach(), torch.tensor(expected, dtype=torch.float64))


@pytest.mark.parametrize("text", [*FORMS, *TEXTS])
def test_score_is_the_entry_of_scores(text: str) -> None:
    model = model_of(text)
    h, r, t = batch()
    torch.testing.assert_close(model.score(h, r, t), model.scores(h, r)[torch.arange(len(t)), t])


@pytest.mark.parametrize("name", REAL)
def test_factors_are_squares_of_the_rows(name: str) -> None:
    model = model_of(name)
    h, r, t = batch()
    found = model.factors(("head", "relation", "tail"), h, r, t)
    entities = model.entities.weight
    torch.testing.assert_close(found["head"], entities[h].square())
    torch.testing.assert_close(found["tail"], entities[t].square())
    relations = model.relations[r].tolist()
    expected = [
        [x * x for x in (oracle.PENALISED[name](row) if name in oracle.PENALISED else row)] for row in relations
    ]
    torch.testing.assert_close(found["relation"].detach(), torch.tensor(expected, dtype=torch.float64))


def test_products_with_the_relation_are_those_of_the_bilinear_form() -> None:
    """|M h|² and |Mᵀ t|² with M the matrix of a relation, column by column out of queries of unit vectors."""
    for text in ("distmult", "complex", "complex-conj", "pair", "quate"):
        form, rows = parse(text), torch.randn(1, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
        width = form.entity_width(RANK)
        unit = torch.eye(width, dtype=torch.float64)
        unfolded = form.unfold(rows[:, : form.relation_width(RANK)])
        matrix: torch.Tensor = form.query(unit, unfolded)  # row i is M e_i
        h, t = torch.randn(2, 1, width, dtype=torch.float64, generator=torch.Generator().manual_seed(4))
        q = form.query(h, unfolded)
        found = form.factors(("head_relation", "tail_relation"), h, unfolded, t, q)
        for factor, vector in ((found["head_relation"], h @ matrix), (found["tail_relation"], t @ matrix.T)):
            expected = vector.square().reshape(form.planes, -1).sum(dim=0)
            torch.testing.assert_close(factor[0], expected)


@pytest.mark.parametrize("text", ["transe", "transh", "5star", "5star-conj(quotient=mobius)"])
def test_a_factor_that_a_form_does_not_have_is_an_error(text: str) -> None:
    with pytest.raises(FormError, match=f"{parse(text).family}.*'head_relation'"):
        parse(text).check_factors(["head", "head_relation"])


@pytest.mark.parametrize("budget", [None, 1, 150])
@pytest.mark.parametrize("text", TEXTS)
def test_training_gradients_are_those_of_the_loss(text: str, budget: int | None) -> None:
    recipe = Recipe(n3=0.3, f2=0.2)
    model, reference = model_of(text, budget=budget), model_of(text)
    squared = reference.factors(("head", "relation", "tail"), *batch()).values()
    nll = torch.nn.functional.cross_entropy(reference.scores(*batch()[:2]), batch()[2])
    cost = sum((0.3 * each.pow(1.5) + 0.2 * each).sum(dim=1).mean() for each in squared)
    (nll + cost).backward()  # type: ignore[no-untyped-call]
    for way in (gradients, gradients_on_cpu):
        way(model, *batch(), Objective.of(recipe))
        for found, wanted in zip(model.parameters(), reference.parameters(), strict=True):
            torch.testing.assert_close(found.grad, wanted.grad, rtol=1e-9, atol=1e-11)
    torch.testing.assert_close(loss(reference, *batch(), recipe), nll + cost)


def small_graph() -> Graph:
    ring = [(f"e{i}", "next", f"e{(i + 1) % 12}") for i in range(12)]
    return Graph.from_triples(ring + [(b, "before", a) for a, _, b in ring], ring[:2], ring[2:4])


@pytest.mark.parametrize("settings", [{}, {"negatives": 5}, {"optimizer": "adam", "together": 4}], ids=str)
@pytest.mark.parametrize("text", TEXTS)
def test_every_form_learns_and_ranks(text: str, settings: dict[str, object]) -> None:
    graph = small_graph()
    model = Model(text, graph.n_entities, graph.n_relations, rank=8, scale=0.1)
    recipe = Recipe.from_mapping({"epochs": 30, "batch": 16, "lr": 0.05, "n3": 0.0, **settings})
    losses = [epoch.loss for epoch in train(model, graph, recipe)]
    assert losses[-1] < 0.9 * losses[0]
    assert 0 < rank(model, graph, "test").mrr() <= 1


def test_a_tail_bias_starts_at_zero_and_is_learnt() -> None:
    form: Form = parse("TransE(distance=squared-bias)")
    graph = small_graph()
    model = Model(form, graph.n_entities, graph.n_relations, rank=4)
    assert model.entities.weight.shape == (graph.n_entities, 5)
    assert not model.entities.weight[:, -1].any()
    list(train(model, graph, Recipe(epochs=2, batch=16)))
    assert model.entities.weight[:, -1].any()


@pytest.mark.parametrize("text", ["distmult", "transe", "transe-squared"])
def test_new_entities_fold_in_by_the_forms_own_link(text: str) -> None:
    graph = small_graph()
    model = Model(text, graph.n_entities, graph.n_relations, rank=8, scale=0.1)
    list(train(model, graph, Recipe(epochs=60, batch=16, n3=0.0)))
    folded = fold_in(Predictor(model, graph), [("new", "next", "e5"), ("e4", "next", "new")], recipe=Recipe(n3=0.001))
    assert folded.score([("e4", "next", "new")])[0].rank <= 3
