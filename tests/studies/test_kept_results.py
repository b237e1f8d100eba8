"""The archives in studies/results: ranks give the numbers in results, and run folders are restored byte for byte."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

from conjoin.runs.folder import RunFolder
from conjoin.studies.archive import ArchivedRun, open_archive
from conjoin.studies.archive_write import restore_runs

RESULTS = Path(__file__).resolve().parents[2] / "studies" / "results"
pytestmark = pytest.mark.skipif(not RESULTS.is_dir(), reason="a source archive has no results of studies")
STUDIES = sorted(file.parent.name for file in RESULTS.glob("*/runs.parquet"))


@pytest.mark.slow
@pytest.mark.parametrize("study", STUDIES)
def test_ranks_give_the_kept_results(study: str) -> None:
    archive = open_archive(RESULTS / study)
    assert archive
    assert archive.rows
    for path, row in archive.rows.items():
        run = ArchivedRun(RESULTS / study / path, archive=archive, row=row)
        expected, ranks = run.result["test"], run.ranks("test")
        assert len(ranks) == expected["questions"], path
        assert ranks.mrr() == pytest.approx(expected["mrr"], abs=1e-12), path
        for k in (1, 3, 10):
            assert np.mean(ranks.ranks() <= k) == pytest.approx(expected[f"hits@{k}"], abs=1e-12), path


@pytest.mark.parametrize("study", STUDIES)
def test_a_sample_of_runs_is_restored_with_the_checksums_of_its_result(study: str, tmp_path: Path) -> None:
    archive = open_archive(RESULTS / study)
    assert archive
    sample = [*archive.rows][:: max(1, len(archive.rows) // 3)]
    assert restore_runs(RESULTS / study, tmp_path, chosen=sample) == len(sample)
    for path in sample:
        folder = RunFolder(tmp_path / path)
        files = json.loads((folder.path / "result.json").read_text(encoding="utf-8"))["files"]
        assert {"events.jsonl", "ranks-test.parquet", "ranks-valid.parquet"} <= {*files}
        for name, checksum in files.items():
            assert hashlib.sha256((folder.path / name).read_bytes()).hexdigest() == checksum, f"{path}/{name}"
        assert folder.ranks("valid").mrr() == pytest.approx(folder.result["valid"]["mrr"], abs=1e-12)


def test_the_tree_holds_archives_and_no_run_folders() -> None:
    assert len(STUDIES) >= 13
    files = [file.name for file in RESULTS.rglob("*") if file.is_file()]
    assert {"runs.parquet", "ranks.parquet", "questions.parquet"} <= {*files}
    assert len(files) <= 60
