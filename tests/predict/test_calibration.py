"""Probabilities: curves, their fit, their reliability, and how they are kept."""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import conjoin
from conjoin.errors import RunError, UsageError
from conjoin.graph.graph import HELD_OUT, Graph
from conjoin.predict.calibration import (
    SHALLOWEST,
    CalibrationSample,
    Fitting,
    calibrate,
    draw,
    fit,
    fit_mined,
    measure,
    reliability,
)
from conjoin.predict.mining import mine
from conjoin.predict.mining_eval import HiddenSplit, MiningEvaluation, evaluate_mining
from conjoin.predict.predictor import Predictor, QueryIds, open_run
from conjoin.runs.calibration_curves import Calibration, Sigmoid, Steps, read_calibration, write_calibration
from conjoin.runs.export import export
from conjoin.runs.folder import RunFolder

pytest.importorskip("sklearn", reason="fitting a calibration needs scikit-learn: pip install 'conjoin[calibrate]'")


@pytest.fixture(scope="module")
def graph() -> Graph:
    """Forty numbers: `next` has many facts, `half` few, so that only one relation gets curves of its own.

    None is next to itself; n00 is its own half.
    """
    following = [(f"n{i:02}", "next", f"n{(i + 1) % 40:02}") for i in range(40)]
    further = [(f"n{i:02}", "next", f"n{(i + 2) % 40:02}") for i in range(40)]
    halves = [(f"n{i:02}", "half", f"n{i // 2:02}") for i in range(0, 40, 2)]
    return Graph.from_triples(
        [*following, *further[:20], *halves[:14]], [*further[20:30], *halves[14:17]], [*further[30:], *halves[17:]]
    )


@pytest.fixture(scope="module")
def run(graph: Graph, tmp_path_factory: pytest.TempPathFactory) -> Path:
    recipe = conjoin.Recipe(epochs=15, batch=20, validate_every=15)
    settings = conjoin.Run.of(graph, "complex", rank=8, recipe=recipe)
    return conjoin.execute(settings, graph, tmp_path_factory.mktemp("runs") / "n").path


@pytest.fixture
def own_run(run: Path, tmp_path: Path) -> RunFolder:
    return RunFolder(Path(shutil.copytree(run, tmp_path / "run")))


SMALL = Fitting(fewest=5)


def test_corruptions_are_unknown_and_stand_for_all_of_them(run: Path, graph: Graph) -> None:
    predictor = open_run(run)
    sample = draw(predictor, "valid", Fitting())
    queries = graph.queries("valid")
    is_next = queries[:, 1] % 2 == graph.relations.find("next")
    unknown = np.array([graph.n_entities - len(graph.known.tails_of(h, r)) for h, r, _ in queries]) - is_next
    assert sample.weight[:, 1:].sum(axis=1) == pytest.approx(unknown)
    assert (sample.weight[:, 0] == 1).all()
    for (h, r, t), scores, weight in zip(queries.tolist(), sample.score, sample.weight, strict=True):
        found, facts, _ = predictor.scores(QueryIds(h, r, None))
        assert scores[0] == pytest.approx(found[t], rel=1e-4, abs=1e-6)
        assert np.sort(scores[1:][weight[1:] > 0]) == pytest.approx(
            np.sort(np.delete(found, [*facts, *([h] if graph.relations.names[r % 2] == "next" else [])])), abs=1e-4
        )
    assert draw(predictor, "valid", Fitting(ratio=3)).score.shape == (len(queries), 4)


def test_torch_defaults_draw_no_other_corruptions(run: Path) -> None:
    predictor = open_run(run)
    usual = draw(predictor, "valid", Fitting(ratio=3))
    torch.set_default_device("meta")
    torch.set_default_dtype(torch.float64)
    try:
        other = draw(predictor, "valid", Fitting(ratio=3))
    finally:
        torch.set_default_device(None)
        torch.set_default_dtype(torch.float32)
    assert np.array_equal(usual.score, other.score)


