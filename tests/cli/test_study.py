"""`conjoin study`: killed, doubled, narrowed, and what it tells."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path

import pytest
from tests.cli.commands import command, conjoin
from tests.studies.small import TEXT, small_study

from conjoin.runs.folder import RunFolder
from conjoin.studies.status import finished

ON_THE_ATLAS = """
name = "killed"
seeds = 2
rows = [
    { name = "complex", form = "complex", settings = "all" },
    { name = "5star-conj", form = "5star-conj", settings = "all" },
]

[defaults]
validate_every = 3

[datasets.atlas]
graph = "atlas"

[settings.atlas]
all = { rank = 4, epochs = 8, batch = 500 }
"""


def started(*words: object) -> subprocess.Popen[str]:
    return subprocess.Popen(command(*words), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def epochs_written(root: Path) -> int:
    return sum(file.read_bytes().count(b"\n") for file in root.rglob("events.jsonl"))


def wait_for_another_epoch(root: Path, process: subprocess.Popen[str]) -> None:
    before, patience = epochs_written(root), time.monotonic() + 60
    while epochs_written(root) <= before and process.poll() is None:
        assert time.monotonic() < patience, "no epoch was finished in a minute"
        time.sleep(0.01)


@pytest.mark.slow
def test_two_processes_finish_each_run_once(tmp_path: Path) -> None:
    study = small_study(tmp_path, text=TEXT.replace("seeds = 2", "seeds = 8").replace("epochs = 6", "epochs = 60"))
    run = ("study", "run", study.file, "--root", tmp_path / "out", "--device", "cpu", "--json")
    processes = [started(*run) for _ in range(2)]
    told = [json.loads(process.communicate(timeout=300)[0]) for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    done = [{(each["row"], each["seed"]) for each in one["outcomes"] if each["end"] == "done"} for one in told]
    assert not done[0] & done[1]
    assert len(done[0]) + len(done[1]) == 16
    for one in told:
        assert {each["end"] for each in one["outcomes"]} <= {"done", "elsewhere"}
        assert one["counts"]["done"] == 16
    assert all(len(folder.events) == 60 for _, folder in finished(study, tmp_path / "out"))


@pytest.mark.slow
def test_run_and_status_of_selected_cells(tmp_path: Path) -> None:
    study = small_study(tmp_path)
    where = (study.file, "--root", tmp_path / "out", "--device", "cpu")
    before = conjoin("study", "status", *where, "--json").json
    assert before["counts"] == {"done": 0, "running": 0, "half done": 0, "failed": 0, "missing": 4, "no data": 0}
    assert "speed test" in before["estimated_by"]
    assert before["remaining_seconds"] is None
    unknown = conjoin("study", "status", *where).out
    assert "will take about" not in unknown
    assert "No estimate for own" in unknown
    ran = conjoin("study", "run", *where, "--only", "row=tied", "--seeds", "1", "--json")
    assert ran.json["counts"]["done"] == 1
    assert [(each["row"], each["seed"], each["end"]) for each in ran.json["outcomes"]] == [("tied", 1, "done")]
    assert "own tied seed 1: test MRR" in ran.err
    folder = RunFolder(Path(ran.json["cells"][0]["folder"]))
    told = json.loads(folder.settings_file.read_text(encoding="utf-8"))
    assert told["command"] == "conjoin study run small.toml --only dataset=own,row=tied --seeds 1"
    after = conjoin("study", "status", *where, "--json").json
    assert after["counts"]["done"] == 1
    assert after["estimated_by"].startswith("1 finished run on ")
    assert after["remaining_seconds"] == pytest.approx(sum(cell["estimated_seconds"] or 0 for cell in after["cells"]))
    shown = conjoin("study", "status", *where)
    assert "4 runs: 1 done, 3 missing" in shown.out
    assert "will take about" in shown.out
    assert conjoin("study", "run", *where).out.startswith("4 runs: 4 done")
    assert conjoin("study", "status", *where, "--json").json["remaining_seconds"] is None


@pytest.mark.slow
def test_failures_and_missing_data_are_reported(tmp_path: Path) -> None:
    text = TEXT.replace(
        '"complex" },\n]', '"complex" },\n    { name = "wild", form = "complex", settings = "wild" },\n]'
    )
    text = text.replace("[settings.own]", '[datasets.gone]\ngraph = "gone"\n\n[settings.own]').replace("seeds = 2", "")
    text += "\n[settings.gone]\ncomplex = { rank = 4, epochs = 1 }\nwild = { rank = 4, epochs = 1 }\n"
    study = small_study(tmp_path, text=text)
    where = (study.file, "--root", tmp_path / "out", "--device", "cpu")
    ran = conjoin("study", "run", *where)
    assert ran.code == 1
    assert "failed: own wild seed 0: Diverged" in ran.out
    assert ran.err.count("gone does not exist") == 1
    shown = conjoin("study", "status", *where)
    assert shown.code == 0
    assert "6 runs: 2 done, 1 failed, 3 without data" in shown.out
    assert "gone does not exist" in shown.out
    told = conjoin("study", "report", *where[:3], "-o", tmp_path / "report")
    assert told.code == 0
    assert "own wild seed 0: Diverged" in told.err
    again = conjoin("study", "run", *where, "--retry-failed", "--json")
    assert again.code == 1
    assert [each["end"] for each in json.loads(again.out)["outcomes"]] == ["failed"]


def test_wrong_options_exit_with_2_and_name_the_value(tmp_path: Path) -> None:
    study = small_study(tmp_path)
    for words, complaint in (
        (("study", "run", tmp_path / "no.toml"), "no.toml"),
        (("study", "run", study.file, "--only", "row=tie"), "tied"),
        (("study", "status", study.file, "--seeds", "x"), "--seeds x"),
    ):
        ran = conjoin(*words)
        assert (ran.code, ran.out) == (2, "")
        assert complaint in ran.err


@pytest.mark.slow
def test_max_minutes_stops_and_a_second_run_continues(tmp_path: Path) -> None:
    study = small_study(tmp_path)
    where = (study.file, "--root", tmp_path / "out", "--device", "cpu")
    stopped = conjoin("study", "run", *where, "--max-minutes", "0", "--json")
    assert {each["end"] for each in stopped.json["outcomes"]} == {"stopped"}
    assert conjoin("study", "run", *where, "--max-minutes", "10", "--json").json["counts"]["done"] == 4


def test_default_root_is_in_the_folder_of_the_study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = small_study(tmp_path / "studies")
    monkeypatch.chdir(tmp_path)
    assert conjoin("study", "run", os.path.relpath(study.file), "--only", "row=tied", "--seeds", "0").code == 0
    assert (tmp_path / "studies" / "results" / "small" / "own" / "tied").is_dir()
    told = next((tmp_path / "studies" / "results").rglob("run.json")).read_text(encoding="utf-8")
    assert "conjoin study run studies/small.toml --only" in told


def test_data_that_cannot_be_read_fail_the_study(tmp_path: Path) -> None:
    """The data exist but cannot be parsed, so the runs count as failed."""
    file = small_study(tmp_path).file
    (tmp_path / "own" / "train.txt").write_text("one column\n", encoding="utf-8")
    ran = conjoin("study", "run", file, "--device", "cpu", "--json")
    assert ran.code == 1
