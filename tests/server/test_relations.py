"""Metrics per relation in /v1/relations."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.server.served import talking

import conjoin
from conjoin.server.open_runs import open_runs
from conjoin.server.settings import ServerSettings


@pytest.mark.parametrize(("weights", "shown"), [("last", True), ("best", False)])
def test_ranks_of_other_weights_are_not_shown(tmp_path: Path, lands: Path, weights: str, *, shown: bool) -> None:
    graph = conjoin.open(lands).graph
    run = conjoin.Run.of(graph, "complex", rank=4, recipe=conjoin.Recipe(epochs=2, batch=16, validate_every=1))
    kept = conjoin.execute(run, graph, tmp_path / "last").path
    settings = ServerSettings(rate=1e6, burst=1e6)
    with talking(settings=settings, opened=open_runs([kept], settings=settings, weights=weights)) as client:
        borders = client.get("/v1/relations").json()["relations"][0]
    assert [found is not None for found in borders["ranks"].values()] == [shown, shown]
