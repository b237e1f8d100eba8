"""Writes archives of studies and restores run folders. `conjoin.studies.archive` describes the format.

Does not import torch.
"""

from __future__ import annotations

import hashlib
import io
import json
import secrets
import shutil
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conjoin.errors import RunError
from conjoin.evaluation.ranks import parse_questions
from conjoin.io.parquet_groups import GroupWriter, check_seal, seal
from conjoin.runs.folder import RunFolder
from conjoin.runtime import file_limits
from conjoin.runtime.atomic_files import make_folder, read_limited, replacing, sync_folder
from conjoin.runtime.file_locks import taken
from conjoin.runtime.progress import Track, silent
from conjoin.studies.archive import (
    FORMAT,
    JSON_FILE,
    KEY,
    LIMITS,
    QUERIED,
    QUESTIONS,
    QUESTIONS_FILE,
    RANKS,
    RANKS_FILE,
    RUNS,
    SHARED,
    TEXTS,
    Archive,
    QuestionFile,
    checksum_of,
    fits,
    open_archive,
    packed,
)

LEVEL = 19
"""Compression level of zstd."""
PAGE_BYTES = 32 << 20
"""Texts are compressed in large pages, because the runs of a study have much text in common."""


@dataclass(frozen=True)
class ArchiveReport:
    """How many runs were added to the archive of `folder`, and how many it had before."""

    folder: Path
    added: int
    before: int

    @property
    def runs(self) -> int:
        return self.added + self.before


def loose_runs(folder: Path) -> list[RunFolder]:
    """The finished run folders below a study's folder."""
    found = (RunFolder(file.parent) for file in sorted(folder.rglob("result.json")))
    return [each for each in found if each.exists]


def write_archive(folder: Path, *, track: Track = silent) -> ArchiveReport:
    """Add the finished run folders below `folder` (root/study) to its archive. Folders and archived runs stay.

    Raises RunError if a folder is damaged, or differs from the archived run of the same path.
    """
    make_folder(folder)
    with taken(folder.parent / ".lock", wait=True):
        old = open_archive(folder)
        added, shared, questions = _gathered(folder, old, track)
        if old is None and not added:
            raise RunError(f"{folder} has no finished runs to archive. Run the study first, or check the path.")
        before = len(old.rows) if old else 0
        kept = old.shared if old else {}
        if added or any(files.items() - kept.get(place, {}).items() for place, files in shared.items()):
            _write(folder, old, added, shared, questions)
        written = open_archive(folder)
        assert written is not None
        for path, files in added.items():
            if written.sealed_content(written.rows[path]) != files:
                raise written.damaged(f"the files of {path} changed while they were archived")
        return ArchiveReport(folder=folder, added=len(added), before=before)


def remove_archived(folder: Path) -> int:
    """Delete the files below a study's folder that its archive restores byte for byte; return their number.

    Weights, checkpoints, runs that are not archived and the questions of such runs stay.
    """
    archive = open_archive(folder)
    if archive is None:
        raise RunError(f"{folder} has no archive. Run `conjoin study archive` first.")
    removed = 0
    places: set[Path] = set()
    for path, row in archive.rows.items():
        run = folder / path
        if not (run / "result.json").exists():
            continue
        for name, content in archive.sealed_content(row).items():
            if name != "result.json":
                removed += _remove_same(run / name, content)
        removed += _remove_same(run / "result.json", archive.content(row, "result.json"))  # last: the run is done
        (run / ".lock").unlink(missing_ok=True)
        _remove_empty(run, folder)
        places.add(run.parents[1])
    for place in {*archive.shared, *archive.questions}:
        if not [*(folder / place).rglob("run.json")]:
            for name, content in archive.shared_content(place).items():
                removed += _remove_same(folder / place / name, content)
            _remove_empty(folder / place, folder)
    return removed


def restore_runs(folder: Path, out: Path, *, chosen: Collection[str] | None = None, track: Track = silent) -> int:
    """Write run folders of the archive in `folder` below `out`, all or only the `chosen` paths; return their number.

    All checks happen before the first write. Files in an existing folder must equal the archived ones; missing files
    are added, result.json last. A new folder is created atomically.
    """
    archive = open_archive(folder)
    if archive is None:
        raise RunError(f"{folder} has no {RUNS}. Name a study whose runs were archived.")
    paths = [path for path in archive.rows if chosen is None or path in chosen]
    missing = []
    for path in track(paths, "checking", len(paths)):
        files = archive.sealed_content(archive.rows[path])
        if _absent_files(out / path, files):
            missing.append(path)
    beside = {place for path in paths for place in _places(archive, path)}
    shared = {place: archive.shared_content(place) for place in sorted(beside)}
    for place, files in shared.items():
        _absent_files(out / place, files)
    for place, files in shared.items():
        make_folder(out / place)
        for name, content in files.items():
            if not (out / place / name).exists():
                with replacing(out / place / name) as aside:
                    aside.write_bytes(content)
    for path in track(missing, "writing", len(missing)):
        _write_folder(out / path, archive.sealed_content(archive.rows[path]))
    return len(paths)


