"""Checks before a release, on small texts."""

from __future__ import annotations

import hashlib
import io
import tarfile
from pathlib import Path

import pytest

from scripts import check_release

PROJECT = """[project]
dependencies = ["torch>=2.11", "Safe_Tensors>=0.5"]
"""


def test_matching_lock_has_no_flaws() -> None:
    lock = "torch==2.13.0 \\\n    --hash=sha256:00\nsafe-tensors==0.6.1 ; python_version < '4'\nother==1\n"
    assert [*check_release.flaws_of_lock(PROJECT, lock, "torch==2.13.0\nother[extra]==1\n")] == []


def test_missing_and_mismatched_versions_are_reported() -> None:
    flaws = [*check_release.flaws_of_lock(PROJECT, "torch==2.13.0\n", "torch==2.12.0\n")]
    assert len(flaws) == 2
    assert "safe-tensors" in flaws[0]
    assert "2.12.0" in flaws[1]


@pytest.mark.parametrize(
    ("changelog", "citation", "count"),
    [
        ("## 0.2.0 (2026-12-01)\n", "version: 0.2.0\n", 0),
        ("## 0.2.0 (unreleased)\n", "version: 0.2.0\n", 1),
        ("## 0.2.0 (2026-12-01)\n", "version: 0.1.0\n", 1),
        ("## 0.1.0 (2026-12-01)\n", "", 2),
    ],
)
def test_version_must_be_dated_and_consistent(changelog: str, citation: str, count: int) -> None:
    flaws = [*check_release.flaws_of_version("0.2.0", changelog, citation)]
    assert len(flaws) == count
    assert all("0.2.0" in flaw for flaw in flaws)


def test_results_in_the_source_archive_and_wrong_checksums_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check_release, "_wheel_of", lambda *_: "")
    content = b"numbers"
    with tarfile.open(tmp_path / "conjoin-0.1.0.tar.gz", "w:gz") as archive:
        for name in ("conjoin-0.1.0/src/a.py", "conjoin-0.1.0/studies/results/paper/runs.parquet"):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    (tmp_path / "conjoin-0.1.0.whl").write_bytes(content)
    checksum = hashlib.sha256(content).hexdigest()
    (tmp_path / "SHA256SUMS").write_text(f"{checksum}  conjoin-0.1.0.whl\n{checksum}  conjoin-0.1.0.tar.gz\n")
    flaws = [*check_release.flaws_of_archives(tmp_path)]
    assert len(flaws) == 2
    assert "conjoin-0.1.0.tar.gz" in flaws[0]
    assert "paper/runs.parquet" in flaws[1]


def test_lock_of_the_repository_matches() -> None:
    texts = (
        (check_release.ROOT / name).read_text(encoding="utf-8")
        for name in ("pyproject.toml", "requirements.lock", "constraints.txt")
    )
    assert [*check_release.flaws_of_lock(*texts)] == []
