"""`conjoin study plan`, and runs that are not begun because they would not end in time."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from tests.cli.commands import conjoin
from tests.studies.small import small_study

from conjoin.runtime.atomic_files import read_json, write_json

SLOW = {"dataset": "own", "form": "complex", "rank": 4, "batch": 20, "seconds_per_epoch": 100.0}
FAST = {**SLOW, "form": "complex-conj", "seconds_per_epoch": 1.0, "seconds_per_validation": 0.5}


def test_the_plan_is_cheapest_first_with_commands_that_work(tmp_path: Path) -> None:
    study = small_study(tmp_path)
    write_json(tmp_path / "speeds.json", [SLOW, FAST])
    where = (study.file, "--root", tmp_path / "out")
    unknown = conjoin("study", "plan", *where, "--json").json
    assert [cell["seconds"] for cell in unknown["cells"]] == [None] * 4
    assert unknown["seconds"] is None
    rows = [line.split() for line in conjoin("study", "plan", *where).out.splitlines() if line.startswith("own ")]
    assert [row[-2:] for row in rows] == [["?", "?"]] * 4
    assert conjoin("study", "run", *where, "--device", "cpu", "--only", "row=complex", "--seeds", "0").code == 0
    told = conjoin("study", "plan", *where, "--speeds", tmp_path / "speeds.json", "--json").json
    assert [(cell["row"], cell["seed"]) for cell in told["cells"]] == [("tied", 0), ("tied", 1), ("complex", 1)]
    counts = read_json(tmp_path / "out" / "small" / "own" / "graph.json")
    once = 0.5 * (3 + 2 * (1 + counts["test"] / counts["valid"]))
    assert [cell["seconds"] for cell in told["cells"]] == pytest.approx([6 + once, 6 + once, 600 + once])
    assert told["seconds"] == pytest.approx(612 + 3 * once)
    lines = conjoin("study", "plan", *where, "--speeds", tmp_path / "speeds.json", "--commands").out.splitlines()
    assert lines == [cell["command"] for cell in told["cells"]]
    assert lines[0] == f"conjoin study run {study.file} --only dataset=own,row=tied --seeds 0 --root {tmp_path / 'out'}"
    assert conjoin(*shlex.split(lines[0])[1:], "--device", "cpu").out.startswith("1 runs: 1 done")
    shown = conjoin("study", "plan", *where, "--speeds", tmp_path / "speeds.json").out
    assert "2 of 4 runs are missing" in shown
    assert "2 measured speeds" in shown


@pytest.mark.slow
def test_whole_runs_skips_runs_that_exceed_the_time_limit(tmp_path: Path) -> None:
    study = small_study(tmp_path)
    write_json(tmp_path / "speeds.json", [SLOW, {**FAST, "seconds_per_epoch": 0.01, "seconds_per_validation": 0.01}])
    where = (study.file, "--root", tmp_path / "out", "--device", "cpu", "--speeds", tmp_path / "speeds.json")
    first = conjoin("study", "run", *where, "--only", "row=tied", "--seeds", "0")
    assert first.code == 0
    ran = conjoin("study", "run", *where, "--max-minutes", "1", "--whole-runs", "--json").json
    assert {(each["row"], each["end"]) for each in ran["outcomes"]} == {("tied", "done"), ("complex", "stopped")}
    assert "time limit" in next(each["reason"] for each in ran["outcomes"] if each["end"] == "stopped")
    whole = conjoin("study", "run", *where, "--max-minutes", "1", "--json").json
    assert whole["counts"]["done"] == 4
