"""Archives of studies: what they restore, what they refuse, and that studies read them like folders."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from tests.cli.commands import conjoin
from tests.studies.small import small_study

from conjoin.errors import RunError
from conjoin.io.parquet_groups import seal
from conjoin.report.collect import collect
from conjoin.runtime import file_limits
from conjoin.studies import archive_write
from conjoin.studies.archive import ArchivedRun, open_archive
from conjoin.studies.archive_write import remove_archived, restore_runs, write_archive
from conjoin.studies.spec import Study
from conjoin.studies.status import count_states, study_status


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study of four runs, all done, in folders."""
    place = tmp_path_factory.mktemp("trained")
    study = small_study(place)
    assert conjoin("study", "run", study.file, "--device", "cpu").code == 0
    (place / "results" / study.cells()[0].folder / "model.safetensors").write_bytes(b"weights")
    return place


@pytest.fixture
def place(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "copy"))


def study_of(place: Path) -> Study:
    return small_study(place)


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder that is not of an archive, nor a lock, nor weights."""
    return {
        file.relative_to(folder).as_posix(): file.read_bytes()
        for file in sorted(folder.rglob("*"))
        if file.is_file()
        and file.name not in (".lock", "runs.parquet", "ranks.parquet", "questions.parquet")
        and file.suffix != ".safetensors"
    }


def test_an_archive_restores_every_byte_but_weights(place: Path, tmp_path: Path) -> None:
    results = place / "results"
    before = contents(results)
    report = write_archive(results / "small")
    assert (report.added, report.before, report.runs) == (4, 0, 4)
    assert restore_runs(results / "small", tmp_path / "out" / "small") == 4
    assert contents(tmp_path / "out") == before
    assert not [*(tmp_path / "out").rglob("*.safetensors")]


def test_remove_keeps_weights_and_runs_that_are_not_archived(place: Path) -> None:
    results, cells = place / "results", study_of(place).cells()
    write_archive(results / "small")
    (results / cells[1].folder / "notes.txt").write_text("mine", encoding="utf-8")
    remove_archived(results / "small")
    left = {file.name for file in results.rglob("*") if file.is_file()} - {".lock"}
    assert left == {"runs.parquet", "ranks.parquet", "questions.parquet", "model.safetensors", "notes.txt"}
    with pytest.raises(RunError, match="nowhere"):
        remove_archived(results / "nowhere")


def test_a_study_reads_archived_runs_like_folders(place: Path) -> None:
    study, results = study_of(place), place / "results"
    before = collect(study, results)
    ranks = {key: outcome.runs[0].folder.ranks("test").mrr() for key, outcome in before.outcomes.items()}
    write_archive(results / "small")
    remove_archived(results / "small")
    after = collect(study, results)
    assert after.graphs == before.graphs
    assert after.flaws == before.flaws == ()
    for key, outcome in after.outcomes.items():
        assert all(isinstance(run.folder, ArchivedRun) for run in outcome.runs)
        assert [run.result for run in outcome.runs] == [run.result for run in before.outcomes[key].runs]
        assert [run.events for run in outcome.runs] == [run.events for run in before.outcomes[key].runs]
        assert outcome.runs[0].folder.ranks("test").mrr() == ranks[key]


def test_archived_runs_are_not_repeated(place: Path) -> None:
    study, results = study_of(place), place / "results"
    shutil.rmtree(results / study.cells()[3].folder)
    write_archive(results / "small")
    remove_archived(results / "small")
    assert count_states(study_status(study, results))["done"] == 3
    planned = json.loads(conjoin("study", "plan", study.file, "--json").out)
    assert [cell["seed"] for cell in planned["cells"]] == [study.cells()[3].seed]
    ran = conjoin("study", "run", study.file, "--device", "cpu", "--json")
    assert ran.code == 0, ran.err
    assert len(json.loads(ran.out)["outcomes"]) == 1
    folders = [file.parent for file in results.rglob("result.json")]
    assert folders == [results / study.cells()[3].folder]
    report = write_archive(results / "small")
    assert (report.added, report.before) == (1, 3)
    remove_archived(results / "small")
    assert count_states(study_status(study, results))["done"] == 4


def test_archiving_again_changes_nothing(place: Path) -> None:
    results = place / "results"
    write_archive(results / "small")
    before = {file: file.read_bytes() for file in results.rglob("*.parquet")}
    assert write_archive(results / "small").added == 0
    assert {file: file.read_bytes() for file in results.rglob("*.parquet")} == before


def test_a_folder_that_differs_from_the_archive_is_refused(place: Path) -> None:
    study, results = study_of(place), place / "results"
    write_archive(results / "small")
    file = results / study.cells()[0].folder / "cell.json"
    file.write_bytes(file.read_bytes() + b"\n")
    with pytest.raises(RunError, match=study.cells()[0].folder.name):
        write_archive(results / "small")
    assert remove_archived(results / "small") > 0
    assert file.exists(), "it is not what the archive restores"


@pytest.mark.parametrize("name", ["ranks-test.parquet", "events.jsonl", "result.json", "run.json"])
def test_a_damaged_run_is_not_archived(place: Path, name: str) -> None:
    file = place / "results" / study_of(place).cells()[1].folder / name
    content = file.read_bytes()
    file.write_bytes(content[:-9] + bytes([content[-9] ^ 1]) + content[-8:])
    with pytest.raises(RunError, match=file.parent.name):
        write_archive(place / "results" / "small")
    assert not (place / "results" / "small" / "runs.parquet").exists()


def test_rank_files_that_include_questions_are_stored_whole(place: Path, tmp_path: Path) -> None:
    """As `train` writes them: other columns than the counts of a study."""
    results = tmp_path / "results"
    folder = results / "own" / "run"
    ran = conjoin("train", place / "own", "--rank", 4, "--epochs", 2, "--device", "cpu", "-o", folder)
    assert ran.code == 0, ran.err
    shutil.copytree(place / "results" / "small" / "own", results / "own" / "own")
    write_archive(results / "own")
    assert restore_runs(results / "own", tmp_path / "out") == 5
    expected = {
        name: content for name, content in contents(folder).items() if not name.startswith("graph/") and "/" not in name
    }
    assert contents(tmp_path / "out" / "run") == expected
    archive = open_archive(results / "own")
    assert archive
    run = ArchivedRun(folder, archive=archive, row=archive.rows["run"])
    assert run.ranks("test").mrr() == run.result["test"]["mrr"]


def test_restoring_keeps_equal_folders_and_refuses_others(place: Path, tmp_path: Path) -> None:
    study, results, out = study_of(place), place / "results", tmp_path / "out"
    paths = [Path(*cell.folder.parts[1:]).as_posix() for cell in study.cells()]
    write_archive(results / "small")
    assert restore_runs(results / "small", out, chosen=paths[:1]) == 1
    before = (out / paths[0] / "result.json").stat().st_mtime_ns
    assert restore_runs(results / "small", out, chosen=paths[:2]) == 2
    assert (out / paths[0] / "result.json").stat().st_mtime_ns == before
    (out / paths[1] / "run.json").write_text("{}", encoding="utf-8")
    with pytest.raises(RunError, match=Path(paths[1]).name):
        restore_runs(results / "small", out)
    assert not (out / paths[2]).exists(), "everything is checked before anything is written"
    (out / paths[1] / "run.json").unlink()
    assert restore_runs(results / "small", out) == 4
    assert contents(out) == contents(results / "small")


def test_a_failing_disk_leaves_the_earlier_archive(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study, results = study_of(place), place / "results"
    aside = shutil.move(results / study.cells()[0].folder, place / "aside")
    write_archive(results / "small")
    shutil.move(aside, results / study.cells()[0].folder)
    remove_archived(results / "small")

    def full(_: object) -> bytes:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(archive_write, "_sealed_table", full)
        with pytest.raises(OSError, match="space"):
            write_archive(results / "small")
    assert count_states(study_status(study, results))["done"] == 4
    archive = open_archive(results / "small")
    assert archive
    assert len([archive.sealed_content(row) for row in archive.rows.values()]) == 3
    assert write_archive(results / "small").added == 1
    assert not [*results.rglob("*.part")]


def changed(file: Path, change: Callable[[dict[str, list[Any]], dict[str, Any]], None]) -> None:
    """Write a runs.parquet anew with another content, and a seal that holds."""
    opened = pq.read_table(file)
    columns = opened.to_pydict()
    told = json.loads(opened.schema.metadata[b"conjoin"])
    change(columns, told)
    import pyarrow as pa

    table = pa.Table.from_pydict(columns, schema=opened.schema.with_metadata({"conjoin": json.dumps(told)}))
    file.write_bytes(archive_write._sealed_table(table))


@pytest.mark.parametrize(
    "path",
    [
        "../small/a",
        "/tmp/x",
        "own/../../x",
        "own//x",
        "",
        ".",
        "own/.git/config",
        "C:/x",
        "a\\b",
        "a/b\0c",
        "a/" * 9 + "a",
    ],
)
def test_paths_that_leave_the_folder_are_refused(place: Path, tmp_path: Path, path: str) -> None:
    def hostile(columns: dict[str, list[Any]], _: dict[str, Any]) -> None:
        columns["path"][0] = path

    write_archive(place / "results" / "small")
    changed(place / "results" / "small" / "runs.parquet", hostile)
    with pytest.raises(RunError, match=r"runs\.parquet"):
        restore_runs(place / "results" / "small", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_unexpected_file_names_in_an_archive_raise(place: Path, tmp_path: Path) -> None:
    def other(name: str) -> Callable[[dict[str, list[Any]], dict[str, Any]], None]:
        return lambda columns, _: columns["other"].__setitem__(0, [{"name": name, "content": b""}])

    def shared(columns: dict[str, list[Any]], told: dict[str, Any]) -> None:
        told["shared"]["own"]["../graph.json"] = "{}"

    def twice(columns: dict[str, list[Any]], _: dict[str, Any]) -> None:
        columns["path"][1] = columns["path"][0]

    results = place / "results"
    write_archive(results / "small")
    file = results / "small" / "runs.parquet"
    whole = file.read_bytes()
    for change in (other("../x.json"), other("model.safetensors"), other("run.json"), other(".x.json"), shared, twice):
        file.write_bytes(whole)
        changed(file, change)
        with pytest.raises(RunError, match=r"runs\.parquet"):
            restore_runs(results / "small", tmp_path / "out")


def test_a_newer_format_raises_with_its_version(place: Path) -> None:
    write_archive(place / "results" / "small")
    changed(place / "results" / "small" / "runs.parquet", lambda _, told: told.__setitem__("format", 17))
    with pytest.raises(RunError, match="17"):
        open_archive(place / "results" / "small")


@pytest.mark.parametrize("limit", ["ARCHIVE", "ARCHIVED_RUNS"])
def test_archives_over_a_limit_are_refused(place: Path, monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    write_archive(place / "results" / "small")
    os.utime(place / "results" / "small" / "runs.parquet", ns=(1, 1))
    monkeypatch.setattr(file_limits, limit, 3)
    with pytest.raises(RunError, match="3"):
        open_archive(place / "results" / "small")


def places_in(content: bytes, step: int) -> Iterator[int]:
    yield from range(0, len(content), step)


@pytest.mark.parametrize("name", ["small/runs.parquet", "small/ranks.parquet", "questions.parquet"])
def test_any_damage_is_refused_or_harmless(place: Path, tmp_path: Path, name: str) -> None:
    results = place / "results"
    write_archive(results / "small")
    file = results / name
    content = file.read_bytes()
    expected = contents(results / "small")
    refused = 0
    for number, place_ in enumerate(places_in(content, max(1, len(content) // 60))):
        file.write_bytes(content[:place_] + bytes([content[place_] ^ 1 << number % 8]) + content[place_ + 1 :])
        os.utime(file, ns=(number + 1, number + 1))
        os.utime(results / "small" / "runs.parquet", ns=(number + 1, number + 1))
        out = tmp_path / f"out-{number}"
        try:
            restore_runs(results / "small", out)
        except RunError:
            refused += 1
        assert not out.exists() or contents(out) == expected
    assert refused > 20


def test_a_missing_file_is_named(place: Path, tmp_path: Path) -> None:
    results = place / "results"
    write_archive(results / "small")
    (results / "questions.parquet").rename(results / "elsewhere")
    with pytest.raises(RunError, match=r"questions\.parquet"):
        restore_runs(results / "small", tmp_path / "out")
    with pytest.raises(RunError, match=r"runs\.parquet"):
        restore_runs(results / "nothing", tmp_path / "out")
    with pytest.raises(RunError, match="empty"):
        write_archive(results / "empty")


def test_seals_differ_for_different_bytes() -> None:
    assert seal(b"a") != seal(b"b")


def test_verbs_archive_and_restore(place: Path, tmp_path: Path) -> None:
    study, results = study_of(place), place / "results"
    before = contents(results)
    done = conjoin("study", "archive", study.file, "--remove", "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out) == {
        "folder": str(results / "small"),
        "added": 4,
        "runs": 4,
        "removed_files": len(before),
    }
    assert conjoin("study", "archive", results / "small").code == 0
    part = conjoin(
        "study", "restore", study.file, "--only", "row=tied", "--seeds", "1", "-o", tmp_path / "part", "--json"
    )
    assert json.loads(part.out) == {"folder": str(tmp_path / "part"), "runs": 1}
    assert len([*(tmp_path / "part").rglob("result.json")]) == 1
    assert conjoin("study", "restore", results / "small", "--seeds", "1").code == 2
    assert conjoin("study", "restore", study.file).code == 0
    assert contents(results) == before
