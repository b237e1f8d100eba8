"""The results of a study in three Parquet files, from which every run folder but its weights is restored byte for byte.

    <root>/<study>/runs.parquet     a row per run: settings, environment, result, and its JSON files unchanged
    <root>/<study>/ranks.parquet    better and tied of every question; a row group per file of ranks
    <root>/questions.parquet        the questions, stored once for all runs and studies of the folder

All three are plain Parquet. Files of ranks and questions are stored as the compressed column chunks that their
writer made (see `conjoin.io.parquet_groups`), because another pyarrow may write other bytes, and the checksums in
result.json would not match. Row groups keep their numbers when runs are added, and `runs.parquet` is replaced last, so
that a killed process leaves the earlier archive. Does not import torch.
"""

from __future__ import annotations

import base64
import hashlib
import io
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from conjoin.errors import RunError
from conjoin.evaluation.ranks import Ranks, parse_questions, parse_ranks
from conjoin.io.parquet_groups import GroupFile, check_seal
from conjoin.io.parquet_pages import largest_page
from conjoin.runs.folder import RunFolder
from conjoin.runtime import file_limits
from conjoin.runtime.atomic_files import digest, open_regular, parse_json, read_limited

FORMAT = 1
"""Version of the format. Readers refuse a newer one."""
RUNS, RANKS, QUESTIONS = "runs.parquet", "ranks.parquet", "questions.parquet"
KEY = b"conjoin"
"""Key of the archive's own record in the metadata of a Parquet file."""
TEXTS = ("run.json", "cell.json", "result.json", "events.jsonl")
"""Files of a run that have one column each."""
SHARED = ("graph.json", "patterns.json")
"""Files that the runs of a dataset share."""
LIMITS = {"events.jsonl": file_limits.LARGE_RECORD, "patterns.json": file_limits.LARGE_RECORD}
NAME = re.compile(r"(?!\.)[^/\\:\x00-\x1f]{1,255}")
PRESENCE = {"events.jsonl": "epochs"}
"""The column that says whether a run has a file, if it is not the file's own column."""
DEPTH = 8

RANKS_FILE = re.compile(r"ranks-[\w-]+\.parquet")
QUESTIONS_FILE = re.compile(r"questions-[\w-]+\.parquet")
JSON_FILE = re.compile(r"[\w-][\w.-]*\.jsonl?")
QUERIED = ("path", "dataset", "row", "form", "rank", "seed", "weights", "epochs", "mrr", "hits@1", "hits@3", "hits@10")
"""Columns by which runs can be selected; `epochs` counts the lines of events.jsonl."""


