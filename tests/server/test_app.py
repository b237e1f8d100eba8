"""Every route returns what docs/api.md describes."""

from __future__ import annotations

import math
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from starlette.testclient import TestClient
from tests.server.served import error_of, little_run, talking

import conjoin
from conjoin.graph.graph import Graph
from conjoin.graph.patterns.detect import cardinality
from conjoin.model.model import Model
from conjoin.predict.predictor import Predictor
from conjoin.runs.folder import RunFolder
from conjoin.runtime.atomic_files import write_sealed
from conjoin.server import schemas, settings
from conjoin.server.open_runs import OpenRun, OpenRuns
from conjoin.server.projection import project
from conjoin.server.routes.explain import Deadline
from conjoin.server.settings import ServerSettings


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return little_run(tmp_path_factory.mktemp("served"))


@pytest.fixture(scope="module")
def client(run: Path) -> Iterator[TestClient]:
    studies = run.parent / "studies"
    (studies / "deep").mkdir(parents=True)
    report = {"study": "paper", "title": "The paper", "datasets": {"atlas": {}}, "cells": [{}, {}]}
    write_sealed(studies / "deep" / "report.json", report)
    (studies / "report.json").write_text("{]", encoding="utf-8")
    (studies / "changed").mkdir()
    changed = (studies / "deep" / "report.json").read_text(encoding="utf-8").replace("paper", "other", 1)
    (studies / "changed" / "report.json").write_text(changed, encoding="utf-8")
    with talking(run, run, settings=ServerSettings(rate=1e6, burst=1e6, studies=studies)) as client:
        yield client


@pytest.fixture(scope="module")
def predictor(run: Path) -> Predictor:
    return conjoin.open(run)


def got(client: TestClient, path: str, **parameters: Any) -> Any:
    answer = client.get(path, params=parameters)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/json"
    return answer.json()


@pytest.mark.parametrize("question", [("France", "borders", "?"), ("?", "borders", "Q0"), ("Q0", "?", "Spain")])
def test_answers_equal_those_of_the_predictor(client: TestClient, predictor: Predictor, question: Any) -> None:
    alone = predictor.ask(*question, k=5)
    words = dict(zip(("head", "relation", "tail"), question, strict=True))
    by_get = got(client, "/v1/ask", **words, k=5)
    by_post = client.post("/v1/ask", json={"questions": [words], "k": 5}).json()
    assert by_post["results"] == [{key: by_get[key] for key in ("asked", "question", "answers", "untrained")}]
    assert [a["entity"] for a in by_get["answers"]] == [a.entity for a in alone]
    for given, expected in zip(by_get["answers"], alone, strict=True):
        assert math.isclose(given["score"], expected.score, abs_tol=1e-5)
        assert (given["label"], given["known"]) == (expected.label, expected.known)
    assert by_get["question"][by_get["asked"]] is None
    schemas.OneResult.model_validate(by_get)
    schemas.ManyResults.model_validate(by_post)


def test_questions_accept_labels_and_return_names_and_labels(client: TestClient) -> None:
    found = got(client, "/v1/ask", head="france", relation="borders", k=1)
    assert found["question"] == {
        "head": {"name": "Q0", "label": "France"},
        "relation": {"name": "P1", "label": "borders"},
        "tail": None,
    }


def test_only_new_and_candidates_filter_the_answers(client: TestClient) -> None:
    everything = got(client, "/v1/ask", head="France", relation="borders", k=16)["answers"]
    new = got(client, "/v1/ask", head="France", relation="borders", k=16, only_new=True)["answers"]
    assert [a["entity"] for a in new] == [a["entity"] for a in everything if not a["known"]]
    few = got(client, "/v1/ask", head="France", relation="borders", candidates=["Italy", "Q1", "Q1"])["answers"]
    assert [a["entity"] for a in few] == [a["entity"] for a in everything if a["entity"] in ("Q1", "Q3")]
    [one] = got(client, "/v1/ask", head="France", tail="Spain", candidates=["has capital"])["answers"]
    assert one["entity"] == "P2"


