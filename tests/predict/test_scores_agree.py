"""`ask`, `score` and `rank` agree about score and rank of every fact, whatever the form and the path of the table."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from tests.oracle.specs import every_spec
from tests.oracle.standings import random_graph

import conjoin
from conjoin.evaluation.rank import rank
from conjoin.model.ensemble import Ensemble
from conjoin.model.model import Model
from conjoin.model.scorer import Scorer
from conjoin.predict.predictor import Predictor

GRAPH = random_graph(4, entities=30, train=60, held_out=12)
BUDGETS = (None, 1, 3000)
FORMS = sorted({spec.text() for spec in every_spec().values()} | {str(conjoin.form(name)) for name in conjoin.FORMS})


def check(scorer: Scorer) -> None:
    predictor = Predictor(scorer, GRAPH)
    facts = [GRAPH.names(*fact) for fact in GRAPH.test.tolist()]
    ranks = rank(scorer, GRAPH, "test")
    better = ranks.where(ranks.direction == 0).better
    ids = torch.from_numpy(GRAPH.test.copy())
    all_scores = scorer.scores(ids[:, 0], ids[:, 1]).gather(1, ids[:, 2:])[:, 0].tolist()
    for line, fact, score, above in zip(predictor.score(facts), facts, all_scores, better.tolist(), strict=True):
        head, relation, tail = fact
        assert math.isclose(line.score, score, rel_tol=1e-9, abs_tol=1e-9)
        assert line.rank == 1 + above
        for question, asked in (((head, relation, None), tail), ((head, None, tail), relation)):
            for answer in predictor.ask(*question, k=100):
                if answer.entity == asked:
                    assert math.isclose(answer.score, line.score, rel_tol=1e-9, abs_tol=1e-9)
        order = predictor.ask(head, relation, k=100)
        places = {answer.entity: place for place, answer in enumerate(order)}
        if tail in places:  # a fact between an entity and itself may be no answer
            known = sum(answer.known for answer in order[: places[tail]])
            hidden_self = head not in places and _counts(predictor, fact)
            assert line.rank == 1 + places[tail] - known + hidden_self
        assert np.isfinite(line.score)


def _counts(predictor: Predictor, fact: tuple[str, str, str]) -> bool:
    """Does the head itself, which `ask` leaves out, compete and score higher than the tail?"""
    head, relation, _ = fact
    [itself] = predictor.score([(head, relation, head)])
    [line] = predictor.score([fact])
    return not itself.known and itself.score > line.score


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("form", FORMS)
def test_scores_and_ranks_agree_for_every_form(form: str, budget: int | None) -> None:
    sizes = (GRAPH.n_entities, GRAPH.n_relations)
    check(Model(form, *sizes, rank=4, scale=0.7, dtype=torch.float64, budget=budget))


@pytest.mark.parametrize("budget", BUDGETS)
def test_scores_and_ranks_agree_for_an_ensemble(budget: int | None) -> None:
    sizes = (GRAPH.n_entities, GRAPH.n_relations)
    members = [
        Model(form, *sizes, rank=4, seed=seed, scale=0.7, dtype=torch.float64, budget=budget)
        for seed, form in enumerate(("complex", "5star-conj", "pair"))
    ]
    check(Ensemble(members, [1.0, 0.5, 2.0]))