def test_the_best_corruptions_are_all_there_and_a_few_stand_for_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    chance = np.random.default_rng(0)
    facts = [(f"e{h}", f"r{r}", f"e{t}") for h, r, t in chance.integers(0, (200, 2, 200), (600, 3)).tolist()]
    large = Graph.from_triples([*facts[:560], ("e0", "r0", "e0"), ("e0", "r1", "e0")], facts[560:])
    predictor = Predictor(conjoin.Model("complex", large.n_entities, 2, rank=4, scale=1.0), large)
    monkeypatch.setattr("conjoin.predict.calibration.HARD", 5)
    monkeypatch.setattr("conjoin.predict.calibration.EASY", 7)
    sample, asked = draw(predictor, "valid", Fitting()), large.queries("valid")
    for (h, r, _), scores, weight, shown in zip(asked.tolist(), sample.score, sample.weight, sample.shown, strict=True):
        found, known, _ = predictor.scores(QueryIds(h, r, None))
        unknown = np.sort(np.delete(found, known))[::-1]
        assert scores[1:6] == pytest.approx(unknown[:5], abs=1e-4)
        assert (scores[6:] < scores[5]).all()
        facts = ((asked[:, 0] == h) & (asked[:, 1] == r)).sum()
        assert weight == pytest.approx([1.0, *[1 / facts] * 5, *[(len(unknown) - 5) / 7 / facts] * 7])
        assert shown.sum() == 10
        assert scores[shown].min() > scores[~shown].max()


def test_a_question_with_several_facts_is_asked_once() -> None:
    facts = [("a", "r", "b"), ("a", "r", "c"), ("b", "r", "c")]
    graph = Graph.from_triples([("d", "r", "e"), ("e", "r", "e"), ("f", "r", "a")], facts)
    predictor = Predictor(conjoin.Model("complex", 6, 1, rank=2, scale=1.0), graph)
    sample = draw(predictor, "valid", Fitting())
    asked = {question: 6 - len(graph.known.tails_of(*question)) for question in ((0, 0), (1, 0), (1, 1), (2, 1))}
    assert (sample.weight[:, 0] == 1).all()
    assert sample.weight[:, 1:].sum() == pytest.approx(sum(asked.values()))
    assert sample.weight[:2, 1:].sum(axis=1) == pytest.approx([asked[0, 0] / 2] * 2)
    prior = calibrate(predictor).about["prior"]
    assert prior == pytest.approx(6 / (6 + sum(asked.values())))
    assert draw(predictor, "valid", Fitting(ratio=1)).weight.tolist() == [[1, 1]] * 6


def repeated(graph: Graph) -> Graph:
    """The same facts, many of them twice: within valid and test, and again in a later split."""
    valid = np.concatenate([graph.train[::3], graph.valid, graph.valid[::2]])
    test = np.concatenate([graph.test, graph.valid[::2], graph.train[::5], graph.test[::2]])
    return replace(graph, valid=valid, test=test)


@pytest.mark.parametrize("ratio", [None, 2])
def test_facts_that_were_trained_on_or_come_again_are_not_held_out(run: Path, graph: Graph, ratio: int | None) -> None:
    model = open_run(run).model
    once, twice = Predictor(model, graph), Predictor(model, repeated(graph))
    fitting = Fitting(ratio=ratio, fewest=5)
    for split in HELD_OUT:
        for expected, found in zip(draw(once, split, fitting), draw(twice, split, fitting), strict=True):
            assert np.array_equal(expected, found)
    assert calibrate(twice, fitting).about == calibrate(once, fitting).about
    with pytest.raises(UsageError, match="graph"):
        calibrate(Predictor(model, replace(graph, valid=graph.train)))
    assert "calibrated" not in calibrate(Predictor(model, replace(graph, test=graph.valid)), fitting).measured


def test_facts_that_are_also_in_train_are_not_hidden(run: Path, graph: Graph) -> None:
    model = open_run(run).model
    assert evaluate_mining(Predictor(model, repeated(graph)), ["test"], n=9).hidden == len(graph.test)
    assert evaluate_mining(Predictor(model, repeated(graph)), ["valid", "test"], n=9).hidden == 26
    assert evaluate_mining(Predictor(model, graph), [], n=9).hidden == 0


@pytest.mark.parametrize("method", ["isotonic", "platt"])
def test_a_fit_finds_the_share_of_facts(method: str) -> None:
    chance = np.random.default_rng(0)
    scores = chance.normal(size=40_000) * 2
    truth = (chance.random(len(scores)) < 1 / (1 + np.exp(-(1.5 * scores - 1)))).astype(float)
    curve = fit(scores, truth, np.ones(len(scores)), method)  # type: ignore[arg-type]
    at = np.array([-2.0, 0.0, 1.0, 3.0])
    assert curve(at) == pytest.approx(1 / (1 + np.exp(-(1.5 * at - 1))), abs=0.05)
    weighted = fit(scores, truth, np.where(truth == 1, 1.0, 9.0), method)  # type: ignore[arg-type]
    assert (weighted(at) < curve(at)).all()


