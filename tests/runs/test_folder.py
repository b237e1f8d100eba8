"""A run folder is whole, or it is refused."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import filelock
import numpy as np
import pytest

from conjoin.errors import RunError
from conjoin.evaluation.ranks import Ranks
from conjoin.graph.graph import Graph
from conjoin.predict.fold_in import fold_run
from conjoin.predict.predictor import open_run
from conjoin.runs.execute import execute
from conjoin.runs.export import export
from conjoin.runs.folder import RunFolder
from conjoin.runs.run import Run
from conjoin.runtime import file_locks
from conjoin.runtime.atomic_files import read_sealed, write_sealed
from conjoin.training.recipe import Recipe

RUN = Run(data="x", checksum="c" * 64, form="ComplEx()", rank=8, recipe=Recipe(epochs=3))
ENVIRONMENT = {"torch": "2.13.0", "device": "cpu"}
HOLD = """
import sys, time
from pathlib import Path
from conjoin.runs.folder import RunFolder
with RunFolder(Path(sys.argv[1])).locked():
    print("held", flush=True)
    time.sleep(60)
"""


def event(epoch: int) -> dict[str, Any]:
    return {"epoch": epoch, "loss": 1.5 / epoch, "penalty": 0.25, "seconds": 0.125}


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    """A finished folder, made without training."""
    made = RunFolder(tmp_path / "run")
    with made.locked():
        made.begin(RUN, ENVIRONMENT, "conjoin train x")
        for epoch in (1, 2, 3):
            made.append(event(epoch))
        made.weights_file("last").write_bytes(b"weights")
        made.checkpoint_file.write_bytes(b"state")
        ones = np.ones(4, dtype=np.int64)
        Ranks(ones, ones, ones, ones, ones, ones, 9 * ones).write(made.ranks_file("test"))
        made.finish({"test": {"mrr": 0.5}})
    return made


def test_a_finished_folder_can_be_read(folder: RunFolder) -> None:
    assert folder.exists
    assert folder.finished
    assert folder.run == RUN
    assert folder.events == [event(1), event(2), event(3)]
    assert folder.result["test"] == {"mrr": 0.5}
    assert set(folder.result["files"]) == {"events.jsonl", "model.safetensors", "ranks-test.parquet"}
    assert not folder.checkpoint_file.exists()
    assert folder.ranks("test").mrr() == pytest.approx(1 / 3)
    stored = json.loads(folder.settings_file.read_text())
    assert stored["environment"] == ENVIRONMENT
    assert stored["command"] == "conjoin train x"


def test_a_run_that_continues_elsewhere_keeps_its_earlier_environments(tmp_path: Path) -> None:
    made = RunFolder(tmp_path)
    elsewhere = {**ENVIRONMENT, "torch": "2.99"}
    made.begin(RUN, ENVIRONMENT, None)
    made.begin(RUN, elsewhere, None)
    assert "earlier" not in read_sealed(made.settings_file), "nothing was computed before a checkpoint"
    made.checkpoint_file.write_bytes(b"state")
    made.begin(RUN, elsewhere, None)
    assert "earlier" not in read_sealed(made.settings_file)
    for environment in (ENVIRONMENT, elsewhere, elsewhere):
        made.begin(RUN, environment, None)
    told = read_sealed(made.settings_file)
    assert (told["earlier"], told["environment"]) == ([ENVIRONMENT], elsewhere), "each once"


@pytest.mark.parametrize("forged", [{"earlier": 5}, {"environment": "here"}])
def test_settings_without_an_environment_are_refused(tmp_path: Path, forged: dict[str, Any]) -> None:
    made = RunFolder(tmp_path)
    made.begin(RUN, ENVIRONMENT, None)
    made.checkpoint_file.write_bytes(b"state")
    write_sealed(made.settings_file, {**read_sealed(made.settings_file), **forged})
    with pytest.raises(RunError, match=r"run\.json"):
        made.begin(RUN, ENVIRONMENT, None)


def read_everything(folder: RunFolder) -> list[object]:
    ranks = folder.ranks("test")
    return [folder.run, folder.result, folder.events, [getattr(ranks, name).tolist() for name in ("head", "better")]]


@pytest.mark.parametrize("name", ["run.json", "result.json", "events.jsonl", "ranks-test.parquet"])
def test_any_flipped_bit_is_noticed_or_harmless(folder: RunFolder, name: str) -> None:
    file, before = folder.path / name, read_everything(folder)
    whole = file.read_bytes()
    noticed = 0
    places = range(0, len(whole), max(1, len(whole) // 150))
    for place in places:
        flipped = bytearray(whole)
        flipped[place] ^= 1 << (place % 7)
        file.write_bytes(flipped)
        try:
            assert read_everything(folder) == before
        except RunError:
            noticed += 1
    assert noticed >= 0.9 * len(places)


@pytest.mark.parametrize("name", ["run.json", "result.json", "events.jsonl", "ranks-test.parquet"])
@pytest.mark.parametrize("share", [0.0, 0.3, 0.99])
def test_a_truncated_file_is_refused(folder: RunFolder, name: str, share: float) -> None:
    file = folder.path / name
    whole = file.read_bytes()
    file.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(RunError, match=name):
        read_everything(folder)


def test_a_missing_file_is_named(folder: RunFolder) -> None:
    folder.ranks_file("test").unlink()
    with pytest.raises(RunError, match=r"ranks-test\.parquet"):
        folder.ranks("test")
    folder.result_file.unlink()
    with pytest.raises(RunError, match="--resume"):
        _ = folder.result
    folder.settings_file.unlink()
    with pytest.raises(RunError, match=r"run\.json"):
        _ = folder.run


def test_settings_of_another_version_are_not_called_damaged(folder: RunFolder) -> None:
    from conjoin.runtime.atomic_files import read_sealed, write_sealed

    told = read_sealed(folder.settings_file)
    told["run"]["recipe"]["momentum"] = 0.9
    write_sealed(folder.settings_file, told)
    with pytest.raises(RunError, match="momentum"):
        _ = folder.run


def unfinished(folder: RunFolder) -> RunFolder:
    folder.result_file.unlink()
    return folder


def test_a_last_line_cut_short_is_left_out(folder: RunFolder) -> None:
    half = unfinished(folder)
    whole = half.events_file.read_bytes()
    start_of_last = whole.rindex(b"\n", 0, -1) + 1
    for end in range(start_of_last, len(whole)):
        half.events_file.write_bytes(whole[:end])
        assert half.events == [event(1), event(2)]


@pytest.mark.parametrize(
    "lines",
    [
        ["{", json.dumps(event(2))],
        [json.dumps(event(1)), json.dumps(event(3))],
        [json.dumps(event(1)), json.dumps(event(1))],
        ["[1]"],
        ["7"],
        ["{}"],
        [""],
    ],
)
def test_any_other_flaw_in_the_events_is_an_error(folder: RunFolder, lines: list[str]) -> None:
    half = unfinished(folder)
    half.events_file.write_text("".join(line + "\n" for line in lines))
    with pytest.raises(RunError, match=r"events\.jsonl"):
        _ = half.events


def test_events_after_the_checkpoint_are_dropped(folder: RunFolder) -> None:
    half = unfinished(folder)
    half.keep_events_until(2)
    assert half.events == [event(1), event(2)]
    with pytest.raises(RunError, match=r"events\.jsonl"):
        half.keep_events_until(3)


def test_only_one_process_works_on_a_folder(tmp_path: Path) -> None:
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(RunError, match=str(tmp_path.name)) as caught:
            RunFolder(tmp_path).locked().__enter__()
        assert isinstance(caught.value.__cause__, BlockingIOError)
    finally:
        holder.kill()
        holder.wait()
    with RunFolder(tmp_path).locked():
        pass


def test_a_path_that_cannot_be_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(RunError, match=tmp_path.name):
            RunFolder(path).locked().__enter__()


def test_an_error_before_anything_is_written_leaves_no_folder(tmp_path: Path) -> None:
    def refuse(path: Path) -> None:
        with RunFolder(path).locked():
            raise RunError("not these settings")

    (tmp_path / "empty").mkdir()
    for path in (tmp_path / "new" / "deep" / "run", tmp_path / "empty"):
        with pytest.raises(RunError, match="not these"):
            refuse(path)
    assert [file.name for file in tmp_path.rglob("*")] == ["empty"]


def test_a_lock_file_removed_before_locking_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = filelock.lock_descriptor

    def removed_before(descriptor: int, *, blocking: bool) -> bool:
        (tmp_path / ".lock").unlink()
        return lock(descriptor, blocking=blocking)

    with monkeypatch.context() as patched:
        patched.setattr(file_locks, "lock_descriptor", removed_before)
        with pytest.raises(RunError, match=str(tmp_path.name)) as caught:
            RunFolder(tmp_path).locked().__enter__()
    assert isinstance(caught.value.__cause__, BlockingIOError), "studies take it for work of another process"
    with RunFolder(tmp_path).locked():
        pass


def test_an_error_leaves_a_run_and_its_lock_alone(folder: RunFolder) -> None:
    before = sorted(folder.path.iterdir())
    with pytest.raises(RunError, match="not these"), folder.locked():
        raise RunError("not these settings")
    assert sorted(folder.path.iterdir()) == before


def test_leftovers_of_a_killed_process_are_removed(folder: RunFolder) -> None:
    (folder.path / ".model.safetensors.123.part").touch()
    (folder.path / ".graph.abcd.partial").mkdir()
    (folder.path / ".graph.abcd.partial" / "x").touch()
    (folder.path / ".graph.abcd.old").mkdir()
    folder.graph_folder.mkdir()
    before = {"run.json", "events.jsonl", "model.safetensors", "ranks-test.parquet", "result.json", ".lock", "graph"}
    folder.tidy()
    assert {left.name for left in folder.path.iterdir()} == before


def test_a_folder_can_be_moved(folder: RunFolder, tmp_path: Path) -> None:
    shutil.move(folder.path, tmp_path / "elsewhere")
    assert read_everything(RunFolder(tmp_path / "elsewhere"))


def test_a_run_folder_can_be_used_as_a_path(tmp_path: Path) -> None:
    graph = Graph.from_triples([("a", "r", "b"), ("b", "r", "c")], [("a", "r", "c")], [("c", "r", "a")])
    folder = execute(Run.of(graph, "complex", rank=4, recipe=Recipe(epochs=1)), graph, tmp_path / "run")
    assert Path(folder) == folder.path
    assert open_run(folder).ask("a", "r") == open_run(tmp_path / "run").ask("a", "r")
    assert export(folder, tmp_path / "bundle")
    assert fold_run(folder, [("d", "r", "a")], tmp_path / "more")[0].graph.n_entities == 4


def test_an_event_that_cannot_be_synced_is_taken_back(folder: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    before = folder.events_file.read_bytes()

    def fail(_: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="Input/output error"):
        folder.append({"epoch": 9})
    assert folder.events_file.read_bytes() == before
