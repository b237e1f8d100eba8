"""A little graph and a run on it, made once."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.commands import TINY, conjoin, little_graph


@pytest.fixture(scope="session")
def lands(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a graph with ids and labels."""
    return little_graph(tmp_path_factory.mktemp("lands"))


@pytest.fixture(scope="session")
def trained(lands: Path) -> Path:
    """A finished run with last and best weights. Not to be changed."""
    folder = lands.parent / "trained"
    ran = conjoin("train", lands, *TINY, "--validate-every", 1, "-o", folder, "--json")
    assert ran.code == 0, ran.err
    return folder