def test_many_questions_of_different_kinds_in_one_request(client: TestClient) -> None:
    questions = [
        {"head": "France", "relation": "borders"},
        {"relation": "has capital", "tail": "C3"},
        {"head": "Q1", "tail": "Q2", "relation": "?"},
    ]
    results = client.post("/v1/ask", json={"questions": questions, "k": 3}).json()["results"]
    assert [result["asked"] for result in results] == ["tail", "head", "relation"]
    for question, result in zip(questions, results, strict=True):
        assert result["answers"] == got(client, "/v1/ask", **question, k=3)["answers"]


def test_scores_equal_those_of_the_predictor(client: TestClient, predictor: Predictor) -> None:
    [expected] = predictor.score([("Q0", "P1", "Q1")])
    by_get = got(client, "/v1/score", head="France", relation="borders", tail="Spain")
    triples = [{"head": "France", "relation": "borders", "tail": "Spain"}]
    assert client.post("/v1/score", json={"triples": triples}).json() == by_get
    [line] = by_get["scores"]
    assert (line["rank"], line["known"]) == (expected.rank, expected.known)
    assert math.isclose(line["score"], expected.score, abs_tol=1e-5)
    assert line["tail"] == {"name": "Q1", "label": "Spain"}
    schemas.Scores.model_validate(by_get)


def test_untrained_lists_names_without_training_facts(tmp_path: Path) -> None:
    graph = Graph.from_triples(
        [("a", "r", "b"), ("b", "r", "c")], [("a", "rNEW", "b")], [("a", "r", "Q9")], labels={"Q9": "new"}
    )
    predictor = Predictor(Model("complex", graph.n_entities, graph.n_relations, rank=4), graph)
    unlimited = ServerSettings(rate=1e6, burst=1e6)
    run = OpenRun("own", RunFolder(tmp_path), predictor, weights="last", settings=unlimited)
    entity, relation = {"name": "Q9", "label": "new"}, {"name": "rNEW", "label": "rNEW"}
    with talking(settings=unlimited, opened=OpenRuns([run])) as client:
        assert got(client, "/v1/ask", head="a", relation="rNEW")["untrained"] == [relation, entity]
        assert got(client, "/v1/ask", head="a", relation="r", candidates=["b"])["untrained"] == []
        assert got(client, "/v1/ask", head="a", tail="new")["untrained"] == [entity, relation]
        questions = [{"head": "a", "relation": "rNEW"}, {"head": "a", "relation": "r"}]
        results = client.post("/v1/ask", json={"questions": questions, "candidates": ["b"]}).json()["results"]
        assert [result["untrained"] for result in results] == [[relation], []]
        assert got(client, "/v1/score", head="a", relation="r", tail="b")["untrained"] == []
        triples = [{"head": head, "relation": "r", "tail": "new"} for head in "ab"]
        assert client.post("/v1/score", json={"triples": triples}).json()["untrained"] == [entity]
        described = got(client, "/openapi.json")["components"]["schemas"]
        for shape in ("OneResult", "Result", "Scores"):
            assert described[shape]["properties"]["untrained"]["description"]


def test_similar_entities_equal_those_of_the_predictor(client: TestClient, predictor: Predictor) -> None:
    found = got(client, "/v1/similar", entity="France", k=3)
    assert client.post("/v1/similar", json={"entity": "France", "k": 3}).json() == found
    expected = predictor.similar("France", 3)
    assert [line["entity"] for line in found["similar"]] == [a.entity for a in expected]
    assert [line["linked"] for line in found["similar"]] == [a.known for a in expected]
    schemas.Similar.model_validate(found)


def test_search_tolerates_misspellings_and_lists_by_degree(client: TestClient) -> None:
    found = got(client, "/v1/entities", q="Fran")
    assert found["entities"][0] == {"name": "Q0", "label": "France", "degree": 3}
    assert got(client, "/v1/entities", q="Frnace")["entities"][0]["label"] == "France"
    most = got(client, "/v1/entities", limit=16)["entities"]
    assert [e["degree"] for e in most] == sorted((e["degree"] for e in most), reverse=True)
    assert len(most) == 16
    assert [r["name"] for r in got(client, "/v1/relations", q="capital")["relations"]] == ["P2"]