def _gathered(
    folder: Path, old: Archive | None, track: Track
) -> tuple[dict[str, dict[str, bytes]], dict[str, dict[str, str]], dict[str, dict[str, bytes]]]:
    """Files of the runs to add, by path; files that runs share, by the dataset's path, as text and as Parquet."""
    added: dict[str, dict[str, bytes]] = {}
    shared: dict[str, dict[str, str]] = {}
    questions: dict[str, dict[str, bytes]] = {}
    runs = loose_runs(folder)
    for run in track(runs, "reading", len(runs)):
        path = run.path.relative_to(folder).as_posix()
        if not fits(path):
            raise RunError(f"An archive cannot store the path {run.path}. Rename the folder.")
        files = _files(run)
        if old is None or path not in old.rows:
            added[path] = files
        elif old.sealed_content(old.rows[path]) != files:
            raise RunError(
                f"{run.path} differs from the archived run of the same name. Move the folder away, or restore it."
            )
        place = run.path.parents[1]
        if place != folder and place.is_relative_to(folder):
            _take_shared(place, place.relative_to(folder).as_posix(), shared, questions)
    for file in sorted(folder.glob("*/*.json")):
        if file.name in SHARED:
            _take_shared(file.parent, file.parent.name, shared, questions)
    return added, shared, questions


def _take_shared(
    place: Path, key: str, shared: dict[str, dict[str, str]], questions: dict[str, dict[str, bytes]]
) -> None:
    if key in shared:
        return
    try:
        shared[key] = {
            name: read_limited(place / name, LIMITS.get(name, file_limits.RECORD)).decode()
            for name in SHARED
            if (place / name).exists()
        }
        found = [file for file in sorted(place.glob("questions-*.parquet")) if QUESTIONS_FILE.fullmatch(file.name)]
        questions[key] = {file.name: read_limited(file, file_limits.PACKED_PARQUET) for file in found}
    except (OSError, UnicodeDecodeError) as error:
        raise RunError(
            f"The shared files in {place} cannot be read: {error}. Check the folder's permissions."
        ) from error


def _files(run: RunFolder) -> dict[str, bytes]:
    """The files of a run that an archive stores; raises RunError if one does not match result.json."""
    result = run.result
    _ = run.run
    files = {}
    for file in sorted(run.path.iterdir()):
        name = file.name
        if name in TEXTS or RANKS_FILE.fullmatch(name) or (JSON_FILE.fullmatch(name) and file.is_file()):
            limit = file_limits.PACKED_PARQUET if name.endswith(".parquet") else file_limits.LARGE_RECORD
            try:
                files[name] = read_limited(file, LIMITS.get(name, limit))
            except OSError as error:
                raise RunError(f"{file} cannot be read: {error.strerror or error}") from error
    for name, expected in result["files"].items():
        if not name.endswith(".safetensors") and hashlib.sha256(files.get(name, b"")).hexdigest() != expected:
            raise RunError(f"{run.path / name} is missing or damaged. Delete the folder and run again.")
    return files


def _write(
    folder: Path,
    old: Archive | None,
    added: Mapping[str, Mapping[str, bytes]],
    shared: Mapping[str, Mapping[str, str]],
    questions: Mapping[str, Mapping[str, bytes]],
) -> None:
    """Write the three files; runs.parquet last, because it refers to the others."""
    import pyarrow as pa

    asked = _write_questions(folder.parent / QUESTIONS, old, questions)
    writer = GroupWriter(old.ranks if old else None)
    rows = [_row(path, files, writer) for path, files in sorted(added.items())]
    if writer.changed or old is None:
        with replacing(folder / RANKS) as aside:
            writer.write(aside, {KEY.decode(): json.dumps({"format": FORMAT})})
    new = pa.Table.from_pylist(rows, schema=_schema())
    table = pa.concat_tables([old.table().replace_schema_metadata(None).cast(new.schema), new]) if old else new
    kept = old.shared if old else {}
    record = {
        "format": FORMAT,
        "shared": kept | {place: {**kept.get(place, {}), **files} for place, files in shared.items() if files},
        "questions": asked,
    }
    with replacing(folder / RUNS) as aside:
        aside.write_bytes(_sealed_table(table.replace_schema_metadata({KEY: json.dumps(record, sort_keys=True)})))


def _write_questions(
    file: Path, old: Archive | None, questions: Mapping[str, Mapping[str, bytes]]
) -> dict[str, dict[str, str]]:
    """Add new questions to the file; return the checksum of each file of questions, by dataset and name."""
    before = QuestionFile(file) if file.exists() else None
    writer = GroupWriter(before.groups if before else None)
    files = dict(before.files) if before else {}
    named: dict[str, dict[str, str]] = {place: dict(names) for place, names in (old.questions if old else {}).items()}
    for place, found in questions.items():
        for name, content in found.items():
            key = hashlib.sha256(content).hexdigest()
            if (kept := named.setdefault(place, {}).setdefault(name, key)) != key:
                assert before is not None
                if parse_questions(before.original(kept), name)[0] != parse_questions(content, name)[0]:
                    raise RunError(f"{name} of {place} holds other questions than the archive. Move it away.")
                continue
            if key not in files:
                try:
                    group, tail = writer.add(content)
                except ValueError as error:
                    raise RunError(f"{name} of {place} cannot be archived: {error}.") from error
                files[key] = {"group": group, "tail": packed(tail)}
    if len(files) > (len(before.files) if before else 0):
        with replacing(file) as aside:
            writer.write(aside, {KEY.decode(): json.dumps({"format": FORMAT, "files": files}, sort_keys=True)})
    return {place: names for place, names in named.items() if names}


