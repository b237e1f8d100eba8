"""Open runs: names, warm-up, and calibration files that change while the service runs."""

from __future__ import annotations

import io
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient
from tests.server.served import little_run, talking

from conjoin.graph.graph import Graph
from conjoin.model.model import Model
from conjoin.predict.name_search import NameIndex, entity_names
from conjoin.predict.predictor import Predictor, open_run
from conjoin.runs.calibration_curves import FILE, Calibration, Sigmoid, Steps, write_calibration
from conjoin.runs.folder import RunFolder
from conjoin.server.open_runs import OpenRun, OpenRuns, open_runs
from conjoin.server.settings import ServerSettings

SETTINGS = ServerSettings(rate=1e6, burst=1e6)


def test_entity_named_like_the_unknown_marker_is_served(tmp_path: Path) -> None:
    graph = Graph.from_triples([("?", "?", "a"), ("a", "r", "b"), ("b", "r", "?")])
    assert graph.entities.names[0] == graph.relations.names[0] == "?"
    predictor = Predictor(Model("complex", graph.n_entities, graph.n_relations, rank=4), graph)
    run = OpenRun("own", RunFolder(tmp_path), predictor, weights="last", settings=SETTINGS)
    with talking(settings=SETTINGS, opened=OpenRuns([run])) as client:
        assert "?" in [answer["entity"] for answer in client.get("/v1/ask?head=b&relation=r").json()["answers"]]
        assert client.get("/v1/entity?entity=%3F").json()["total"] == 2
        assert client.get("/v1/entities?q=%3F").json()["entities"][0]["name"] == "?"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return little_run(tmp_path)


def calibrated(run: Path, slope: float, weights: str = "last") -> None:
    mined = Steps(np.array([-9.0, 0.0]), np.array([0.1, 0.9]))
    write_calibration(run, open_run(run).graph, Calibration(Sigmoid(slope, -1.0), {}, mined=mined), weights=weights)


def is_calibrated(client: TestClient) -> bool:
    [line] = client.get("/v1/runs").json()["runs"]
    return bool(line["calibrated"])


def new_answers(client: TestClient) -> list[dict[str, Any]]:
    return [a for a in client.get("/v1/ask?head=France&relation=borders").json()["answers"] if not a["known"]]


def slopes(client: TestClient) -> set[float]:
    """The slopes of the calibration curves, computed from answers and from a scored fact."""
    fact = client.get("/v1/score?head=France&relation=borders&tail=Hungary").json()["scores"][0]
    assert not fact["known"]
    lines = [*new_answers(client), fact]
    return {round((math.log(a["probability"] / (1 - a["probability"])) + 1) / a["score"], 6) for a in lines}


def test_new_calibration_applies_from_the_next_request(run: Path) -> None:
    with talking(run) as client:
        assert not is_calibrated(client)
        assert {answer["probability"] for answer in new_answers(client)} == {None}
        calibrated(run, 2.0)
        assert slopes(client) == {2.0}
        assert is_calibrated(client)
        assert all(fact["probability"] is not None for fact in client.get("/v1/mine?n=3").json()["facts"])
        calibrated(run, 3.0)
        assert slopes(client) == {3.0}


def test_damaged_or_missing_calibration_keeps_the_last_one(run: Path) -> None:
    log = io.StringIO()
    calibrated(run, 2.0)
    with talking(run, log=log) as client:
        whole = (run / FILE).read_bytes()
        (run / FILE).write_bytes(whole[: len(whole) // 2])
        assert slopes(client) == slopes(client) == {2.0}
        failures = [line for line in map(json.loads, log.getvalue().splitlines()) if line["event"] == "failure"]
        assert len(failures) == 1, "the file must be read again only after a change"
        assert FILE in failures[0]["trace"]
        (run / FILE).unlink()
        calibrated(run, 4.0)
        assert slopes(client) == {4.0}
        (run / FILE).unlink()
        assert slopes(client) == {4.0}
        calibrated(run, 5.0, weights="best")
        assert slopes(client) == {4.0}, "calibration of other weights must be ignored"


@pytest.fixture
def indexed(monkeypatch: pytest.MonkeyPatch) -> list[Graph]:
    """The graphs whose names were indexed."""
    graphs: list[Graph] = []

    def index(graph: Graph) -> NameIndex:
        graphs.append(graph)
        return entity_names(graph)

    monkeypatch.setattr("conjoin.predict.predictor.entity_names", index)
    return graphs


def test_names_of_a_calibrated_run_are_indexed_once(run: Path, indexed: list[Graph]) -> None:
    calibrated(run, 2.0)
    with talking(run) as client:
        assert client.get("/v1/entities?q=Fran").json()["entities"]
        assert "France" in client.get("/v1/ask?head=Frnace&relation=borders").text
        assert len(indexed) == 1


def test_running_request_keeps_its_calibration_and_the_name_index(run: Path, indexed: list[Graph]) -> None:
    opened = open_runs([run], settings=SETTINGS)[None]
    opened.warm_search()
    before = opened.up_to_date()
    calibrated(run, 2.0)
    after = opened.up_to_date()
    assert before.calibration is None
    assert after.calibration is not None
    assert after.find_entities("France", 1) == before.find_entities("France", 1)
    assert len(indexed) == 1
    assert opened.up_to_date() is after