def test_few_facts_never_give_certainty() -> None:
    curve = fit(np.array([1.0, 2.0, 3.0, 4.0]), np.array([0.0, 0.0, 1.0, 1.0]), np.ones(4), "isotonic")
    assert curve(np.array([9.0]))[0] == pytest.approx(3 / 4)
    assert 0 < curve(np.array([-9.0]))[0] < 1e-5


def test_where_every_candidate_is_a_fact_both_ways_say_the_same() -> None:
    for method in ("isotonic", "platt"):
        curve = fit(np.array([1.0, 2.0, 3.0]), np.ones(3), np.ones(3), method)
        assert curve(np.array([-9.0, 2.0, 9.0])) == pytest.approx([4 / 5] * 3)


def test_numbers_of_reliability() -> None:
    p, truth, weight = np.array([0.1, 0.1, 0.9, 0.8]), np.array([0.0, 1.0, 1.0, 0.0]), np.array([3.0, 1.0, 1.0, 1.0])
    found = reliability(p, truth, weight)
    assert found["brier"] == pytest.approx((3 * 0.01 + 0.81 + 0.01 + 0.64) / 6)
    assert found["log_loss"] == pytest.approx(-(3 * np.log(0.9) + np.log(0.1) + np.log(0.9) + np.log(0.2)) / 6)
    assert found["ece"] == pytest.approx((abs(0.4 - 1) + abs(0.9 - 1) + abs(0.8 - 0)) / 6)
    assert [line["candidates"] for line in found["table"]] == [4, 1, 1]
    assert found["table"][0]["facts"] == pytest.approx(0.25)


@given(st.lists(st.floats(-5, 5), min_size=2, max_size=20, unique=True), st.floats(-9, 9), st.floats(-9, 9))
def test_a_higher_score_is_never_less_probable(at: list[float], a: float, b: float) -> None:
    steps = Steps(np.sort(at), np.linspace(0, 1, len(at)))
    low, high = sorted((a, b))
    for curve in (steps, Sigmoid(1.5, -1)):
        first, second = curve(np.array([low, high]))
        assert 0 <= first <= second <= 1


def test_relations_have_their_own_curve_or_the_pooled_one(run: Path, graph: Graph) -> None:
    calibration = calibrate(open_run(run), SMALL)
    following = graph.relations.index["next"]
    assert set(calibration.own) == {following, following + graph.n_relations}
    assert calibration.about["own_curves"] == 2
    own = [calibrate(open_run(run), Fitting(method="platt", fewest=fewest)).about["own_curves"] for fewest in (10, 11)]
    assert own == [2, 0], "it has ten facts in valid"
    half = np.array([graph.relations.index["half"]])
    score = np.array([2.0])
    assert calibration.probabilities(half, score) == calibration.pooled(score)
    assert calibration.probabilities(np.array([following]), score) == calibration.own[following](score)
    assert calibration.about["prior"] == pytest.approx(1 / 39, rel=0.1)
    assert calibrate(open_run(run), Fitting(ratio=4, fewest=99)).about["prior"] == pytest.approx(0.2)


def test_calibrated_probabilities_are_more_reliable_than_scores(run: Path) -> None:
    measured = calibrate(open_run(run), SMALL).measured
    for part in ("candidates", "shown"):
        assert measured["calibrated"][part]["log_loss"] < measured["sigmoid"][part]["log_loss"]
        assert measured["calibrated"][part]["ece"] < measured["sigmoid"][part]["ece"]
    assert measured["facts"] == 13


def test_mined_facts_have_the_probability_measured_with_valid_hidden(own_run: RunFolder, graph: Graph) -> None:
    """`next` has a curve of its own: what was right among its own mined facts, not among those of all relations."""
    calibration = calibrate(open_run(own_run.path), SMALL)
    half, following = (graph.relations.index[name] for name in ("half", "next"))
    assert list(calibration.mined_own) == [following]
    stage = HiddenSplit(open_run(own_run.path), ["valid"])
    for r, hidden in ((half, 3), (following, 10)):
        found, curve = stage.first(SHALLOWEST, relations=[r]), calibration.mined_curve(r)
        assert curve is not None
        assert curve(found.value).sum() == pytest.approx(found.right.sum(), rel=0.01)
        assert 0 < found.right.sum() <= hidden
    write_calibration(str(own_run.path), graph, calibration, weights="last")
    predictor = open_run(own_run.path)
    for fact in mine(predictor, n=1000):
        curve = calibration.mined_curve(graph.relations.index[fact.relation])
        assert curve is not None
        assert fact.probability == curve(np.log([fact.plausibility]))[0]
    hidden_test = evaluate_mining(predictor, ["test"], n=100)
    measured = calibration.measured["mined"]
    assert (measured["first"], measured["hidden"]) == (100, 13)
    assert measured["right"] == hidden_test.right.sum()
    assert measured["said"] == pytest.approx(hidden_test.said.sum())


