"""The check of mining on hidden facts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.predict.test_mining import graph_of, ids, predictor_of

from conjoin.graph.graph import Split
from conjoin.predict.mining import mine
from conjoin.predict.mining_eval import evaluate_mining
from conjoin.predict.predictor import Predictor


@pytest.mark.parametrize("hide", [("valid",), ("test",), ("valid", "test")])
def test_hidden_facts_count_as_right(hide: tuple[Split, ...]) -> None:
    predictor = predictor_of(graph_of())
    graph = predictor.graph
    found = evaluate_mining(predictor, hide, n=10_000)
    valid, test = (graph.train[:0] if split in hide else graph.triples(split) for split in ("valid", "test"))
    unaware = replace(graph, valid=valid, test=test)
    expected = list(mine(Predictor(predictor.model, unaware), n=10_000))
    assert np.exp(found.value) == pytest.approx([fact.plausibility for fact in expected])
    hidden = {tuple(fact) for split in hide for fact in graph.triples(split).tolist()}
    assert found.right.tolist() == [ids(graph, fact) in hidden for fact in expected]
    assert found.hidden == len(hidden)
    assert found.right.sum() > 0


def test_facts_that_a_sharp_model_calls_impossible_have_a_logarithm() -> None:
    predictor = predictor_of(graph_of())
    with torch.no_grad():
        predictor.model.entities.weight.mul_(1e3)
    found = evaluate_mining(predictor, ["valid"], n=10_000)
    assert np.exp(found.value[-1]) == pytest.approx(0, abs=1e-300)
    assert np.isfinite(found.value).all()
