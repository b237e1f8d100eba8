"""Explanations: gradients against autograd and finite differences, influence against a refit, paths against search."""

from __future__ import annotations

import copy
import json
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from conjoin.errors import UnknownName, UsageError
from conjoin.forms.base import sum_of
from conjoin.graph.adjacency import adjacency
from conjoin.graph.graph import Graph, Ids, reciprocal
from conjoin.model.model import Model
from conjoin.predict.explain import explain
from conjoin.predict.influence import AnsweredFact, fact_gradients, influences, neighbourhood
from conjoin.predict.paths import short_paths
from conjoin.predict.predictor import Predictor

FORMS = (
    *("complex", "complex-conj", "5star", "5star-conj", "FiveStar(quotient=mobius)", "Pair()"),
    *("distmult", "transe", "transe-squared", "TransE(distance=l1)", "TransE(distance=squared-bias)", "transh"),
)
FACTS = [
    ("a", "likes", "b"),
    ("b", "likes", "c"),
    ("c", "likes", "a"),
    ("a", "knows", "c"),
    ("c", "knows", "d"),
    ("d", "likes", "b"),
    ("e", "likes", "f"),
    ("e", "knows", "e"),
    ("a", "likes", "b"),
]
GRAPH = Graph.from_triples(FACTS, labels={"a": "Ann", "b": "Bob"})


def model_of(form: str, graph: Graph = GRAPH) -> Model:
    model = Model(form, graph.n_entities, graph.n_relations, rank=4, scale=0.5, dtype=torch.float64, seed=3)
    return model.requires_grad_(requires_grad=False)


def loss(model: Model, fact: Ids) -> Tensor:
    """Both directions, spelled out."""
    h, r, t = torch.from_numpy(fact)[:, None]
    forward = torch.log_softmax(model.scores(h, r), dim=1)[0, t]
    backward = torch.log_softmax(model.scores(t, r + model.n_relations), dim=1)[0, h]
    return -(forward + backward).sum()


def test_inference_mode_plays_no_part() -> None:
    model, facts, answer = model_of("5star-conj"), adjacency(GRAPH).facts, AnsweredFact(0, 1, 1)
    with torch.inference_mode():
        found = fact_gradients(model, facts, answer)
    assert all(torch.equal(x, y) for x, y in zip(found, fact_gradients(model, facts, answer), strict=True))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("answer", [AnsweredFact(0, 1, 1), AnsweredFact(3, 0, 2), AnsweredFact(2, 1, 2)])
def test_gradients_are_those_of_the_loss(form: str, answer: AnsweredFact) -> None:
    model, facts = model_of(form), adjacency(GRAPH).facts
    found = fact_gradients(model, facts, answer)
    model.requires_grad_()
    for number, fact in enumerate(facts):
        model.zero_grad()
        loss(model, fact).backward()  # type: ignore[no-untyped-call]
        entities, relations = model.entities.weight.grad, model.relations.grad
        assert entities is not None
        assert relations is not None
        torch.testing.assert_close(found.head[number], entities[answer.h])
        if answer.h != answer.t:
            torch.testing.assert_close(found.tail[number], entities[answer.t])
        torch.testing.assert_close(found.relation[number], relations[answer.r])
        torch.testing.assert_close(found.reciprocal[number], relations[answer.r + GRAPH.n_relations])


@pytest.mark.parametrize("form", FORMS)
def test_products_predict_the_effect_of_a_gradient_step(form: str) -> None:
    answer, step = AnsweredFact(0, 1, 1), 1e-6
    model, facts = model_of(form), adjacency(GRAPH).facts
    found = fact_gradients(model, np.concatenate([answer.fact, facts]), answer)
    products = found.products(share=1.0)
    before = loss(model, answer.fact[0])
    for number in range(1, len(facts) + 1):
        moved = model_of(form)
        moved.entities.weight[answer.h] -= step * found.head[number]
        moved.entities.weight[answer.t] -= step * found.tail[number]
        moved.relations[answer.r] -= step * found.relation[number]
        moved.relations[answer.r + GRAPH.n_relations] -= step * found.reciprocal[number]
        gained = (before - loss(moved, answer.fact[0])) / step
        assert float(gained) == pytest.approx(float(products[0, number]), rel=1e-3, abs=1e-6)