@pytest.mark.parametrize("rare", ["in valid only", "not in valid"])
def test_relations_with_nothing_to_find_have_the_curve_of_all(rare: str) -> None:
    """Their facts, or those of every other relation, would have no probability, or be called impossible."""
    train = [(f"n{i:02}", "next", f"n{(i + k) % 15:02}") for i in range(15) for k in (1, 2)]
    valid = [(f"n{i:02}", "next", f"n{(i + 3) % 15:02}") for i in range(12)]
    (valid if rare == "in valid only" else train).append(("n00", "rare", "n01"))
    graph = Graph.from_triples(train, valid)
    predictor = Predictor(conjoin.Model("complex", 15, 2, rank=4, scale=0.5), graph)
    mined, own = fit_mined(predictor, 5)
    assert list(own) == [graph.relations.index["next"]]
    of_all, none = fit_mined(predictor, 99)
    assert none == {}
    assert mined is not None
    assert of_all is not None
    assert mined.to_json() == of_all.to_json()
    assert mined(np.zeros(1))[0] > 0.01
    curves = Calibration(Sigmoid(1, 0), {}, mined=mined, mined_own=own)
    assert all(fact.probability for fact in mine(Predictor(predictor.model, graph, calibration=curves)))


def test_a_few_wrong_facts_at_the_end_do_not_make_all_that_follow_impossible(
    monkeypatch: pytest.MonkeyPatch, graph: Graph, run: Path
) -> None:
    """Every second fact is right but the last three: what is less plausible is right as often as the last nine."""
    right = np.array([*([1.0, 0.0] * 98), 1.0, 0.0, 0.0, 0.0])

    def first(_: HiddenSplit, n: int, *, relations: list[int]) -> MiningEvaluation:
        value = -np.arange(200.0)
        return MiningEvaluation(value, np.full(200, relations[0]), right, value, 98)

    monkeypatch.setattr(HiddenSplit, "first", first)
    curve, own = fit_mined(open_run(run), 50)
    assert own == {}
    assert curve is not None
    assert curve(np.array([-1000.0]))[0] == pytest.approx(right[-9:].mean())


def test_measured_on_what_is_shown() -> None:
    score = np.arange(24.0).reshape(2, 12)
    sample = CalibrationSample(
        score, np.ones((2, 12)), np.full((2, 12), 0.5), score % 12 >= 2, np.zeros(2, dtype=np.int64)
    )
    measured = measure(sample, Calibration(Sigmoid(0, 0), {}))
    assert measured["calibrated"]["shown"]["facts"] == 0
    assert measured["calibrated"]["candidates"]["facts"] == pytest.approx(1 / 12)
    assert measured["calibrated"]["candidates"]["ece"] == pytest.approx(0.5 - 1 / 12)


def test_answers_of_a_calibrated_run_have_a_probability(own_run: RunFolder, graph: Graph, tmp_path: Path) -> None:
    assert open_run(own_run.path).ask("n00", "next", only_new=True)[0].probability is None
    calibration = calibrate(open_run(own_run.path), SMALL)
    file = write_calibration(own_run, graph, calibration, weights="last")
    predictor = open_run(own_run.path)
    for question in (("n00", "next", None), (None, "next", "n03"), (None, "half", "n03"), ("n01", None, "n07")):
        for answer in predictor.ask(*question, k=40):
            if answer.known:
                assert answer.probability is None
            else:
                r = graph.relations.index[question[1] or answer.entity] + (question[0] is None) * graph.n_relations
                expected = calibration.probabilities(np.array([r]), np.array([answer.score]))[0]
                assert answer.probability == pytest.approx(expected)
    assert [line.probability for line in predictor.score([("n00", "next", "n05")])] != [None]
    assert open_run(own_run.path, weights="best").calibration is None
    export(own_run.path, tmp_path / "bundle")
    assert open_run(tmp_path / "bundle").ask("n00", "next") == predictor.ask("n00", "next")
    content = json.loads(file.read_text())
    mined = ("mined", "mined_relations")
    assert set(content) == {
        "format_version",
        "run",
        "weights",
        "about",
        "measured",
        "pooled",
        "relations",
        *mined,
        "sha256",
    }