class Archive:
    """The runs of one archive. Opening reads settings and results; events and ranks are read when needed.

    Raises RunError if a file is missing, damaged, too large, or of a newer format.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.file = folder, folder / RUNS
        texts = [name for name in TEXTS if name != "events.jsonl"]
        table = self._read([*QUERIED, *texts, "ranks", "other", "sha256"])
        try:
            self._columns: dict[str, list[Any]] = {name: table.column(name).to_pylist() for name in table.column_names}
            self.rows: dict[str, int] = {path: number for number, path in enumerate(self._columns["path"])}
            self.shared: dict[str, dict[str, str]] = self._record["shared"]
            self.questions: dict[str, dict[str, str]] = self._record["questions"]
            self._check()
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise self.damaged(repr(error)) from error
        self._asked: dict[str, tuple[str, dict[str, Any]]] = {}

    def damaged(self, reason: str) -> RunError:
        """The error for an archive that cannot be read."""
        return RunError(f"{self.file} is damaged: {reason}. Restore the archive from a copy, such as a clone's.")

    def names(self, row: int) -> list[str]:
        """The files of a run."""
        found = [name for name in TEXTS if self._columns[PRESENCE.get(name, name)][row] is not None]
        found += [each["name"] for column in ("ranks", "other") for each in self._columns[column][row]]
        return sorted(found)

    def content(self, row: int, name: str) -> bytes:
        """The original bytes of a run's file; raises FileNotFoundError if the run has no such file."""
        if name in TEXTS:
            content = self._text(name)[row]
            if content is not None:
                return bytes(content)
        for each in self._columns["ranks"][row]:
            if each["name"] == name:
                return limited(self.ranks.original(each["group"], each["tail"]))
        for each in self._columns["other"][row]:
            if each["name"] == name:
                return bytes(each["content"])
        raise FileNotFoundError(2, "the archive has no such file", f"{self.folder / self.path(row) / name}")

    def path(self, row: int) -> str:
        """The run's folder, relative to the study's folder."""
        return str(self._columns["path"][row])

    def sealed_content(self, row: int) -> dict[str, bytes]:
        """All files of a run; raises RunError if one of them has changed."""
        try:
            files = {name: self.content(row, name) for name in self.names(row)}
        except OSError as error:
            raise self.damaged(str(error)) from error
        if checksum_of(files) != self._columns["sha256"][row]:
            raise self.damaged(f"the files of {self.path(row)} do not match their checksum")
        return files

    def shared_content(self, place: str) -> dict[str, bytes]:
        """The files that the runs of a dataset share."""
        files = {name: text.encode() for name, text in self.shared.get(place, {}).items()}
        return files | {name: self.question_file.original(key) for name, key in self.questions.get(place, {}).items()}

    def asked(self, place: str, name: str, expected: str) -> Mapping[str, Any]:
        """The columns of a dataset's shared questions; raises RunError unless their checksum is `expected`."""
        key = self.questions.get(place, {}).get(name)
        if key is None:
            raise self.damaged(f"it has no {name} for {place}")
        if key not in self._asked:
            self._asked[key] = parse_questions(self.question_file.original(key), self.question_file.path)
        checksum, columns = self._asked[key]
        if expected not in (key, checksum):
            raise self.damaged(f"its {name} for {place} has other questions")
        return columns

    @cached_property
    def ranks(self) -> GroupFile:
        return GroupFile(self.folder / RANKS)

    @cached_property
    def question_file(self) -> QuestionFile:
        return QuestionFile(self.folder.parent / QUESTIONS)

    def table(self) -> Any:
        """The whole content of runs.parquet, as a pyarrow table."""
        return self._read(None)

    def _read(self, names: list[str] | None) -> Any:
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            with open_regular(self.file) as stream:
                check_seal(stream)
                metadata = pq.ParquetFile(stream).metadata
                self._record = self._checked(metadata)
                if largest_page(stream, range(metadata.num_columns)) > file_limits.ARCHIVE:
                    raise ValueError(f"a page has more than {file_limits.ARCHIVE:,} bytes")
                opened = pq.ParquetFile(stream, page_checksum_verification=True)
                return opened.read(columns=names, use_threads=False)
        except (pa.ArrowException, OSError, ValueError, KeyError) as error:
            raise self.damaged(str(error)) from error

    def _checked(self, metadata: Any) -> dict[str, Any]:
        record = parse_json((metadata.metadata or {}).get(KEY, b"{}"))
        check_format(record, self.file)
        size = sum(metadata.row_group(number).total_byte_size for number in range(metadata.num_row_groups))
        if size > file_limits.ARCHIVE or metadata.num_rows > file_limits.ARCHIVED_RUNS:
            raise ValueError(
                f"{metadata.num_rows:,} runs of {size:,} bytes; "
                f"{file_limits.ARCHIVED_RUNS:,} of {file_limits.ARCHIVE:,} are allowed"
            )
        found: dict[str, Any] = record
        return found

    def _text(self, name: str) -> list[Any]:
        if name not in self._columns:
            self._columns[name] = self._read([name]).column(name).to_pylist()
        return self._columns[name]

    def _check(self) -> None:
        """Raise ValueError unless all paths are inside the study's folder and no run is there twice."""
        if len(self.rows) != len(self._columns["path"]):
            raise ValueError("a run appears twice")
        for path in (*self.rows, *self.shared, *self.questions):
            if not fits(path):
                raise ValueError(f"{path!r} is not the path of a run")
        for files in (*self.shared.values(), *self.questions.values()):
            if not all(name in SHARED or QUESTIONS_FILE.fullmatch(name) for name in files):
                raise ValueError(f"{sorted(files)} are not files of a dataset")
            if not all(type(text) is str for text in files.values()):
                raise ValueError("a file of a dataset is not text")
        for row in range(len(self.rows)):
            names = self.names(row)
            allowed = (name in TEXTS or RANKS_FILE.fullmatch(name) or JSON_FILE.fullmatch(name) for name in names)
            if not all(allowed) or len({*names}) < len(names):
                raise ValueError(f"{names} are not files of a run")


class QuestionFile:
    """Shared questions, addressed by the checksum of their original file."""

    def __init__(self, path: Path) -> None:
        self.path, self.groups = path, GroupFile(path)
        try:
            record = parse_json(self.groups.metadata.get(KEY, b"{}"))
            check_format(record, path)
            self.files: dict[str, dict[str, Any]] = record["files"]
        except (ValueError, KeyError, TypeError) as error:
            raise RunError(f"{path} is damaged: {error!r}. Restore it from a copy.") from error

    def original(self, checksum: str) -> bytes:
        """The original file with this checksum; raises RunError if it is missing or has changed."""
        try:
            entry = self.files[checksum]
            content = self.groups.original(entry["group"], unpacked(entry["tail"]))
        except (KeyError, TypeError, ValueError, OSError) as error:
            raise RunError(f"{self.path} lacks the questions {checksum}. Restore it from a copy.") from error
        if hashlib.sha256(content).hexdigest() != checksum:
            raise RunError(f"{self.path} is damaged: the questions {checksum} changed. Restore it from a copy.")
        return limited(content)


