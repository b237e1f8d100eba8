"""An ingest that fails or is killed loses no graph."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.io.test_ingest import MEMORY, contents, lines, written

from conjoin.errors import GraphError
from conjoin.io.graph_arrays import link_files, rows_of
from conjoin.io.ingest import ingest

KILLED = """
import os, sys
from pathlib import Path
from conjoin.io.ingest import ingest

rename = Path.rename
Path.rename = lambda self, target: os._exit(9) if self.name == ".graph.ingest" else rename(self, target)
ingest([sys.argv[1]], sys.argv[2], overwrite=True, threads=1)
"""


def test_a_graph_comes_back_after_a_kill_in_mid_replacement(tmp_path: Path) -> None:
    """The process ends when the earlier graph is put aside and the new one is not in its place yet."""
    home = ingest([written(tmp_path / "facts.tsv", lines(100))], tmp_path / "graph", memory=MEMORY).folder
    expected = contents(home)
    other = written(tmp_path / "other.tsv", lines(50))
    ended = subprocess.run([sys.executable, "-c", KILLED, str(other), str(home)], check=False)
    assert ended.returncode == 9
    assert not home.exists()
    with pytest.raises(GraphError, match=r"none\.tsv"):
        ingest([written(tmp_path / "none.tsv", [])], home, memory=MEMORY)
    assert contents(home) == expected
    assert not list(tmp_path.glob(".*"))


def test_an_array_that_ends_early_is_refused(tmp_path: Path) -> None:
    file = ingest([written(tmp_path / "facts.tsv", lines(100))], tmp_path / "graph", memory=MEMORY).folder / "train.npy"
    whole = np.concatenate([*rows_of(file)])
    assert np.array_equal(whole, np.load(file))
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(ValueError, match=r"train\.npy"):
        list(rows_of(file))


def test_a_copy_of_an_array_is_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where files cannot have two names, a run keeps a copy of its graph."""
    home = ingest([written(tmp_path / "facts.tsv", lines(100))], tmp_path / "graph", memory=MEMORY).folder
    synced: list[Path] = []

    def none(*_: object) -> None:
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr("os.link", none)
    monkeypatch.setattr("conjoin.io.graph_arrays.sync_file", synced.append)
    (tmp_path / "copy").mkdir()
    link_files(home, tmp_path / "copy", ["train.npy", "test.npy"])
    assert synced == [tmp_path / "copy" / "train.npy", tmp_path / "copy" / "test.npy"]