def test_a_calibration_that_is_damaged_or_of_another_run_is_refused(own_run: RunFolder, graph: Graph) -> None:
    file = write_calibration(own_run, graph, Calibration(Sigmoid(1, 0), {0: Sigmoid(2, 1)}), weights="last")
    assert read_calibration(own_run, graph, "best") is None
    whole = file.read_text()
    file.write_text(whole.replace('"slope": 2', '"slope": 3'))
    with pytest.raises(RunError, match=r"calibration\.json"):
        open_run(own_run.path)
    content = {key: value for key, value in json.loads(whole).items() if key != "sha256"}
    from conjoin.runtime.atomic_files import write_sealed

    write_sealed(file, {**content, "run": "another"})
    with pytest.raises(RunError, match=r"calibration\.json"):
        open_run(own_run.path)
    nonsense: list[dict[str, Any]] = [
        {"relations": {"nonsense": {"tail": {"slope": 1, "intercept": 0}}}},
        {"mined_relations": {"nonsense": {"scores": [0.0], "probabilities": [0.5]}}},
        {"mined": {"slope": -1, "intercept": 0}},
    ]
    for change in nonsense:
        write_sealed(file, {**content, **change})
        with pytest.raises(RunError, match=r"calibration\.json"):
            open_run(own_run.path)
    del content["mined_relations"]
    write_sealed(file, content)
    calibration = read_calibration(own_run, graph, "last")
    assert calibration is not None, "as it was written before relations had curves of mined facts"
    assert calibration.mined_own == {}


NAN, INFINITE = float("nan"), float("inf")


@pytest.mark.parametrize(
    "curve",
    [
        {"scores": [0.0, 1.0], "probabilities": [0.5, 0.4]},
        {"scores": [1.0, 0.0], "probabilities": [0.4, 0.5]},
        {"scores": [NAN], "probabilities": [0.5]},
        {"scores": [-INFINITE, 0.0], "probabilities": [0.4, 0.5]},
        {"scores": [0.0, 1.0, 2.0], "probabilities": [0.4, NAN, 0.5]},
        {"scores": [0.0], "probabilities": [1.5]},
        {"scores": [], "probabilities": []},
        {"slope": NAN, "intercept": 0.0},
        {"slope": 1.0, "intercept": INFINITE},
    ],
)
def test_malformed_curves_are_refused(own_run: RunFolder, graph: Graph, curve: dict[str, object]) -> None:
    """Also where someone has put the checksum right."""
    steps = Steps(np.array([0.0]), np.array([0.5]))
    whole = Calibration(Sigmoid(1, 0), {0: Sigmoid(2, 1)}, mined=steps, mined_own={0: steps})
    file = write_calibration(own_run, graph, whole, weights="last")
    content = {key: value for key, value in json.loads(file.read_text()).items() if key != "sha256"}
    forged: list[dict[str, Any]] = [
        {"pooled": curve},
        {"relations": {"next": {"tail": curve}}},
        {"mined": curve},
        {"mined_relations": {"next": curve}},
    ]
    for change in forged:
        changed = {**content, **change}
        seal = hashlib.sha256(json.dumps(changed, sort_keys=True).encode()).hexdigest()
        file.write_text(json.dumps({**changed, "sha256": seal}))
        with pytest.raises(RunError, match=r"calibration\.json"):
            read_calibration(own_run, graph, "last")


def test_calibration_without_validation_facts_is_refused(graph: Graph) -> None:
    bare = Graph.from_triples([("a", "r", "b")])
    with pytest.raises(UsageError, match="validation facts"):
        calibrate(Predictor(conjoin.Model("complex", 2, 1, rank=2), bare))
    for wrong in ({"method": "linear"}, {"ratio": 0}, {"fewest": 1}):
        with pytest.raises(UsageError):
            Fitting(**wrong)


def test_a_graph_with_hardly_any_corruption_left() -> None:
    tiny = Graph.from_triples([("a", "r", "b"), ("a", "r", "c")], [("a", "r", "a")], [("b", "r", "a")])
    calibration = calibrate(Predictor(conjoin.Model("complex", 3, 1, rank=2), tiny))
    assert calibration.measured["facts"] == 1