@dataclass(frozen=True)
class ArchivedRun(RunFolder):
    """A run in an archive, with the interface of a run folder. `path` is the path of the folder if it were restored."""

    archive: Archive = field(compare=False, repr=False, kw_only=True)
    row: int = field(compare=False, repr=False, kw_only=True)

    def holds(self, name: str) -> bool:
        return name in self.archive.names(self.row)

    def content(self, name: str, limit: int) -> bytes:
        content = self.archive.content(self.row, name)
        if len(content) > limit:
            raise OSError(27, f"file larger than the {limit:,} bytes allowed", str(self.path / name))
        return content

    def checksum(self, name: str) -> str:
        return hashlib.sha256(self.archive.content(self.row, name)).hexdigest()

    @property
    def half_done(self) -> bool:
        return False

    def ranks(self, split: str = "test") -> Ranks:
        file = self.ranks_file(split)
        self.verify(file)
        dataset = "/".join(self.archive.path(self.row).split("/")[:-2])
        return parse_ranks(
            self.archive.content(self.row, file.name),
            file,
            lambda name, checksum: self.archive.asked(dataset, name, checksum),
        )


def fits(path: str) -> bool:
    """Whether an archive can store this path, which is relative to the study's folder."""
    parts = path.split("/")
    return len(parts) <= DEPTH and all(NAME.fullmatch(part) for part in parts)


def checksum_of(files: Mapping[str, bytes]) -> str:
    """The checksum of a run's files."""
    return digest({name: hashlib.sha256(content).hexdigest() for name, content in files.items()})


def check_format(record: Any, file: Path) -> None:
    """Raise RunError if a file has a newer format, and ValueError if it has none."""
    version = record.get("format") if isinstance(record, dict) else None
    if type(version) is not int or version < 1:
        raise ValueError("the file is not part of an archive")
    if version > FORMAT:
        raise RunError(
            f"{file} has version {version} of the archive's format; this Conjoin reads up to {FORMAT}. Update Conjoin."
        )


def limited(content: bytes) -> bytes:
    """Return the bytes of a Parquet file; raise RunError if one of its pages is too large to be unpacked."""
    if (page := largest_page(io.BytesIO(content), range(len(content)))) > file_limits.PAGE:
        raise RunError(f"A page of archived ranks unpacks to {page:,} bytes; {file_limits.PAGE:,} are allowed.")
    return content


def packed(tail: bytes) -> str:
    """Bytes as compressed text for JSON."""
    return base64.b64encode(zlib.compress(tail, 9)).decode()


def unpacked(text: str) -> bytes:
    """The inverse of `packed`; raises ValueError if the bytes are too many or not compressed text."""
    unpacker = zlib.decompressobj()
    try:
        content = unpacker.decompress(base64.b64decode(text, validate=True), file_limits.RECORD)
    except zlib.error as error:
        raise ValueError(str(error)) from error
    if not unpacker.eof:
        raise ValueError(f"more than {file_limits.RECORD:,} bytes")
    return content


_opened: dict[Path, tuple[tuple[int, ...], Archive]] = {}


def open_archive(folder: Path) -> Archive | None:
    """The archive in a study's folder; None if there is none. It is read again when its file has changed."""
    try:
        found = (folder / RUNS).stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise RunError(f"{folder / RUNS} cannot be read: {error.strerror or error}") from error
    state = found.st_mtime_ns, found.st_size, found.st_ino
    if folder not in _opened or _opened[folder][0] != state:
        _opened[folder] = state, Archive(folder)
    return _opened[folder][1]


def run_folder(root: Path, place: Path) -> RunFolder:
    """The run at `place` (study/dataset/row/seed…) under the results root: its folder, or the archive's run.

    A finished folder has priority over the archive, and the archive over an unfinished folder.
    """
    folder = RunFolder(root / place)
    if folder.finished or (archive := open_archive(root / place.parts[0])) is None:
        return folder
    row = archive.rows.get(Path(*place.parts[1:]).as_posix())
    return folder if row is None else ArchivedRun(folder.path, archive=archive, row=row)


def shared_file(file: Path) -> bytes | None:
    """graph.json or patterns.json (root/study/dataset/name), from its folder or the archive; None if in neither."""
    try:
        return read_limited(file, LIMITS.get(file.name, file_limits.RECORD))
    except (FileNotFoundError, NotADirectoryError):
        archive = open_archive(file.parents[1])
        text = archive.shared.get(file.parent.name, {}).get(file.name) if archive else None
        return None if text is None else text.encode()
    except OSError as error:
        raise RunError(f"{file} cannot be read: {error.strerror or error}") from error
