"""/v1/geometry returns the scene that `conjoin figure sphere` draws, and the coordinates to choose from."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.cli.commands import TINY, conjoin, little_graph
from tests.server.served import error_of, talking

from conjoin.server import schemas


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("geometry")
    little_graph(folder / "graph")
    for name, quotient in (("moving", "mobius"), ("published", "phase")):
        form = ("--form", "5star-neg", "--quotient", quotient)
        ran = conjoin("train", folder / "graph", *TINY, *form, "-o", folder / name, "--json")
        assert ran.code == 0, ran.err
    return [folder / "moving", folder / "published"]


@pytest.fixture(scope="module")
def client(runs: list[Path]) -> Iterator[TestClient]:
    with talking(*runs) as client:
        yield client


def got(client: TestClient, **parameters: Any) -> Any:
    answer = client.get("/v1/geometry", params=parameters)
    assert answer.status_code == 200, answer.text
    schemas.GeometryShape.model_validate(answer.json())
    return answer.json()


def test_geometry_equals_the_scene_of_the_command_line(client: TestClient, runs: list[Path], tmp_path: Path) -> None:
    words = ("--relation", "borders", "-o", tmp_path / "x.html", "--json")
    [drawn] = conjoin("figure", "sphere", runs[0], *words).json["scenes"]
    found = got(client, relation="borders")
    assert {**found["scene"], "run": None} == {**drawn, "run": None}
    assert found["relation"] == {"name": "P1", "label": "borders"}
    assert found["entity"]["label"] == drawn["entity"]
    assert found["coordinates"]["kind"] == ["elliptic"] * 4
    best = max(range(4), key=found["coordinates"]["weight"].__getitem__)
    assert found["scene"]["coordinate"] == best
    other = got(client, relation="P1", coordinate=(best + 1) % 4, entity="Spain", iterates=2, reverse=True)
    assert other["scene"]["entity"] == "Spain"
    assert other["scene"]["iterates"] == 2
    assert other["scene"]["matrix"] != found["scene"]["matrix"]


def test_phase_run_has_no_scene_unless_reading_is_mobius(client: TestClient) -> None:
    found = got(client, run="published", relation="borders")
    assert found["scene"] is None
    assert found["reading"] is None
    assert found["note"]
    read = got(client, run="published", relation="borders", reading="mobius")
    assert read["reading"] == "mobius"
    assert read["note"] not in ("", found["note"])
    assert read["scene"]["kind"] == "elliptic"


@pytest.mark.parametrize(
    ("query", "status", "words"),
    [
        ("relation=bordres", 404, "borders"),
        ("relation=borders&entity=Frnace", 404, "France"),
        ("relation=borders&coordinate=4", 400, "4"),
        ("relation=borders&coordinate=-1", 422, "coordinate"),
        ("relation=borders&iterates=21", 422, "iterates"),
        ("relation=borders&reading=phase", 422, "reading"),
        ("relation=borders&colour=red", 422, "colour"),
        ("", 422, "relation"),
        ("relation=borders&run=movign", 404, "moving"),
    ],
)
def test_bad_requests_name_the_offending_value(client: TestClient, query: str, status: int, words: str) -> None:
    answer = client.get(f"/v1/geometry?{query}")
    assert answer.status_code == status, answer.text
    assert words in " ".join(error_of(answer))
