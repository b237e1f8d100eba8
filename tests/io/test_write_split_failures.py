"""A split that cannot be stored leaves the earlier one, or nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from conjoin.errors import GraphError
from conjoin.graph.graph import Graph
from conjoin.graph.split import split_graph
from conjoin.io import write_split as splitting
from conjoin.io.read_graph import read_graph
from conjoin.io.write_split import write_split
from conjoin.runtime.atomic_files import sync_folder


@pytest.fixture
def plenty() -> Graph:
    return Graph.from_triples([(f"e{i % 7}", f"r{i % 3}", f"e{i % 11}") for i in range(200)])


def test_an_interrupted_write_leaves_no_half_folder(
    plenty: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = splitting._write_columns

    def fail_on_test(file: Path, columns: dict[str, list[str]]) -> None:
        if file.name == "test.txt":
            raise OSError("disk full")
        write(file, columns)

    monkeypatch.setattr(splitting, "_write_columns", fail_on_test)
    with pytest.raises(GraphError, match=r"out.*disk full"):
        write_split(plenty, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["train.txt", "test.txt", "folder"])
def test_an_overwrite_that_fails_leaves_the_earlier_split(
    name: str, plenty: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_split(plenty, tmp_path)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    rename = Path.rename

    def fail(self: Path, target: Path) -> Path:
        if target == tmp_path / name:
            monkeypatch.undo()
            raise OSError(5, "Input/output error")
        return rename(self, target)

    def fail_to_sync(folder: Path) -> None:
        if name == "folder" and folder == tmp_path:
            raise OSError(5, "Input/output error")
        sync_folder(folder)

    monkeypatch.setattr(Path, "rename", fail)
    monkeypatch.setattr(splitting, "sync_folder", fail_to_sync)
    with pytest.raises(GraphError, match="Input/output error"):
        write_split(split_graph(plenty, valid=0.1, test=0.1), tmp_path, overwrite=True)
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


def test_an_earlier_split_that_cannot_be_put_back_is_named(
    plenty: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_split(plenty, tmp_path)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    rename = Path.rename

    def fail(self: Path, target: Path) -> Path:
        if target.parent == tmp_path:
            raise OSError(5, "Input/output error")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", fail)
    with pytest.raises(GraphError, match=splitting.EARLIER) as caught:
        write_split(split_graph(plenty, valid=0.1, test=0.1), tmp_path, overwrite=True)
    (aside,) = tmp_path.glob(f".*.partial/{splitting.EARLIER}")
    assert str(aside) in str(caught.value)
    assert {file.name: file.read_bytes() for file in aside.iterdir()} == before
    with pytest.raises(GraphError):
        read_graph(tmp_path)