def _schema() -> Any:
    import pyarrow as pa

    numbers = {"rank": pa.int32(), "seed": pa.int64(), "epochs": pa.int32()}
    columns = [(name, numbers.get(name, pa.string())) for name in QUERIED]
    columns = [(name, pa.float64() if name.startswith(("mrr", "hits")) else kind) for name, kind in columns]
    group = pa.struct([("name", pa.string()), ("group", pa.int32()), ("tail", pa.binary())])
    other = pa.struct([("name", pa.string()), ("content", pa.binary())])
    return pa.schema(
        [
            *columns,
            *((name, pa.binary()) for name in TEXTS),
            ("ranks", pa.list_(group)),
            ("other", pa.list_(other)),
            ("sha256", pa.string()),
        ]
    )


def _row(path: str, files: Mapping[str, bytes], writer: GroupWriter) -> dict[str, Any]:
    """A run as a row of runs.parquet. Its files must be checked already."""
    run, result = (json.loads(files[name]) for name in ("run.json", "result.json"))
    cell = json.loads(files["cell.json"]) if "cell.json" in files else {}
    test = result.get("test") or {}
    groups, other = [], []
    for name, content in sorted(files.items()):
        if name in TEXTS:
            continue
        try:
            if not RANKS_FILE.fullmatch(name):
                raise ValueError("not ranks")
            group, tail = writer.add(content)
            groups.append({"name": name, "group": group, "tail": tail})
        except ValueError:  # files with other columns or another layout are rare and stored whole
            other.append({"name": name, "content": content})
    settings = run["run"]
    return {
        "path": path,
        "dataset": str(cell.get("dataset") or settings["data"]),
        "row": str(cell.get("row") or settings["form"]),
        **{name: settings[name] for name in ("form", "rank", "seed", "weights")},
        "epochs": files["events.jsonl"].count(b"\n") if "events.jsonl" in files else None,
        **{name: test.get(name) for name in ("mrr", "hits@1", "hits@3", "hits@10")},
        **{name: files.get(name) for name in TEXTS},
        "ranks": groups,
        "other": other,
        "sha256": checksum_of(files),
    }


def _sealed_table(table: Any) -> bytes:
    import pyarrow.parquet as pq

    stream = io.BytesIO()
    pq.write_table(
        table,
        stream,
        compression="zstd",
        compression_level=LEVEL,
        use_dictionary=["dataset", "row", "form", "weights"],
        data_page_size=PAGE_BYTES,
        write_statistics=False,
        write_page_checksum=True,
        row_group_size=file_limits.ARCHIVED_RUNS,
    )
    content = stream.getvalue()
    end = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    sealed = content[:end] + seal(content[end:]) + content[end:]
    check_seal(io.BytesIO(sealed))
    return sealed


def _absent_files(folder: Path, files: Mapping[str, bytes]) -> list[str]:
    """Names of the files that a folder lacks; raises RunError if a file has other bytes."""
    missing = []
    for name, content in files.items():
        file = folder / name
        if not file.exists():
            missing.append(name)
        elif not _same(file, content):
            raise RunError(f"{file} differs from the archived file. Move it away, or restore to another folder.")
    return missing


def _same(file: Path, content: bytes) -> bool:
    try:
        return read_limited(file, len(content)) == content
    except OSError:
        return False


def _write_folder(folder: Path, files: Mapping[str, bytes]) -> None:
    """Create a folder with these files atomically, or add the missing ones to an existing folder, result.json last."""
    if folder.exists():
        for name in sorted(_absent_files(folder, files), key="result.json".__eq__):
            with replacing(folder / name) as part:
                part.write_bytes(files[name])
        return
    make_folder(folder.parent)
    aside = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}.part")
    try:
        aside.mkdir()
        for name, content in files.items():
            with replacing(aside / name) as part:
                part.write_bytes(content)
        aside.rename(folder)
        sync_folder(folder.parent)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _places(archive: Archive, path: str) -> list[str]:
    """The dataset's folder of a run, where the archive has files for it."""
    place = "/".join(path.split("/")[:-2])
    return [place] if place in archive.shared or place in archive.questions else []


def _remove_same(file: Path, content: bytes) -> int:
    if not (file.exists() and _same(file, content)):
        return 0
    file.unlink()
    return 1


def _remove_empty(folder: Path, top: Path) -> None:
    """Remove a folder and its parents below `top`, as far as they are empty."""
    with suppress(OSError):
        while folder != top:
            folder.rmdir()
            folder = folder.parent