def test_relations_carry_patterns_and_both_directions(client: TestClient, predictor: Predictor, run: Path) -> None:
    found = got(client, "/v1/relations")
    schemas.Relations.model_validate(found)
    borders, capital = found["relations"]
    assert (borders["name"], borders["train"], borders["valid"], borders["test"]) == ("P1", 14, 1, 1)
    assert [p["pattern"] for p in borders["patterns"]] == ["symmetric"]
    assert borders["tails_per_head"] == cardinality(predictor.graph).tails_per_head[0]
    assert capital["cardinality"] == "1-1"
    assert capital["ranks"] == {"tail": None, "head": None}
    ranks = RunFolder(run).ranks("test")
    for direction, code in (("tail", 0), ("head", 1)):
        assert borders["ranks"][direction]["mrr"] == pytest.approx(ranks.where(ranks.direction == code).mrr())
        assert borders["ranks"][direction]["questions"] == 1


def test_entity_page_holds_facts_and_ego_graph(client: TestClient) -> None:
    found = got(client, "/v1/entity", entity="France", nodes=5)
    schemas.EntityPage.model_validate(found)
    assert found["entity"] == {"name": "Q0", "label": "France", "degree": 3}
    assert [fact["split"] for fact in found["facts"]] == ["train"] * 3 + ["valid", "test"]
    assert found["total"] == 5
    for fact in found["facts"]:
        assert "Q0" in (fact["head"]["name"], fact["tail"]["name"])
    nodes = {node["name"]: node["hops"] for node in found["graph"]["nodes"]}
    assert nodes["Q0"] == 0
    assert len(nodes) == 5
    assert nodes["Q1"] == 1
    assert found["graph"]["edges"]
    for edge in found["graph"]["edges"]:
        assert {edge["source"], edge["target"]} <= set(nodes)
    assert got(client, "/v1/entity", entity="France", facts=0)["facts"] == []
    assert len(got(client, "/v1/entity", entity="France", nodes=1)["graph"]["nodes"]) == 1


def test_explanations(client: TestClient) -> None:
    wanted = {"head": "France", "relation": "borders", "tail": "Italy", "k": 3}
    found = got(client, "/v1/explain", **wanted)
    assert client.post("/v1/explain", json=wanted).json() == found
    schemas.Explained.model_validate(found)
    assert found["fact"]["tail"] == {"name": "Q3", "label": "Italy"}
    assert found["known"] is False
    assert len(found["supports"]) <= 3
    for path in found["paths"]:
        ends = [{step["head"]["name"], step["tail"]["name"]} for step in path["steps"]]
        assert "Q0" in ends[0]
        assert "Q3" in ends[-1]


def test_mining(client: TestClient, predictor: Predictor) -> None:
    found = got(client, "/v1/mine", relation="borders", n=5)
    schemas.MinedResponse.model_validate(found)
    assert found["complete"] is True
    assert 0 < len(found["facts"]) <= 5
    known = {tuple(fact) for fact in predictor.graph.train.tolist()}
    for fact in found["facts"]:
        assert fact["relation"]["name"] == "P1"
        index = predictor.graph.entities.index
        assert (index[fact["head"]["name"]], 0, index[fact["tail"]["name"]]) not in known


def test_mining_gives_what_it_has_when_the_time_is_up() -> None:
    deadline = Deadline(60)
    assert list(deadline([1, 2], "mine", 2)) == [1, 2]
    assert not deadline.reached
    over = Deadline(-1)
    assert list(over([1, 2], "mine", 2)) == []
    assert over.reached


