"""Doing a study in this process: what is done, skipped, stopped, and what happens to failures."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from tests.studies.small import TEXT, small_study

from conjoin.errors import RunError, UsageError
from conjoin.runs.folder import RunFolder
from conjoin.runtime.atomic_files import read_json
from conjoin.studies import worker as working
from conjoin.studies.spec import Study
from conjoin.studies.status import (
    CellStatus,
    cell_file,
    cell_status,
    count_states,
    failure_file,
    finished,
    study_status,
)
from conjoin.studies.worker import CellOutcome, RunCallbacks, WorkerOptions, run_cells

WILD = '    { name = "wild", form = "complex", settings = "wild" },\n]\n\n[defaults]'
WITH_WILD = TEXT.replace("]\n\n[defaults]", WILD)


def did(study: Study, root: Path, means: WorkerOptions | None = None) -> list[CellOutcome]:
    return list(run_cells(study, study.cells(), root, means=means or WorkerOptions()))


def test_every_cell_runs_once(tmp_path: Path) -> None:
    study = small_study(tmp_path)
    outcomes = did(study, tmp_path / "out", WorkerOptions(command=lambda cell: f"again {cell.title}"))
    assert [outcome.end for outcome in outcomes] == ["done"] * 4
    for cell, folder in finished(study, tmp_path / "out"):
        assert folder.path == tmp_path / "out" / cell.folder
        assert (folder.run.seed, folder.run.rank) == (cell.seed, 4)
        assert len(folder.events) == 6
        assert read_json(folder.settings_file)["command"] == f"again {cell.title}"
        assert read_json(cell_file(folder)) == cell.to_json()
        assert not folder.weights_file("last").exists()
        assert not folder.graph_folder.exists()
    facts = read_json(tmp_path / "out" / "small" / "own" / "graph.json")
    assert (facts["train"], facts["valid"], facts["relations"], facts["entities"]) == (60, 10, 3, 20)
    assert [outcome.end for outcome in did(study, tmp_path / "out")] == ["elsewhere"] * 4


def test_a_run_finished_by_another_process_meanwhile_is_not_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study, root = small_study(tmp_path), tmp_path / "out"
    look = working._settled

    def look_then_lose(*words: Any, **more: Any) -> CellOutcome | None:
        before = look(*words, **more)
        with monkeypatch.context() as patch:
            patch.setattr(working, "_settled", look)
            assert {outcome.end for outcome in did(study, root)} <= {"done", "elsewhere"}
        return before

    monkeypatch.setattr(working, "_settled", look_then_lose)
    first = next(iter(run_cells(study, study.cells(), root, means=WorkerOptions())))
    assert first.end == "elsewhere"


def test_results_move_with_their_folder(tmp_path: Path) -> None:
    study = small_study(tmp_path)
    did(study, tmp_path / "out")
    shutil.move(tmp_path / "out", tmp_path / "far" / "away")
    assert count_states(study_status(study, tmp_path / "far" / "away"))["done"] == 4
    assert count_states(study_status(study, tmp_path / "out"))["missing"] == 4


def test_a_failing_run_is_recorded_and_the_others_run(tmp_path: Path) -> None:
    study, root = small_study(tmp_path, text=WITH_WILD), tmp_path / "out"
    outcomes = {outcome.cell.title: outcome for outcome in did(study, root)}
    wild = outcomes["own wild seed 0"]
    assert wild.end == "failed"
    assert wild.reason.startswith("Diverged: ")
    assert sorted(outcome.end for outcome in outcomes.values()) == ["done"] * 4 + ["failed"] * 2
    told = json.loads(failure_file(wild.folder).read_text(encoding="utf-8"))
    assert told["kind"] == "Diverged"
    assert study_status(study, root)[4].reason.startswith("Diverged: ")
    before = failure_file(wild.folder).stat().st_mtime_ns
    assert [outcome.end for outcome in did(study, root)][4:] == ["failed"] * 2
    assert failure_file(wild.folder).stat().st_mtime_ns == before
    assert [outcome.end for outcome in did(study, root, WorkerOptions(retry_failed=True))][4:] == ["failed"] * 2
    assert failure_file(wild.folder).stat().st_mtime_ns > before


def test_an_unexpected_error_is_recorded_and_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study, root = small_study(tmp_path), tmp_path / "out"

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("the card fell off")

    with monkeypatch.context() as patch:
        patch.setattr(working, "execute", broken)
        with pytest.raises(RuntimeError):
            did(study, root)
    assert [each.state for each in study_status(study, root)] == ["failed", "missing", "missing", "missing"]
    assert [outcome.end for outcome in did(study, root)] == ["failed", "done", "done", "done"]
    assert did(study, root, WorkerOptions(retry_failed=True))[0].end == "done"
    assert not failure_file(RunFolder(root / study.cells()[0].folder)).exists()


def test_an_unwritable_results_folder_raises(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("a file, not a folder", encoding="utf-8")
    with pytest.raises(RunError, match="out"):
        did(small_study(tmp_path), tmp_path / "out")


def test_damaged_graph_json_raises_and_fails_no_run(tmp_path: Path) -> None:
    study, root = small_study(tmp_path), tmp_path / "out"
    file = root / "small" / "own" / "graph.json"
    file.parent.mkdir(parents=True)
    file.write_text('{"graph": "another"}', encoding="utf-8")
    with pytest.raises(RunError, match=r"graph\.json"):
        did(study, root)
    file.unlink()
    assert [outcome.end for outcome in did(study, root)] == ["done"] * 4


def test_a_run_held_by_another_process_is_not_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study, root = small_study(tmp_path), tmp_path / "out"
    monkeypatch.setattr(working, "AGAIN_AFTER", 0.05)
    held = RunFolder(root / study.cells()[0].folder)
    outcomes = run_cells(study, study.cells(), root, means=WorkerOptions())
    with held.locked():
        assert cell_status(study.cells()[0], root).state == "running"
        others = [next(outcomes) for _ in range(3)]
        assert study.cells()[0] not in [outcome.cell for outcome in others]
    assert [(outcome.cell, outcome.end) for outcome in outcomes] == [(study.cells()[0], "done")]


def test_missing_data_stop_only_their_own_cells(tmp_path: Path) -> None:
    text = TEXT.replace("[settings.own]", '[datasets.gone]\ngraph = "gone"\n\n[settings.own]') + (
        "\n[settings.gone]\ncomplex = { rank = 4, epochs = 1 }\n"
    )
    study, root = small_study(tmp_path, text=text), tmp_path / "out"
    outcomes = did(study, root)
    assert [outcome.end for outcome in outcomes] == ["done"] * 4 + ["no data"] * 4
    assert "gone" in outcomes[-1].reason
    assert count_states(study_status(study, root)) == {
        "done": 4,
        "running": 0,
        "half done": 0,
        "failed": 0,
        "missing": 0,
        "no data": 4,
    }


def test_a_changed_graph_is_not_mixed_with_old_results(tmp_path: Path) -> None:
    study, root = small_study(tmp_path), tmp_path / "out"
    did(study, root)
    with (tmp_path / "own" / "train.txt").open("a", encoding="utf-8") as stream:
        stream.write("e0\tr0\te19\n")
    shutil.rmtree(root / study.cells()[0].folder)
    first = did(study, root)[0]
    assert (first.end, "graph.json" in first.reason) == ("no data", True)


def test_an_invalid_form_or_rank_raises_before_any_run(tmp_path: Path) -> None:
    study = small_study(tmp_path, text=TEXT.replace('form = "complex-conj"', 'form = "complex-con"'))
    with pytest.raises(UsageError, match="complex-con"):
        did(study, tmp_path / "out")
    odd = small_study(tmp_path, text=TEXT.replace("rank = 4", "rank = 5"))
    with pytest.raises(UsageError, match="5"):
        did(odd, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_stop_writes_a_checkpoint_and_the_run_resumes(tmp_path: Path) -> None:
    study, root = small_study(tmp_path), tmp_path / "out"
    cells = study.cells()
    seen: list[int] = []

    def begin(_: CellStatus) -> RunCallbacks:
        return RunCallbacks(epoch=lambda epoch: seen.append(epoch.number))

    asked = 0

    def after_two_epochs() -> bool:
        nonlocal asked
        asked += 1
        return len(seen) == 2 and asked > 5

    first = next(run_cells(study, cells[:1], root, means=WorkerOptions(stop=after_two_epochs, begin=begin)))
    assert (first.end, seen) == ("stopped", [1, 2])
    assert (cell_status(cells[0], root).state, cell_status(cells[0], root).epochs) == ("half done", 2)
    assert next(run_cells(study, cells[:1], root, means=WorkerOptions(begin=begin))).end == "done"
    assert seen == [1, 2, 3, 4, 5, 6]
    late = WorkerOptions(until=time.monotonic() - 1)
    assert [o.end for o in run_cells(study, cells, root, means=late)] == ["elsewhere"] + ["stopped"] * 3


def test_measured_speed_is_plausible() -> None:
    assert 1e7 < working.measure_speed("cpu") < 1e14
