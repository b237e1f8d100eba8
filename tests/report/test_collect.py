"""From run folders to outcomes: what counts, what is left out and why."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.report.fabricated import counted, finished, tiny

from conjoin.report.collect import RowResult, collect
from conjoin.report.stats import Moments
from conjoin.runtime.atomic_files import read_sealed, write_json, write_sealed
from conjoin.studies.parse import read_study
from conjoin.studies.spec import Study
from conjoin.studies.status import failure_file


def outcome_of(study: Study, root: Path, row: str) -> RowResult:
    found = collect(study, root).of("UMLS", row)
    assert found is not None
    return found


def test_moments_of_finished_runs(tmp_path: Path) -> None:
    study = tiny(tmp_path)
    for seed, mrr in enumerate((0.90, 0.92, 0.94)):
        cell = study.cell("UMLS", study.rows["complex"], seed)
        finished(tmp_path, cell, mrr=mrr, seconds=seed + 1, best_mrr=mrr + 0.01, hits=(0.1, 0.2, 0.3 + seed))
    outcome = outcome_of(study, tmp_path, "complex")
    expected = {
        "mrr": (0.92, 0.02, 3),
        "best_mrr": (0.93, 0.02, 3),
        "seconds": (2, 1, 3),
        "hits10": (1.3, 1, 3),
        "hits1": (0.1, 0, 3),
        "parameters": (1_000, 0, 3),
        "relation_bytes": (400, 0, 3),
        "peak_bytes": (8_000, 0, 3),
    }
    for measure, moments in expected.items():
        found = outcome.moments(measure)
        assert found is not None
        assert (found.mean, found.sd, found.n) == pytest.approx(moments)
    assert [run.seed for run in outcome.runs] == [0, 1, 2]
    assert outcome.runs[0].made_on == "test card"
    assert outcome.absent == ""


def test_a_moved_run_names_both_machines(tmp_path: Path) -> None:
    study = tiny(tmp_path)
    finished(tmp_path, study.cell("UMLS", study.rows["complex"], 0), mrr=0.9)
    found = collect(study, tmp_path).of("UMLS", "complex")
    assert found is not None
    told = read_sealed(found.runs[0].folder.settings_file)
    slow = {**told["environment"], "name": "slow processor"}
    write_sealed(found.runs[0].folder.settings_file, {**told, "earlier": [slow, {**slow, "torch": "2.99"}]})
    again = collect(study, tmp_path).of("UMLS", "complex")
    assert again is not None
    assert again.runs[0].made_on == "slow processor, then test card"


def test_missing_runs_have_a_reason(tmp_path: Path) -> None:
    study = tiny(tmp_path)
    finished(tmp_path, study.cell("UMLS", study.rows["complex"], 1), mrr=0.9)
    found = collect(study, tmp_path)
    tied = found.of("UMLS", "tied")
    assert tied is not None
    assert tied.absent == "not run"
    assert tied.moments("mrr") is None
    complex_row = found.of("UMLS", "complex")
    assert complex_row is not None
    assert complex_row.moments("mrr") == Moments(0.9, None, 1)
    assert found.flaws == ()


def test_missing_data_names_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONJOIN_DATA", str(tmp_path))
    monkeypatch.setenv("CONJOIN_CACHE", str(tmp_path / "cache"))
    study = tiny(tmp_path, graph="yago3-10")
    assert outcome_of(study, tmp_path, "complex").absent == "data not here: conjoin fetch yago3-10"
    own = tiny(tmp_path, graph="mine/graph")
    assert outcome_of(own, tmp_path, "complex").absent == "data not here: mine/graph does not exist"
    finished(tmp_path, own.cell("UMLS", own.rows["tied"], 0), mrr=0.9)
    assert outcome_of(own, tmp_path, "complex").absent == "not run"


def test_runs_that_failed_or_are_damaged_are_left_out_and_named(tmp_path: Path) -> None:
    study = tiny(tmp_path)
    rows = study.rows
    finished(tmp_path, study.cell("UMLS", rows["complex"], 0), mrr=0.9)
    damaged = finished(tmp_path, study.cell("UMLS", rows["complex"], 1), mrr=0.1)
    damaged.result_file.write_text(damaged.result_file.read_text().replace("0.1", "0.9"))
    failed = finished(tmp_path, study.cell("UMLS", rows["tied"], 0), mrr=0.1)
    failed.result_file.unlink()
    write_json(failure_file(failed), {"kind": "Diverged", "reason": "the loss is not finite"})
    found = collect(study, tmp_path)
    outcome, tied = found.of("UMLS", "complex"), found.of("UMLS", "tied")
    assert outcome is not None
    assert tied is not None
    assert outcome.values("mrr") == [0.9]
    assert tied.absent == "failed: Diverged: the loss is not finite"
    assert [flaw.partition(":")[0] for flaw in found.flaws] == ["UMLS complex seed 1", "UMLS tied seed 0"]


def test_runs_with_other_settings_are_ignored(tmp_path: Path) -> None:
    study = tiny(tmp_path)
    finished(tmp_path, study.cell("UMLS", study.rows["complex"], 0), mrr=0.9)
    text = study.file.read_text()
    study.file.write_text(text.replace("rank = 64", "rank = 32"))
    assert outcome_of(read_study(study.file), tmp_path, "complex").runs == ()


def test_numbers_from_two_versions_of_a_graph_are_not_mixed(tmp_path: Path) -> None:
    study = tiny(tmp_path)
    for seed, checksum in enumerate(("a" * 64, "a" * 64, "b" * 64)):
        finished(tmp_path, study.cell("UMLS", study.rows["complex"], seed), mrr=0.9 - seed / 10, checksum=checksum)
    found = collect(study, tmp_path)
    outcome = found.of("UMLS", "complex")
    assert outcome is not None
    assert outcome.values("mrr") == [0.9, 0.8]
    assert len(found.flaws) == 1
    assert found.flaws[0].startswith("UMLS complex seed 2 ")


def test_counts_come_from_the_trained_graph_then_from_the_known_dataset(tmp_path: Path) -> None:
    study = tiny(tmp_path)
    assert collect(study, tmp_path).graphs["UMLS"]["entities"] == 135
    counted(tmp_path, study, "UMLS", train=10, valid=2, test=3, entities=7, relations=1)
    assert collect(study, tmp_path).graphs["UMLS"] == {
        "train": 10,
        "valid": 2,
        "test": 3,
        "entities": 7,
        "relations": 1,
    }
    assert collect(tiny(tmp_path, graph="mine"), tmp_path / "empty").graphs == {}
