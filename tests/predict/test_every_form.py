"""Every verb works with every form, or refuses with a UsageError that gives the reason."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
import torch
from tests.model.test_form_seams import Adjoint, Normalised

import conjoin
from conjoin.errors import UsageError
from conjoin.forms.base import Form
from conjoin.model.model import Model
from conjoin.predict.calibration import calibrate
from conjoin.predict.explain import explain
from conjoin.predict.fold_in import _Objective, fold_in
from conjoin.predict.mining import mine
from conjoin.predict.predictor import Predictor
from conjoin.runs.export import FORMATS, export

N = 24
FACTS = [(f"e{i}", f"r{step}", f"e{(i + step) % N}") for i in range(N) for step in (1, 5)]
GRAPH = conjoin.Graph.from_triples(FACTS[6:], FACTS[:3], FACTS[3:6], name="ring")
RECIPE = conjoin.Recipe(n3=0.01)
VARIANTS = [f"TransE(distance={name})" for name in ("dot", "l1", "dot-bias", "squared-bias")]
FORMS: dict[str, Form] = {name: conjoin.form(name) for name in (*conjoin.FORMS, *VARIANTS, "FiveStar(quotient=mobius)")}
OTHERS: dict[str, Form] = {"derived reciprocals": Adjoint(), "shared parameters": Normalised()}


def predictor(form: Form) -> Predictor:
    model = Model(form, GRAPH.n_entities, GRAPH.n_relations, rank=4, scale=0.5, dtype=torch.float64)
    return Predictor(model, GRAPH)


def check_ask(known: Predictor) -> None:
    answers = known.ask("e0", "r1", k=5)
    assert len(answers) == 5
    assert all(math.isfinite(answer.score) for answer in answers)


def check_score(known: Predictor) -> None:
    [line] = known.score([("e0", "r1", "e1")])
    answers = {answer.entity: answer.score for answer in known.ask("e0", "r1", k=N)}
    assert line.score == pytest.approx(answers["e1"])


def check_rank(known: Predictor) -> None:
    assert 0 < conjoin.rank(known.scorer, GRAPH, "test").mrr() <= 1


def check_explain(known: Predictor) -> None:
    explanation = explain(known, "e0", "r1", "e2")
    assert explanation.supports
    assert all(0 < fact.strength <= 1 for fact in explanation.supports)


def check_fold(known: Predictor) -> None:
    new = [("new", "r1", "e3"), ("e1", "r1", "new")]
    folded = fold_in(known, new, recipe=RECIPE)
    for e in (0, 7):
        old = torch.tensor([e])
        moved = torch.tensor([folded.graph.entities.index[GRAPH.entities.names[e]]])
        assert torch.equal(folded.model.entities.rows(moved), known.model.entities.rows(old))
    start = fold_in(known, new, recipe=RECIPE, steps=0)
    row = np.array([folded.graph.entities.index["new"]])
    objective = _Objective(start.model, start.graph, row, recipe=RECIPE, seed=0)
    costs = [
        float(objective.backward(run.model.entities.rows(objective.fresh).requires_grad_())) for run in (start, folded)
    ]
    assert costs[1] < costs[0]
    assert folded.score([FACTS[8]])[0].score == pytest.approx(known.score([FACTS[8]])[0].score)


def check_similar(known: Predictor) -> None:
    assert all(-1.000001 <= answer.score <= 1.000001 for answer in known.similar("e0", k=3))


def check_calibrate(known: Predictor) -> None:
    calibrated = Predictor(known.scorer, GRAPH, calibration=calibrate(known))
    assert all(0 <= answer.probability <= 1 for answer in calibrated.ask("e0", "r1") if answer.probability is not None)


def check_mine(known: Predictor) -> None:
    facts = list(mine(known, n=5))
    assert len(facts) == 5
    assert not {(fact.head, fact.relation, fact.tail) for fact in facts} & set(FACTS)


VERBS: dict[str, Callable[[Predictor], None]] = {
    name.removeprefix("check_"): check
    for name, check in dict(globals()).items()
    if name.startswith("check_") and callable(check)
}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("form", [*FORMS, *OTHERS])
def test_a_verb_works_with_a_form(form: str, verb: str) -> None:
    VERBS[verb](predictor((FORMS | OTHERS)[form]))


@cache
def trained(form: str) -> tuple[TemporaryDirectory[str], Path]:
    """The folder of a short training with a form."""
    folder = TemporaryDirectory()
    recipe = conjoin.Recipe(epochs=1, batch=16)
    run = conjoin.Run.of(GRAPH, form, rank=4, recipe=recipe)
    return folder, conjoin.execute(run, GRAPH, Path(folder.name) / "run").path


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("form", FORMS)
def test_a_run_of_a_form_is_exported(form: str, format: str, tmp_path: Path) -> None:
    run = trained(form)[1]
    files = export(run, tmp_path / "out", format=format)
    assert all(file.exists() for file in files)
    if format == "safetensors":
        assert conjoin.open(tmp_path / "out").ask("e0", "r1") == conjoin.open(run).ask("e0", "r1")
    if format == "parquet":
        import pyarrow.parquet as pq

        model = conjoin.open(run).model
        for stem, rows in (("entities", model.entities.all_rows()), ("relations", model.relations)):
            stored = pq.read_table(tmp_path / "out" / f"{stem}.parquet")["row"].to_pylist()
            assert np.array_equal(np.array(stored, np.float32), rows.numpy())


def test_an_ensemble_refuses_the_verbs_that_need_embeddings() -> None:
    both = Predictor.ensemble([predictor(FORMS["complex"]), predictor(FORMS["transe"])])
    for verb in ("explain", "fold"):
        with pytest.raises(UsageError, match="Ensemble"):
            VERBS[verb](both)
    for verb in ("ask", "score", "rank", "similar", "calibrate", "mine"):
        VERBS[verb](both)
