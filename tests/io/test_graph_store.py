"""Stored graphs come back exactly, or not at all."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conjoin.errors import GraphError
from conjoin.graph.graph import SPLITS, Graph
from conjoin.io import graph_store
from conjoin.io.graph_store import open_graph, save_graph
from conjoin.runtime.atomic_files import digest

NASTY = ["tab\there", "line\nbreak\r\n", "👩‍👩‍👧", "שלום עולם", "\u202eRTL", "a\0b", "é", "e\u0301", '"', " x "]


def nasty_graph() -> Graph:
    facts = [(name, "r\t1", NASTY[i - 1]) for i, name in enumerate(NASTY)]
    labels = {NASTY[0]: "Tab\tLabel", NASTY[3]: "שלום"}
    return Graph.from_triples(
        facts[:6], facts[6:8], facts[8:] * 2, name="Nasty ☂", labels=labels, notes=("a\nnote", "é")
    )


def assert_same(found: Graph, expected: Graph) -> None:
    assert found.checksum == expected.checksum
    assert (found.name, found.notes) == (expected.name, expected.notes)
    for mine, theirs in ((found.entities, expected.entities), (found.relations, expected.relations)):
        assert (mine.kind, mine.names, mine.labels) == (theirs.kind, theirs.names, theirs.labels)
    for split in SPLITS:
        assert found.triples(split).dtype == np.int64
        assert np.array_equal(found.triples(split), expected.triples(split))


def test_a_graph_comes_back_exactly(tmp_path: Path) -> None:
    graph = nasty_graph()
    folder = save_graph(graph, tmp_path / "deep" / "key=value" / "graph")
    assert_same(open_graph(folder), graph)
    assert sorted(file.name for file in folder.iterdir()) == [
        "entities.parquet",
        "graph.json",
        "relations.parquet",
        "triples.parquet",
    ]
    assert [file.name for file in folder.parent.iterdir()] == ["graph"]
    triples = pq.ParquetFile(folder / "triples.parquet").read()
    assert triples.column_names == ["head", "relation", "tail", "split"]
    assert triples.column("split").to_pylist() == ["train"] * 6 + ["valid"] * 2 + ["test"] * 4
    assert json.loads((folder / "graph.json").read_text(encoding="utf-8"))["counts"]["test"] == 4


@pytest.mark.parametrize("block", [1, 4, 5, 12])
def test_table_does_not_depend_on_the_block_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    graph = nasty_graph()
    whole = pq.ParquetFile(save_graph(graph, tmp_path / "whole") / "triples.parquet")
    monkeypatch.setattr(graph_store, "BLOCK", block)
    folder = save_graph(graph, tmp_path / "blocks")
    found = pq.ParquetFile(folder / "triples.parquet")
    assert found.num_row_groups == -(-12 // block)
    assert found.read().equals(whole.read())
    assert_same(open_graph(folder), graph)


def test_an_empty_graph_comes_back(tmp_path: Path) -> None:
    graph = Graph.from_triples([])
    assert_same(open_graph(save_graph(graph, tmp_path / "graph")), graph)


NAME = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6).filter(lambda name: not name.isspace())
FACTS = st.lists(st.tuples(NAME, NAME, NAME), max_size=5)


@settings(max_examples=40, deadline=None)
@given(parts=st.tuples(FACTS, FACTS, FACTS), labels=st.dictionaries(NAME, NAME, max_size=3), title=NAME)
def test_any_graph_comes_back(
    tmp_path_factory: pytest.TempPathFactory,
    parts: tuple[list[tuple[str, str, str]], ...],
    labels: dict[str, str],
    title: str,
) -> None:
    labels |= {fact[0]: f"<{fact[0]}>" for fact in parts[0][:1]}
    graph = Graph.from_triples(*parts, labels=labels, name=title, notes=(title,))
    assert_same(open_graph(save_graph(graph, tmp_path_factory.mktemp("store") / "graph")), graph)


def test_save_replaces_a_stored_graph_and_refuses_other_folders(tmp_path: Path) -> None:
    folder = tmp_path / "graph"
    folder.mkdir()
    save_graph(Graph.from_triples([("a", "r", "b")]), folder)
    save_graph(nasty_graph(), folder)
    assert_same(open_graph(folder), nasty_graph())
    assert [file.name for file in tmp_path.iterdir()] == ["graph"]
    (folder / "precious.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(GraphError, match=r"graph.*precious\.txt"):
        save_graph(nasty_graph(), folder)
    with pytest.raises(GraphError, match=r"precious\.txt"):
        save_graph(nasty_graph(), folder / "precious.txt")
    with pytest.raises(GraphError, match="below"):
        save_graph(nasty_graph(), folder / "precious.txt" / "below")


def test_failed_save_keeps_the_old_graph_and_leaves_no_temporary_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = save_graph(nasty_graph(), tmp_path / "graph")
    broken = Graph.from_triples([("a\ud800", "r", "b")])
    with pytest.raises(GraphError, match="ud800"):
        save_graph(broken, folder)

    rename = Path.rename

    def full(self: Path, target: Path) -> Path:
        if self.suffix == ".partial":
            raise OSError(28, "No space left on device")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", full)
    with pytest.raises(GraphError, match=r"graph.*No space left on device"):
        save_graph(Graph.from_triples([("a", "r", "b")]), folder)
    assert_same(open_graph(folder), nasty_graph())
    assert [file.name for file in tmp_path.iterdir()] == ["graph"]


@pytest.mark.parametrize("earlier", [True, False])
def test_failed_sync_leaves_the_folder_unchanged(
    earlier: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "graph"
    if earlier:
        save_graph(nasty_graph(), folder)

    def fail(synced: Path) -> None:
        if synced == tmp_path:
            raise OSError(5, "Input/output error")

    monkeypatch.setattr(graph_store, "sync_folder", fail)
    with pytest.raises(GraphError, match="Input/output error"):
        save_graph(Graph.from_triples([("a", "r", "b")]), folder)
    if earlier:
        assert_same(open_graph(folder), nasty_graph())
    assert [file.name for file in tmp_path.iterdir()] == ["graph"] * earlier


@pytest.mark.parametrize("name", ["graph.json", "entities.parquet", "relations.parquet", "triples.parquet"])
def test_every_flipped_bit_and_truncation_is_detected(tmp_path: Path, name: str) -> None:
    folder = save_graph(nasty_graph(), tmp_path / "graph")
    file = folder / name
    content = file.read_bytes()
    for place in range(0, len(content), 1 if name == "graph.json" else max(1, len(content) // 80)):
        for flip in (0x01, 0x20) if name == "graph.json" else (1 << place % 8,):
            damaged = bytearray(content)
            damaged[place] ^= flip
            file.write_bytes(damaged)
            with pytest.raises(GraphError, match=name):
                open_graph(folder)
    for length in range(0, len(content), max(1, len(content) // 50)):
        file.write_bytes(content[:length])
        with pytest.raises(GraphError, match=name):
            open_graph(folder)
    file.unlink()
    with pytest.raises(GraphError, match=name):
        open_graph(folder)


def test_tables_of_another_graph_are_detected(tmp_path: Path) -> None:
    one = save_graph(Graph.from_triples([("a", "r", "b")]), tmp_path / "one")
    two = save_graph(Graph.from_triples([("a", "r", "c")]), tmp_path / "two")
    (one / "entities.parquet").write_bytes((two / "entities.parquet").read_bytes())
    with pytest.raises(GraphError, match=r"entities\.parquet"):
        open_graph(one)


def rewrite(folder: Path, record: dict[str, object]) -> None:
    text = graph_store._spelled(record | {"sha256": digest(record)})
    (folder / "graph.json").write_text(text, encoding="utf-8")


def test_counts_and_graph_checksum_are_verified(tmp_path: Path) -> None:
    folder = save_graph(nasty_graph(), tmp_path / "graph")
    original = json.loads((folder / "graph.json").read_text(encoding="utf-8"))
    del original["sha256"]
    changes: dict[str, object] = {"checksum": "0" * 64, "counts": original["counts"] | {"train": 5}}
    for key, value in changes.items():
        record = original | {key: value}
        rewrite(folder, record)
        with pytest.raises(GraphError, match=r"graph\.json"):
            open_graph(folder)
    record = original | {"version": 3}
    rewrite(folder, record)
    with pytest.raises(GraphError, match=r"3.*2"):
        open_graph(folder)


@pytest.mark.parametrize("text", ["[]", "{}", "null", '{"format": "other"}', "[" * 100_000])
def test_foreign_graph_json_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "graph.json").write_text(text, encoding="utf-8")
    with pytest.raises(GraphError, match=r"graph\.json"):
        open_graph(tmp_path)
    with pytest.raises(GraphError, match=r"elsewhere.*graph\.json"):
        open_graph(tmp_path / "elsewhere")


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("files", {"/dev/zero": "0"}, "entities.parquet"),  # would be read without end
        ("files", {}, "entities.parquet"),  # nothing would be verified
        ("files", None, "files"),
        ("notes", [1], "note"),
        ("version", None, "None"),
    ],
)
def test_a_forged_record_is_refused(tmp_path: Path, key: str, value: object, said: str) -> None:
    """Its own checksum is right: anyone can write one."""
    folder = save_graph(nasty_graph(), tmp_path / "graph")
    record = json.loads((folder / "graph.json").read_bytes())
    del record["sha256"]
    graph_store.write_record(folder, {**record, key: value})
    with pytest.raises(GraphError, match=said):
        open_graph(folder)
