"""Where a study stands, read from folders that were written by hand."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.studies.small import small_study

from conjoin.datasets.load import load
from conjoin.errors import RunError
from conjoin.runs.folder import RunFolder
from conjoin.runtime.atomic_files import write_json
from conjoin.studies.parse import read_study
from conjoin.studies.spec import Study, StudyCell
from conjoin.studies.status import (
    cell_file,
    cell_status,
    count_states,
    failure_file,
    finished,
    graph_facts,
    graph_file,
    lacking,
    study_status,
)

STUDIES = Path(__file__).resolve().parents[2] / "studies"


def begun(study: Study, cell: StudyCell, root: Path) -> RunFolder:
    folder = RunFolder(root / cell.folder)
    folder.path.mkdir(parents=True)
    write_json(cell_file(folder), cell.to_json())
    folder.begin(cell.run(load(study.source(cell.dataset))), {"name": "test"}, None)
    return folder


def test_states_from_missing_to_done(tmp_path: Path) -> None:
    study = small_study(tmp_path)
    cell = study.cells()[0]
    assert cell_status(cell, tmp_path).state == "missing"
    folder = begun(study, cell, tmp_path)
    folder.append({"epoch": 1, "seconds": 1.0})
    folder.append({"epoch": 2, "seconds": 1.0})
    without = cell_status(cell, tmp_path)
    assert (without.state, without.epochs) == ("missing", 0)
    folder.checkpoint_file.write_bytes(b"")
    half = cell_status(cell, tmp_path)
    assert (half.state, half.epochs) == ("half done", 2)
    write_json(failure_file(folder), {"kind": "Diverged", "reason": "too fast"})
    assert cell_status(cell, tmp_path).reason == "Diverged: too fast"
    with folder.locked():
        assert cell_status(cell, tmp_path).state == "running"
    folder.finish({"test": {"mrr": 1.0}})
    done = cell_status(cell, tmp_path)
    assert (done.state, done.reason) == ("done", "")
    assert [found for found, _ in finished(study, tmp_path)] == [cell]


def test_damaged_failed_json_still_counts_as_failed(tmp_path: Path) -> None:
    study = small_study(tmp_path)
    folder = begun(study, study.cells()[0], tmp_path)
    failure_file(folder).write_text("{", encoding="utf-8")
    each = cell_status(study.cells()[0], tmp_path)
    assert (each.state, "failed.json" in each.reason) == ("failed", True)


def test_damaged_events_count_as_failed(tmp_path: Path) -> None:
    study = small_study(tmp_path)
    folder = begun(study, study.cells()[0], tmp_path)
    folder.events_file.write_text("what\n", encoding="utf-8")
    each = cell_status(study.cells()[0], tmp_path)
    assert (each.state, "events.jsonl" in each.reason) == ("failed", True)


def test_a_folder_in_the_wrong_place_does_not_count(tmp_path: Path) -> None:
    study = small_study(tmp_path)
    first, second, tied = study.cells()[0], study.cells()[1], study.cells()[2]
    folder = begun(study, first, tmp_path)
    folder.finish({"test": {"mrr": 1.0}})
    for other, difference in ((second, "seed is 0, not 1"), (tied, "form is complex, not complex-conj")):
        shutil.copytree(folder.path, tmp_path / other.folder)
        each = cell_status(other, tmp_path)
        assert each.state == "failed"
        assert difference in each.reason
    assert [found for found, _ in finished(study, tmp_path)] == [first]


def test_a_damaged_folder_does_not_count(tmp_path: Path) -> None:
    study = small_study(tmp_path)
    folder = begun(study, study.cells()[0], tmp_path)
    folder.finish({"test": {"mrr": 1.0}})
    folder.settings_file.write_text(folder.settings_file.read_text().replace('"rank": 4', '"rank": 6'))
    each = cell_status(study.cells()[0], tmp_path)
    assert (each.state, "run.json" in each.reason) == ("failed", True)


def test_missing_data_name_the_fetch_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONJOIN_CACHE", str(tmp_path / "empty"))
    monkeypatch.delenv("CONJOIN_DATA", raising=False)
    paper = read_study(STUDIES / "paper.toml")
    assert "conjoin fetch yago3-10" in lacking(paper, "YAGO3-10")
    assert count_states(study_status(paper, tmp_path))["no data"] == len(paper.cells())
    atlas = read_study(STUDIES / "atlas.toml")
    assert lacking(atlas, "atlas") == ""
    assert count_states(study_status(atlas, tmp_path))["missing"] == 12


def test_finished_runs_stay_done_without_data(tmp_path: Path) -> None:
    study = small_study(tmp_path)
    begun(study, study.cells()[0], tmp_path).finish({"test": {"mrr": 1.0}})
    shutil.rmtree(tmp_path / "own")
    assert [each.state for each in study_status(study, tmp_path)] == ["done", "no data", "no data", "no data"]


def test_damaged_graph_json_raises(tmp_path: Path) -> None:
    study = small_study(tmp_path)
    assert graph_facts(study, "own", tmp_path) == {}
    path = graph_file(study, "own", tmp_path)
    path.parent.mkdir(parents=True)
    write_json(path, [1])
    with pytest.raises(RunError, match=r"graph\.json"):
        graph_facts(study, "own", tmp_path)
