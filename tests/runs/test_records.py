"""Records that are too large, have too many values or are nested too deep are refused in little memory."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.io.bombs import measured

from conjoin.errors import GraphError, RunError, UsageError
from conjoin.io.graph_store import open_graph
from conjoin.runs.folder import RunFolder
from conjoin.runtime import file_limits
from conjoin.runtime.atomic_files import read_json, read_sealed
from conjoin.studies.parse import read_study

OPENING = """
def prepare():
    import conjoin.runs.folder

def work():
    from conjoin.runs.folder import RunFolder
    folder = RunFolder(Path(words[0]))
    return len(folder.events) if words[1] == "events" else len(folder.run.form)
"""
CROWDS = {
    "lists": (b"[", b"[],", b"0]"),
    "objects": (b"[", b'{"a":0},', b"0]"),
    "numbers": (b"[", b"1.5,", b"0]"),
    "text": (b'"', b"x", b'"'),
    "nesting": (b"", b"[", b""),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", CROWDS)
def test_a_huge_record_is_refused_in_little_memory(kind: str, tmp_path: Path) -> None:
    """64 MiB of brackets are two gigabytes of lists."""
    start, repeated, end = CROWDS[kind]
    for size in (64 << 20, file_limits.RECORD - 64):
        (tmp_path / "run.json").write_bytes(start + repeated * (size // len(repeated)) + end)
        found = measured(OPENING, tmp_path, "run")
        assert found["error"] == "RunError"
        assert found["grown"] < 256 << 20


@pytest.mark.slow
def test_crowded_events_are_refused_in_little_memory(tmp_path: Path) -> None:
    for line in (b'{"epoch": 1}\n', b"{}\n", b"\n", b"0\n"):
        (tmp_path / "events.jsonl").write_bytes(line * ((file_limits.LARGE_RECORD - 1) // len(line)))
        found = measured(OPENING, tmp_path, "events")
        assert found["error"] == "RunError"
        assert found["grown"] < 256 << 20


NESTED = (b"[" * 500 + b"]" * 500, b'{"a":' * 500 + b"0" + b"}" * 500, b"[" * 100_000)


@pytest.mark.parametrize("deep", NESTED, ids=["lists", "objects", "open lists"])
def test_a_record_that_is_nested_deep_is_damaged(deep: bytes, tmp_path: Path) -> None:
    for read in (read_json, read_sealed):
        (tmp_path / "a.json").write_bytes(deep)
        with pytest.raises(RunError, match=r"a\.json"):
            read(tmp_path / "a.json")
    (tmp_path / "events.jsonl").write_bytes(b'{"epoch": 1, "x": ' + deep + b"}\n")
    with pytest.raises(RunError, match=r"events\.jsonl"):
        _ = RunFolder(tmp_path).events
    (tmp_path / "graph.json").write_bytes(b'{"format": "conjoin graph", "x": ' + deep + b"}")
    with pytest.raises(GraphError, match=r"graph\.json"):
        open_graph(tmp_path)


def test_a_record_of_a_graph_that_is_too_large_is_refused(tmp_path: Path) -> None:
    (tmp_path / "graph.json").write_bytes(b" " * (file_limits.GRAPH_RECORD + 1))
    with pytest.raises(GraphError, match="16,777,216 bytes"):
        open_graph(tmp_path)


def test_a_small_file_of_very_many_runs_is_refused(tmp_path: Path) -> None:
    rows = ", ".join(f'{{ name = "r{i}", form = "complex", settings = "all", seeds = 10000 }}' for i in range(11))
    datasets = '[datasets.umls]\ngraph = "umls"\n[settings.umls]\nall = { rank = 4, epochs = 1 }\n'
    text = f'name = "many"\nrows = [{rows}]\n{datasets}'
    (tmp_path / "many.toml").write_text(text)
    with pytest.raises(UsageError, match="110,000"):
        read_study(tmp_path / "many.toml")
