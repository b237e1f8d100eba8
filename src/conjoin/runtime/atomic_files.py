"""Write files atomically: a reader sees the old content or the new content, never a mixture."""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import secrets
import shutil
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from conjoin.errors import RunError, UsageError
from conjoin.runtime import file_limits

SEAL = "sha256"
KINDS = (
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary path to write to. At the end the file is synced to disk and renamed to `path`; on error, deleted.

    An existing `path` must be a regular file: replacing /dev/null by a file would break the system.
    """
    _check_replaceable(path)
    aside = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        yield aside
        sync_file(aside)
        aside.replace(path)
        sync_folder(path.parent)
    finally:
        aside.unlink(missing_ok=True)


def _check_replaceable(path: Path) -> None:
    try:
        proper(path)
    except FileNotFoundError:
        return
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.EISDIR):
            raise
        reason = "something other than a regular file has this name. Choose another name"
        raise OSError(error.errno, reason, str(path)) from error


def check_target(path: Path) -> None:
    """Raise UsageError unless a file can be written at `path`. Call this before the work that fills the file."""
    try:
        _check_replaceable(path)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror or error}") from error


@contextmanager
def replacing_all(paths: Sequence[Path]) -> Iterator[list[Path]]:
    """`replacing` for several files: afterwards all of them are new or, on an error, all of them old.

    A process that is killed between two of the renames at the end leaves a mixture.
    """
    for path in paths:
        _check_replaceable(path)
    asides = [path.with_name(f".{path.name}.{secrets.token_hex(4)}.part") for path in paths]
    backups = [aside.with_name(f"{aside.name}.old.part") for aside in asides]
    replaced: list[int] = []
    try:
        yield asides
        for aside, path, old in zip(asides, paths, backups, strict=True):
            sync_file(aside)
            if path.exists():
                _second_name(path, old)
        try:
            for number, aside in enumerate(asides):
                aside.replace(paths[number])
                replaced.append(number)
            for folder in {path.parent for path in paths}:
                sync_folder(folder)
        except BaseException:
            for number in replaced:
                backups[number].replace(paths[number]) if backups[number].exists() else paths[number].unlink()
            raise
    finally:
        for leftover in (*asides, *backups):
            leftover.unlink(missing_ok=True)


def sync_file(path: Path) -> None:
    """Flush a file to disk, so that it survives a power cut."""
    with path.open("rb+") as written:
        os.fsync(written.fileno())


def _second_name(path: Path, other: Path) -> None:
    """Hard-link a file; copy it if the file system has no hard links."""
    try:
        other.hardlink_to(path)
    except OSError:
        shutil.copyfile(path, other)


def sync_folder(folder: Path) -> None:
    """Flush a rename in `folder` to disk. Does nothing on Windows, which cannot open folders."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(folder: Path) -> None:
    """Create a folder and its parents, synced to disk."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for made in missing:
        sync_folder(made.parent)


@contextmanager
def making(folder: Path) -> Iterator[None]:
    """`make_folder`; on an error, the new folders are removed again if they are empty."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    try:
        make_folder(folder)
        yield
    except BaseException:
        for made in missing:
            with suppress(OSError):  # a folder that is not empty stays, with its parents
                made.rmdir()
        raise


def write_json(path: Path, value: Any) -> None:
    """Write a value as indented JSON with sorted keys, atomically. A ValueError for NaN and infinity."""
    with replacing(path) as aside:
        aside.write_bytes(_spelled(value))


def _spelled(value: Any) -> bytes:
    return (json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n").encode()


def proper(path: Path) -> os.stat_result:
    """The status of a regular file, links followed. An OSError for anything else: a pipe or a device may have no end.

    Does not open the file: opening a pipe waits for its other end, and opening a device can have side effects.
    """
    return _regular(path.stat(), path)


def _regular(status: os.stat_result, path: Path) -> os.stat_result:
    if stat.S_ISREG(status.st_mode):
        return status
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, "it is a folder, and a file is expected", str(path))
    kind = next((kind for test, kind in KINDS if test(status.st_mode)), "a special file")
    raise OSError(errno.EINVAL, f"it is {kind}, not a regular file. Save the content to a file first", str(path))


def open_regular(path: Path) -> io.BufferedReader:
    """Open a regular file for reading bytes. An OSError for anything else, without opening it or waiting."""
    proper(path)
    stream = open(path, "rb", opener=_without_waiting)  # noqa: SIM115
    try:
        _regular(os.fstat(stream.fileno()), path)
    except BaseException:
        stream.close()
        raise
    return stream


def _without_waiting(path: str, flags: int) -> int:
    """Open without waiting: since the check, a pipe may have replaced the file."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def read_limited(path: Path, limit: int) -> bytes:
    """The content of a regular file. An OSError if it has more than `limit` bytes, whatever size the system reports."""
    with open_regular(path) as stream:
        if os.fstat(stream.fileno()).st_size > limit:
            raise _too_large(path, limit)
        content = stream.read(limit + 1)
    if len(content) > limit:
        raise _too_large(path, limit)
    return content


def _too_large(path: Path, limit: int) -> OSError:
    return OSError(errno.EFBIG, f"it has more than {limit:,} bytes, the limit for such a file", str(path))


def parse_json(content: bytes) -> Any:
    """The value of JSON in UTF-8. A ValueError if it is invalid, is nested too deep or has too many values.

    Values are estimated by counting commas and opening brackets, including those in strings; real records are far below
    the limit.
    """
    if sum(content.count(sign) for sign in (b",", b"[", b"{")) > file_limits.VALUES:
        raise ValueError(f"it has more than {file_limits.VALUES:,} values")
    try:
        value = json.loads(content.decode())
    except RecursionError as error:
        raise ValueError(f"it is nested more than {file_limits.NESTED} levels deep") from error
    refuse_nesting(value)
    return value


def refuse_nesting(value: Any) -> None:
    """Raise ValueError if lists and objects are nested more than `file_limits.NESTED` levels deep.

    After this check, recursive functions can process the value.
    """
    level = [value]
    for _ in range(file_limits.NESTED):
        level = [each for outer in level for each in _members(outer) if isinstance(each, dict | list)]
        if not level:
            return
    raise ValueError(f"it is nested more than {file_limits.NESTED} levels deep")


def _members(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def read_json(path: Path, *, limit: int = file_limits.RECORD) -> Any:
    """The inverse of `write_json`, for files of at most `limit` bytes."""
    try:
        content = read_limited(path, limit)
    except OSError as error:
        raise RunError(f"{path} cannot be read: {error.strerror or error}") from error
    return record(content, path)


def record(content: bytes, path: Path) -> Any:
    """The JSON value of a file's content. A RunError names the file."""
    try:
        return parse_json(content)
    except ValueError as error:
        raise RunError(f"{path} is damaged ({error}). Delete the folder and run again.") from error


def write_sealed(path: Path, value: Mapping[str, Any]) -> None:
    """Write an object with the checksum of its content, so that any change is detected."""
    with replacing(path) as aside:
        aside.write_bytes(sealed(value))


def sealed(value: Mapping[str, Any]) -> bytes:
    """The content that `write_sealed` writes."""
    return _spelled({**value, SEAL: digest(value)})


def read_sealed(path: Path, *, limit: int = file_limits.RECORD) -> dict[str, Any]:
    """The inverse of `write_sealed`: the object without its checksum, or RunError if the checksum is wrong."""
    return _unsealed(read_json(path, limit=limit), path)


def sealed_record(content: bytes, path: Path) -> dict[str, Any]:
    """The object of a file's content that `sealed` made, without its checksum. A RunError names the file."""
    return _unsealed(record(content, path), path)


def _unsealed(value: Any, path: Path) -> dict[str, Any]:
    if not isinstance(value, dict) or value.pop(SEAL, None) != digest(value):
        raise broken_seal(path)
    return value


def broken_seal(path: Path) -> RunError:
    """The error for a file with a wrong checksum."""
    return RunError(f"{path} is damaged: its content does not match its checksum. Delete the folder and run again.")


def digest(value: Any) -> str:
    """The checksum of a JSON value, independent of the order of its keys."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def sha256_of(path: Path) -> str:
    """The checksum of a file's bytes."""
    with open_regular(path) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