def refitted(model: Model, facts: Ids, answer: AnsweredFact) -> Model:
    """The model with the answer's rows at the minimum of the facts' loss and a quadratic penalty, the rest held."""
    start = [model.entities.weight[[answer.h, answer.t]], model.relations[[answer.r, answer.r + model.n_relations]]]
    free = [rows.clone().requires_grad_() for rows in start]
    queries = torch.from_numpy(reciprocal(facts, model.n_relations))
    h, r, t = queries.unbind(dim=1)

    def tables() -> tuple[Tensor, Tensor]:
        entities = model.entities.weight.index_copy(0, torch.tensor([answer.h, answer.t]), free[0])
        relations = model.relations.index_copy(0, torch.tensor([answer.r, answer.r + model.n_relations]), free[1])
        return entities, relations

    def cost() -> Tensor:
        entities, relations = tables()
        q = model.form.query(entities[h], model.form.unfold(relations[r]))
        nll = torch.nn.functional.cross_entropy(q @ entities.T, t, reduction="sum")
        return nll + 0.5 * sum_of([rows.square().sum() for rows in free])

    search = torch.optim.LBFGS(free, max_iter=50, line_search_fn="strong_wolfe")

    def closure() -> float:
        search.zero_grad()
        value = cost()
        value.backward()  # type: ignore[no-untyped-call]
        return value.item()

    search.step(closure)  # type: ignore[no-untyped-call]
    fitted = copy.deepcopy(model)
    entities, relations = tables()
    fitted.entities.weight.data, fitted.relations.data = entities.detach(), relations.detach()
    return fitted


def test_influence_predicts_the_effect_of_leaving_out_a_fact() -> None:
    """The rows of the answer are fitted anew without each fact: the answer's loss rises most for those named first."""
    agreements = []
    for seed in range(2):
        random = np.random.default_rng(seed)
        facts = np.unique(np.column_stack([random.integers(0, limit, 24) for limit in (7, 2, 7)]), axis=0)
        names = [(f"e{h}", f"r{r}", f"e{t}") for h, r, t in facts.tolist()]
        graph = Graph.from_triples(names[1:], None, names[:1])
        answer = AnsweredFact(*map(int, graph.test[0]))
        model = Model("complex", graph.n_entities, graph.n_relations, rank=2, scale=0.5, dtype=torch.float64, seed=seed)
        every = adjacency(graph).facts
        fitted = refitted(model.requires_grad_(requires_grad=False), every, answer)
        pool, told = influences(fitted, graph, answer)
        before = loss(fitted, answer.fact[0])
        left_out = [loss(refitted(fitted, np.delete(every, z, axis=0), answer), answer.fact[0]) - before for z in pool]
        agreements.append(np.corrcoef(told, np.array(left_out))[0, 1])
    assert min(agreements) > 0.6


@pytest.mark.parametrize("form", FORMS)
def test_an_explanation_has_supports_and_paths(form: str) -> None:
    predictor = Predictor(model_of(form), GRAPH)
    told = explain(predictor, "Ann", "likes", "Bob", k=20)
    assert (told.head, told.relation, told.tail, told.label) == ("a", "likes", "b", "Ann likes Bob")
    assert told.trained
    strengths = [support.strength for support in told.supports]
    assert strengths == sorted(strengths, reverse=True)
    assert all(0 < strength <= 1 for strength in strengths)
    named = [(support.head, support.relation, support.tail) for support in told.supports]
    near = {fact for fact in FACTS if fact[1] == "likes" or {fact[0], fact[2]} & {"a", "b"}} - {("a", "likes", "b")}
    assert len(set(named)) == len(named)
    assert set(named) <= near
    assert explain(predictor, "a", "likes", "b", k=1).supports == told.supports[:1]
    assert not explain(predictor, "a", "knows", "b").trained
    assert json.loads(json.dumps(told.to_json()))["supports"][0]["label"] == told.supports[0].label


def test_a_fact_that_nothing_touches() -> None:
    graph = Graph.from_triples([("a", "likes", "b")], [("c", "knows", "d")])
    told = explain(Predictor(model_of("complex", graph), graph), "c", "knows", "d")
    assert told.supports == []
    assert told.paths == []


def test_large_neighbourhoods_are_narrowed(monkeypatch: pytest.MonkeyPatch) -> None:
    answer, model = AnsweredFact(0, 1, 1), model_of("complex")
    everything = set(influences(model, GRAPH, answer)[0].tolist())
    monkeypatch.setattr("conjoin.predict.influence.POOL", 4)
    monkeypatch.setattr("conjoin.predict.influence.SAME_RELATION", 1)
    pool, strength = influences(model, GRAPH, answer)
    assert len(pool) == len(strength) == 4
    assert set(pool.tolist()) < everything
    touching, sharing = neighbourhood(GRAPH, answer)
    assert len(np.intersect1d(pool, sharing)) == 1
    assert len(np.intersect1d(pool, touching)) == 3


