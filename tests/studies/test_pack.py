"""Finished runs in one small archive."""

from __future__ import annotations

import tarfile
from pathlib import Path

from tests.cli.commands import conjoin
from tests.studies.small import small_study

from conjoin.studies.pack import archived_files, write_archive
from conjoin.studies.status import count_states, finished, study_status


def test_unpacked_runs_are_finished_runs(tmp_path: Path) -> None:
    study = small_study(tmp_path)
    root, file = tmp_path / "out", tmp_path / "deep" / "cells.tar.gz"
    ran = conjoin("study", "run", study.file, "--root", root, "--device", "cpu", "--seeds", "0", "--pack", file)
    assert ran.code == 0, ran.err
    (root / study.cells()[0].folder / "checkpoint.safetensors").write_bytes(b"heavy")
    with tarfile.open(file) as archive:
        names = archive.getnames()
        assert all(member.uname == "" for member in archive.getmembers())
        archive.extractall(tmp_path / "elsewhere", filter="data")
    assert len(names) == len(set(names))
    assert not [name for name in names if "safetensors" in name or ".lock" in name]
    there = study_status(study, tmp_path / "elsewhere")
    assert count_states(there)["done"] == 2
    for _, folder in finished(study, tmp_path / "elsewhere"):
        assert folder.ranks("test").mrr() == folder.result["test"]["mrr"]


def test_only_runs_of_the_command_are_packed(tmp_path: Path) -> None:
    study = small_study(tmp_path)
    where = (study.file, "--root", tmp_path / "out", "--device", "cpu")
    assert conjoin("study", "run", *where, "--seeds", "0").code == 0
    assert conjoin("study", "run", *where, "--pack", tmp_path / "rest.tar.gz").code == 0
    with tarfile.open(tmp_path / "rest.tar.gz") as archive:
        runs = [name for name in archive.getnames() if name.endswith("result.json")]
    assert sorted(Path(name).parent.name[:6] for name in runs) == ["seed-1", "seed-1"]


def test_a_repeated_command_keeps_packed_runs(tmp_path: Path) -> None:
    study = small_study(tmp_path)
    file = tmp_path / "cells.tar.gz"
    where = (study.file, "--root", tmp_path / "out", "--device", "cpu", "--pack", file)
    for words in (("--seeds", "0"), ("--seeds", "1"), ("--max-minutes", "0")):
        assert conjoin("study", "run", *where, *words).code == 0
    assert len(archived_files(tmp_path / "out", file)) == 4
    assert archived_files(tmp_path / "elsewhere", file) == []


def test_an_unwritable_pack_path_fails_before_any_run(tmp_path: Path) -> None:
    study = small_study(tmp_path)
    where = (study.file, "--root", tmp_path / "out", "--device", "cpu")
    (tmp_path / "no.tar.gz").write_text("something else", encoding="utf-8")
    (tmp_path / "file").write_text("", encoding="utf-8")
    for place in (tmp_path / "no.tar.gz", tmp_path / "file" / "cells.tar.gz"):
        assert conjoin("study", "run", *where, "--pack", place).code != 0
    assert not (tmp_path / "out").exists()
    assert (tmp_path / "no.tar.gz").read_text(encoding="utf-8") == "something else"


def test_a_pack_without_runs_can_be_read(tmp_path: Path) -> None:
    write_archive([], tmp_path, tmp_path / "none.tar.gz")
    with tarfile.open(tmp_path / "none.tar.gz") as archive:
        assert archive.getnames() == []
