"""Runs that are opened and warmed before anyone asks."""

from __future__ import annotations

from pathlib import Path

from tests.serve.served import talking

from conjoin.graph.graph import Graph
from conjoin.model.model import Model
from conjoin.serve.http.limits import Settings
from conjoin.serve.http.shelf import OpenRun, Shelf
from conjoin.serve.predictor import Predictor
from conjoin.study.folder import RunFolder


def test_a_graph_in_which_something_is_called_as_what_is_asked_is_served(tmp_path: Path) -> None:
    graph = Graph.from_triples([("?", "?", "a"), ("a", "r", "b"), ("b", "r", "?")])
    assert graph.entities.names[0] == graph.relations.names[0] == "?"
    predictor = Predictor(Model("complex", graph.n_entities, graph.n_relations, rank=4), graph)
    settings = Settings(rate=1e6, burst=1e6)
    run = OpenRun("own", RunFolder(tmp_path), predictor, weights="last", settings=settings)
    with talking(settings=settings, shelf=Shelf([run])) as client:
        assert "?" in [answer["entity"] for answer in client.get("/v1/ask?head=b&relation=r").json()["answers"]]
        assert client.get("/v1/entity?entity=%3F").json()["total"] == 2
        assert client.get("/v1/entities?q=%3F").json()["entities"][0]["name"] == "?"