def test_memory_is_bounded_without_changing_numbers() -> None:
    answer, facts = AnsweredFact(0, 1, 1), adjacency(GRAPH).facts
    model, tight = model_of("5star"), model_of("5star")
    many = np.concatenate([facts] * 9)
    tight.entities.budget = 1
    for whole, parts in zip(fact_gradients(model, many, answer), fact_gradients(tight, many, answer), strict=True):
        torch.testing.assert_close(whole, parts)


@pytest.mark.parametrize(
    ("question", "error", "words"),
    [(("Anm", "likes", "Bob"), UnknownName, "Did you mean Ann"), (("a", "hates", "b"), UnknownName, "hates")],
)
def test_names_that_are_not_known(question: tuple[str, str, str], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        explain(Predictor(model_of("complex"), GRAPH), *question)


def test_too_few_facts_wanted() -> None:
    with pytest.raises(UsageError, match="0"):
        explain(Predictor(model_of("complex"), GRAPH), "a", "likes", "b", k=0)


def searched(graph: Graph, start: int, end: int, without: tuple[int, int, int]) -> dict[tuple[int, ...], float]:
    """All simple paths of at most three hops as sequences of entities, with their weights, by plain search."""
    everything = np.unique(graph.train, axis=0)
    degree = np.bincount(everything[:, [0, 2]].ravel()).tolist()
    facts = [fact for fact in everything.tolist() if tuple(fact) != without]
    found: dict[tuple[int, ...], float] = {}
    frontier: list[tuple[int, ...]] = [(start,)]
    for _ in range(3):
        nearer = {(*path, b) for path in frontier for h, _, t in facts for a, b in ((h, t), (t, h)) if path[-1] == a}
        for path in nearer:
            if path[-1] == end and len(set(path)) == len(path):
                found[path] = math.prod(1 / degree[e] for e in path[1:-1])
        frontier = [path for path in nearer if path[-1] != end]
    return found


triples = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 2), st.integers(0, 6)), min_size=1, max_size=25)


@settings(max_examples=60, deadline=None)
@given(triples, st.data())
def test_paths_are_those_of_a_plain_search(facts: list[tuple[int, int, int]], draw: st.DataObject) -> None:
    graph = Graph.from_triples([(f"e{h}", f"r{r}", f"e{t}") for h, r, t in facts])
    start, end = (draw.draw(st.integers(0, graph.n_entities - 1)) for _ in range(2))
    without = draw.draw(st.sampled_from([tuple(fact) for fact in graph.train.tolist()] + [(start, 0, end)]))
    paths = short_paths(graph, start, end, without=without, k=1000)
    walked = {}
    for path in paths:
        place, places = graph.entities.names[start], [start]
        for step in path.steps:
            near, far = (step.head, step.tail) if step.forward else (step.tail, step.head)
            assert near == place
            ids = graph.entities.find(step.head), graph.relations.find(step.relation), graph.entities.find(step.tail)
            assert ids != without
            assert list(ids) in graph.train.tolist()
            place = far
            places.append(graph.entities.find(far))
        walked[tuple(places)] = path.strength
    assert len(walked) == len(paths)
    assert walked == pytest.approx(searched(graph, start, end, without))
    strengths = [path.strength for path in paths]
    assert strengths == sorted(strengths, reverse=True)
    fewer = short_paths(graph, start, end, without=without, k=2)
    assert [path.strength for path in fewer] == strengths[:2]


def test_the_rarest_relation_stands_for_parallel_facts() -> None:
    graph = Graph.from_triples([("a", "common", "b"), ("a", "rare", "b"), ("c", "common", "d")])
    (path,) = short_paths(graph, 0, 1, without=(0, 0, 0), k=5)
    assert [step.relation for step in path.steps] == ["rare"]
    (path,) = short_paths(graph, 1, 0, without=(0, 1, 1), k=5)
    assert [(step.relation, step.forward) for step in path.steps] == [("common", False)]


def test_hubs_are_passed_over_where_there_are_too_many_edges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("conjoin.predict.paths.EDGES", 3)
    around = [("hub", "r", f"x{i}") for i in range(9)]
    graph = Graph.from_triples(
        [("a", "r", "hub"), ("hub", "r", "b"), ("b", "r", "z"), ("a", "r", "p"), ("p", "r", "b"), *around]
    )
    a, z = graph.entities.find("a"), graph.entities.find("z")
    paths = short_paths(graph, a, z, without=(0, 0, 0), k=5)
    assert [[step.head for step in path.steps] for path in paths] == [["a", "p", "b"]]
