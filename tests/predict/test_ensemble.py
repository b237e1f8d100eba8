"""An ensemble is asked, scored, calibrated, mined and served like a model, and refused where embeddings are needed."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from tests.server.served import talking

import conjoin
from conjoin.errors import UsageError
from conjoin.graph.graph import Graph
from conjoin.model.ensemble import Ensemble
from conjoin.model.model import Model
from conjoin.predict.calibration import calibrate
from conjoin.predict.compare import compare
from conjoin.predict.explain import explain
from conjoin.predict.fold_in import fold_in
from conjoin.predict.mining import mine
from conjoin.predict.predictor import Predictor, Question
from conjoin.server.open_runs import OpenRun, OpenRuns
from conjoin.server.settings import ServerSettings
from conjoin.training.recipe import Recipe

GRAPH = conjoin.load("synthetic:symmetric(entities=120)")
NAMES, RELATION = GRAPH.entities.names, GRAPH.relations.names[0]


@pytest.fixture(scope="module")
def members() -> list[Predictor]:
    found = []
    for seed, form in enumerate(("complex-conj", "5star")):
        model = Model(form, GRAPH.n_entities, GRAPH.n_relations, rank=4, seed=seed)
        for _ in conjoin.train(model, GRAPH, Recipe(epochs=15, batch=64, lr=0.1)):
            pass
        found.append(Predictor(model, GRAPH))
    return found


@pytest.fixture(scope="module")
def both(members: list[Predictor]) -> Predictor:
    return Predictor.ensemble(members, [1.0, 0.5])


def log_softmax(predictor: Predictor, h: int, r: int) -> torch.Tensor:
    scores = predictor.scorer.scores(torch.tensor([h]), torch.tensor([r]))[0].double()
    return torch.log_softmax(scores, dim=0)


def test_answers_have_the_sum_of_the_log_probabilities(members: list[Predictor], both: Predictor) -> None:
    expected = log_softmax(members[0], 3, 0) + 0.5 * log_softmax(members[1], 3, 0)
    answers = both.ask(NAMES[3], RELATION, k=200)
    assert [answer.score for answer in answers] == sorted((answer.score for answer in answers), reverse=True)
    for answer in answers:
        assert math.isclose(answer.score, float(expected[GRAPH.entities.index[answer.entity]]), abs_tol=1e-5)
    chosen = both.ask(NAMES[3], RELATION, candidates=NAMES[10:20])
    of_all = {answer.entity: answer.score for answer in answers}
    assert {answer.entity: answer.score for answer in chosen} == {name: of_all[name] for name in NAMES[10:20]}


def test_every_kind_of_question_is_answered(both: Predictor) -> None:
    facts = [GRAPH.names(*fact) for fact in GRAPH.test[:5].tolist()]
    for scored, (h, r, t) in zip(both.score(facts), facts, strict=True):
        [by_relation] = [answer for answer in both.ask(h, None, t, k=100) if answer.entity == r]
        assert math.isclose(by_relation.score, scored.score, abs_tol=1e-12)
    assert len(both.ask(None, RELATION, NAMES[5], k=3, only_new=True)) == 3
    assert len(both.similar(NAMES[5], k=4)) == 4
    assert len(compare([both, both], Question(NAMES[3], RELATION), k=2)) == 2


def test_a_calibrated_ensemble_mines_with_probabilities(both: Predictor) -> None:
    calibrated = Predictor(both.scorer, GRAPH, calibration=calibrate(both))
    assert calibrated.calibration is not None
    assert 0 <= calibrated.calibration.measured["calibrated"]["candidates"]["ece"] < 0.1
    facts = list(mine(calibrated, n=10))
    assert len(facts) == 10
    assert all(fact.probability is not None and 0 <= fact.probability <= 1 for fact in facts)


def test_ranks_of_the_sum_are_those_of_its_scores(both: Predictor) -> None:
    ranks = conjoin.rank(both.scorer, GRAPH, "test")
    scored = both.score([GRAPH.names(*fact) for fact in GRAPH.test.tolist()])
    tails = ranks.where(ranks.direction == 0)
    assert [line.rank for line in scored] == (1 + tails.better).tolist()


@pytest.mark.parametrize(
    "use",
    [
        lambda p: fold_in(p, [("new", RELATION, NAMES[0])]),
        lambda p: explain(p, NAMES[0], RELATION, NAMES[1]),
        lambda p: p.model,
    ],
)
def test_uses_of_embeddings_are_refused(both: Predictor, use: Callable[[Predictor], Any]) -> None:
    with pytest.raises(UsageError, match=r"Ensemble.*member"):
        use(both)


def test_members_of_another_graph_are_refused_by_number(members: list[Predictor]) -> None:
    other = replace(GRAPH, train=GRAPH.train[1:], name="shorter")
    with pytest.raises(UsageError, match=r"3.*shorter"):
        Predictor.ensemble([*members, Predictor(members[0].model, other)])
    with pytest.raises(UsageError, match="121"):
        conjoin.rank(Ensemble([members[0].scorer]), Graph(*_grown(GRAPH)), "test")


def _grown(graph: Graph) -> tuple[Any, ...]:
    entities = replace(graph.entities, names=(*graph.entities.names, "zzz"), labels=())
    return entities, graph.relations, graph.train, graph.valid, graph.test


def test_an_ensemble_is_served(both: Predictor) -> None:
    settings = ServerSettings(rate=1e6, burst=1e6)
    opened = OpenRuns([OpenRun("both", None, both, settings=settings)])
    with talking(settings=settings, opened=opened) as client:
        [run] = client.get("/v1/runs").json()["runs"]
        assert (run["name"], run["rank"], run["parameters"]) == ("both", None, None)
        asked: dict[str, str | int] = {"head": NAMES[3], "relation": RELATION, "k": 3}
        answers = client.get("/v1/ask", params=asked).json()["answers"]
        assert [line["entity"] for line in answers] == [a.entity for a in both.ask(NAMES[3], RELATION, k=3)]
        assert len(client.get("/v1/mine", params={"n": 2}).json()["facts"]) == 2
        assert len(client.get("/v1/similar", params={"entity": NAMES[3], "k": 2}).json()["similar"]) == 2
        assert len(client.get("/v1/relations").json()["relations"]) == GRAPH.n_relations
        facts = {"head": NAMES[3], "relation": RELATION, "tail": NAMES[4]}
        assert np.isfinite(client.get("/v1/score", params=facts).json()["scores"][0]["score"])
        for path, parameters in (("explain", facts), ("map", {}), ("geometry", {"relation": RELATION})):
            refused = client.get(f"/v1/{path}", params=parameters)
            assert refused.status_code == 400, path
            assert "Ensemble" in refused.json()["error"]["reason"]