def test_map_in_both_formats(client: TestClient, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = got(client, "/v1/map")
    schemas.MapShape.model_validate(found)
    assert found["count"] == found["total"] == len(found["names"]) == 16
    assert np.quantile(np.abs([found["x"], found["y"]]), 0.99) <= 1
    assert found["degree"] == sorted(found["degree"], reverse=True)
    counts = np.bincount(found["class"], minlength=len(found["classes"]))
    assert counts.tolist() == [kind["count"] for kind in found["classes"]]
    packed = client.get("/v1/map?format=binary&limit=7").content
    magic, count = struct.unpack_from("<4sI", packed)
    assert (magic, count) == (b"CJM1", 7)
    x = np.frombuffer(packed, "<f4", count, 8)
    assert np.allclose(x, found["x"][:7], atol=1e-4)
    assert list(np.frombuffer(packed, "u1", count, 8 + 12 * count)) == found["class"][:7]
    assert (run / "map-pca-last.npz").exists()
    monkeypatch.setitem(sys.modules, "umap", None)
    assert "umap" in error_of(client.get("/v1/map?method=umap"))[1]


@pytest.mark.parametrize("method", ["umap", "pacmap"])
def test_maps_by_neighbours(method: str) -> None:
    pytest.importorskip(method, reason="maps by neighbours need the extra `map`, which `make bounds` installs")
    points = project(torch.randn(60, 8, generator=torch.Generator().manual_seed(0)), method)
    assert points.shape == (60, 2)
    assert np.isfinite(points).all()


def test_damaged_or_outdated_map_is_computed_again(run: Path) -> None:
    file = run / "map-pca-last.npz"
    with talking(run) as client:
        first = got(client, "/v1/map")
    np.savez(file.open("wb"), points=np.zeros((16, 2), np.float32), weights=np.array("others"))
    for spoil in (lambda: None, lambda: file.write_bytes(b"PK\x03\x04 no")):
        spoil()
        with talking(run) as client:
            assert got(client, "/v1/map") == first


def test_every_limit_is_documented() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "api.md").read_text(encoding="utf-8")
    section = page.partition("## Limits")[2].partition("\n## ")[0]
    words = {
        "K": "`k`",
        "QUESTIONS": "questions or triples in one request",
        "ANSWERS": "answers in one request (questions times `k`)",
        "CANDIDATES": "candidates",
        "NAME": "characters of a name",
        "SEARCH": "characters of a search text",
        "FOUND": "entities found by a search",
        "RELATIONS": "relations",
        "SUPPORTS": "supports of an explanation",
        "FACTS": "facts of an entity",
        "NODES": "nodes of a neighbourhood",
        "MINED": "mined facts",
        "POINTS": "points of a map",
        "ITERATES": "iterates of a geometry scene",
        "HEADERS": "headers",
    }
    rows = {name: f"| {words[name]} | {getattr(settings, name):,} |" for name in words}
    assert {name for name, row in rows.items() if row not in section} == set()
    in_other_sections = {"EDGES", "CLASSES", "SHORTEST_TOKEN"}
    assert {name for name in vars(settings) if name.isupper()} == {*words, *in_other_sections}


def test_runs_and_limits(client: TestClient) -> None:
    found = got(client, "/v1/runs")
    schemas.Runs.model_validate(found)
    assert [run["name"] for run in found["runs"]] == ["lands", "lands-2"]
    first = found["runs"][0]
    assert (first["entities"], first["relations"], first["train"]) == (16, 2, 22)
    assert (first["form"], first["symbol"]) == ("ComplEx(a2=conj(a1))", "Complεx")
    assert 0 < first["metrics"]["test"]["mrr"] <= 1
    assert found["limits"]["k"] == 1000
    one = got(client, "/v1/ask", head="France", relation="borders", run="lands-2")
    assert one["run"] == "lands-2"


def test_studies(client: TestClient) -> None:
    line = {"name": "paper", "title": "The paper", "cells": 2, "datasets": ["atlas"]}
    assert got(client, "/v1/studies") == {"studies": [line]}
    assert got(client, "/v1/study", name="paper")["title"] == "The paper"
    assert "paper" in error_of(client.get("/v1/study?name=papre"))[1]


