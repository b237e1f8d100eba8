"""Files that are either the old ones or the new ones, never half of each."""

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
    """A path to write to; on leaving it is synced to disk and takes the place of `path`, on an error it vanishes.

    A `path` that exists must be a regular file: replacing /dev/null by a file would break the system.
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
        reason = "something other than a regular file is there: choose another name"
        raise OSError(error.errno, reason, str(path)) from error


def check_target(path: Path) -> None:
    """A UsageError unless a file can be written at `path`: to be called before the work that fills it."""
    try:
        _check_replaceable(path)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror or error}") from error


@contextmanager
def replacing_all(paths: Sequence[Path]) -> Iterator[list[Path]]:
    """`replacing` for files that belong together: all of them are new afterwards or, on an error, all of them old.

    A process that is killed between two of the renames at the end leaves some of each.
    """
    for path in paths:
        _check_replaceable(path)
    asides = [path.with_name(f".{path.name}.{secrets.token_hex(4)}.part") for path in paths]
    kept = [aside.with_name(f"{aside.name}.old.part") for aside in asides]
    replaced: list[int] = []
    try:
        yield asides
        for aside, path, old in zip(asides, paths, kept, strict=True):
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
                kept[number].replace(paths[number]) if kept[number].exists() else paths[number].unlink()
            raise
    finally:
        for left in (*asides, *kept):
            left.unlink(missing_ok=True)


def sync_file(path: Path) -> None:
    """Make what was written to a file survive a power cut."""
    with path.open("rb+") as written:
        os.fsync(written.fileno())


def _second_name(path: Path, other: Path) -> None:
    """The same file under another name too; a copy where the file system has no such links."""
    try:
        other.hardlink_to(path)
    except OSError:
        shutil.copyfile(path, other)


def sync_folder(folder: Path) -> None:
    """Make a rename in `folder` survive a power cut, where folders can be synced: Windows cannot open them."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(folder: Path) -> None:
    """The folder, with those above it; they are still there after a power cut."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for made in missing:
        sync_folder(made.parent)


@contextmanager
def making(folder: Path) -> Iterator[None]:
    """`make_folder`, but on an error those folders vanish again that were made and are empty."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    try:
        make_folder(folder)
        yield
    except BaseException:
        for made in missing:
            with suppress(OSError):  # one that is not empty stays, and those above it
                made.rmdir()
        raise


def write_json(path: Path, value: Any) -> None:
    """Readable, sorted, atomic; refuses numbers that JSON cannot hold."""
    with replacing(path) as aside:
        aside.write_bytes(_spelled(value))


def _spelled(value: Any) -> bytes:
    return (json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n").encode()


def proper(path: Path) -> os.stat_result:
    """The status of a regular file, links followed. An OSError for anything else: a pipe or a device may have no end.

    Nothing is opened: opening a pipe waits for its other end, and opening a device may do something.
    """
    return _regular(path.stat(), path)


def _regular(found: os.stat_result, path: Path) -> os.stat_result:
    if stat.S_ISREG(found.st_mode):
        return found
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, "it is a folder, and a file is expected", str(path))
    kind = next((kind for test, kind in KINDS if test(found.st_mode)), "a special file")
    raise OSError(errno.EINVAL, f"it is {kind}, not a regular file: save the content to a file, name that", str(path))


def open_regular(path: Path) -> io.BufferedReader:
    """Open a regular file for reading bytes; an OSError for anything else, which is not opened and never waited for."""
    proper(path)
    stream = open(path, "rb", opener=_without_waiting)  # noqa: SIM115
    try:
        _regular(os.fstat(stream.fileno()), path)
    except BaseException:
        stream.close()
        raise
    return stream


def _without_waiting(path: str, flags: int) -> int:
    """Where a pipe has taken the place of the file since it was looked at, opening it must not wait."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def read_limited(path: Path, limit: int) -> bytes:
    """The content of a regular file; an OSError where it has more than `limit` bytes, whatever size it claims."""
    with open_regular(path) as stream:
        if os.fstat(stream.fileno()).st_size > limit:
            raise _too_large(path, limit)
        content = stream.read(limit + 1)
    if len(content) > limit:
        raise _too_large(path, limit)
    return content


def _too_large(path: Path, limit: int) -> OSError:
    return OSError(errno.EFBIG, f"it has more than the {limit:,} bytes that such a file may have", str(path))


def parse_json(content: bytes) -> Any:
    """The value of JSON in UTF-8. A ValueError also where it would take far more memory than its bytes.

    Every value follows a comma or a bracket. Those inside texts are counted too, which no record comes near to.
    """
    if sum(content.count(sign) for sign in (b",", b"[", b"{")) > file_limits.VALUES:
        raise ValueError(f"it holds more than {file_limits.VALUES:,} values")
    try:
        value = json.loads(content.decode())
    except RecursionError as error:
        raise ValueError(f"it is nested more than {file_limits.NESTED} levels deep") from error
    refuse_nesting(value)
    return value


def refuse_nesting(value: Any) -> None:
    """A ValueError where lists and objects stand in each other more than `limits.NESTED` deep.

    Functions that walk through the value may then call themselves at every level.
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
        raise RunError(f"{path} is damaged ({error}): delete the folder and run again") from error


def write_sealed(path: Path, value: Mapping[str, Any]) -> None:
    """An object with the checksum of its own content, so that a changed digit is noticed."""
    with replacing(path) as aside:
        aside.write_bytes(sealed(value))


def sealed(value: Mapping[str, Any]) -> bytes:
    """The content that `write_sealed` writes."""
    return _spelled({**value, SEAL: digest(value)})


def read_sealed(path: Path, *, limit: int = file_limits.RECORD) -> dict[str, Any]:
    """The inverse of `write_sealed`: the object without its checksum."""
    return _unsealed(read_json(path, limit=limit), path)


def sealed_record(content: bytes, path: Path) -> dict[str, Any]:
    """The object of a file's content that `sealed` made, without its checksum. A RunError names the file."""
    return _unsealed(record(content, path), path)


def _unsealed(value: Any, path: Path) -> dict[str, Any]:
    if not isinstance(value, dict) or value.pop(SEAL, None) != digest(value):
        raise broken_seal(path)
    return value


def broken_seal(path: Path) -> RunError:
    """What to raise about a file whose checksum is not that of its content."""
    return RunError(f"{path} is damaged: its content does not fit its own checksum; delete the folder and run again")


def digest(value: Any) -> str:
    """The checksum of what JSON can hold, in whatever order its keys come."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def sha256_of(path: Path) -> str:
    """The checksum of a file's bytes."""
    with open_regular(path) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