def test_health_and_metrics(client: TestClient) -> None:
    assert got(client, "/healthz") == {"status": "alive"}
    assert got(client, "/readyz") == {"status": "ready"}
    got(client, "/v1/ask", head="France", relation="borders")
    got(client, "/openapi.json")
    text = client.get("/metrics").text
    assert 'conjoin_requests_total{route="/v1/ask",status="200"}' in text
    assert 'conjoin_requests_total{route="/openapi.json",status="200"}' in text
    assert "conjoin_batch_questions_count" in text


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/v1/ask?head=Frnace&relation=borders", 404, "France"),
        ("/v1/ask?head=France&relation=bordres", 404, "borders"),
        ("/v1/ask?head=France", 400, "2"),
        ("/v1/ask?head=France&relation=borders&tail=Spain", 400, "0"),
        ("/v1/ask?head=France&relation=borders&k=0", 422, "k:"),
        ("/v1/ask?head=France&relation=borders&k=1001", 422, "1001"),
        ("/v1/ask?head=France&relation=borders&kk=3", 422, "kk:"),
        ("/v1/ask?head=France&relation=borders&run=land", 404, "lands"),
        ("/v1/ask?head=France&relation=borders&candidates=Spian", 404, "Spain"),
        ("/v1/score?head=France&relation=borders", 422, "tail:"),
        ("/v1/entity?entity=" + "x" * 10_001, 422, "entity:"),
        ("/v1/entity?entity=" + "x" * 9_999, 404, "xxx"),
        ("/v1/entities?q=" + "x" * 201, 422, "q:"),
        ("/v1/mine?n=1001", 422, "n:"),
        ("/v1/geometry", 422, "relation:"),
        ("/v1/runs?runs=2", 422, "runs:"),
        ("/v1/studies?name=a", 422, "name:"),
        ("/v1/study?name=unreported&run=lands", 404, "/v1/studies"),
        ("/v2/ask", 404, "/openapi.json"),
    ],
)
def test_bad_requests_name_the_offending_value(client: TestClient, path: str, status: int, words: str) -> None:
    answer = client.get(path)
    assert answer.status_code == status, answer.text
    assert words in " ".join(error_of(answer))


def test_bad_bodies_name_the_offending_value(client: TestClient) -> None:
    question = {"head": "France", "relation": "borders"}
    for body, status, words in (
        ({"questions": []}, 422, "questions:"),
        ({"questions": [question] * 1001}, 422, "questions:"),
        ({"questions": [question] * 200, "k": 1000}, 422, "200"),
        ({"questions": [{**question, "colour": "red"}]}, 422, "colour"),
        ({"questions": [question], "candidates": []}, 400, "candidate"),
        ([], 422, "body"),
    ):
        answer = client.post("/v1/ask", json=body)
        assert answer.status_code == status, answer.text
        assert words in " ".join(error_of(answer))
    broken = client.post("/v1/ask", content=b'{"questions": [', headers={"content-type": "application/json"})
    assert broken.status_code == 400
    error_of(broken)
    surrogate = client.post(
        "/v1/similar", content=b'{"entity": "\\ud800"}', headers={"content-type": "application/json"}
    )
    assert 400 <= surrogate.status_code < 500
    for unreadable in (b"[" * 200_000, b'{"k": ' + b"9" * 5_000 + b"}", b"\xff\xfe\xfa"):
        answer = client.post("/v1/ask", content=unreadable, headers={"content-type": "application/json"})
        assert answer.status_code == 400
        error_of(answer)
    wrong = client.delete("/v1/ask")
    assert (wrong.status_code, wrong.headers["allow"]) == (405, "GET, HEAD, POST")
    assert client.put("/v1/runs").headers["allow"] == "GET, HEAD"


def test_browser_paths_return_the_page_and_missing_assets_404(client: TestClient) -> None:
    browser = {"accept": "text/html,*/*"}
    for path in ("/", "/ask/France", "/entity/St. Louis"):
        answer = client.get(path, headers=browser)
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/html")
    assert client.get("/assets/none.js", headers=browser).status_code == 404
    assert client.get("/none.js").status_code == 404


def test_openapi_lists_every_path(client: TestClient) -> None:
    paths = got(client, "/openapi.json")["paths"]
    promised = "ask score similar entities entity relations runs explain map mine geometry studies study"
    assert {f"/v1/{word}" for word in promised.split()} <= set(paths)
    assert set(paths["/v1/ask"]) == {"get", "post"}
    kinds = paths["/v1/map"]["get"]["responses"]["200"]["content"]
    assert set(kinds) == {"application/json", "application/octet-stream"}
    assert "security" not in paths["/v1/ask"]["get"]
