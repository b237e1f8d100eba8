"""Files that are either the old ones or the new ones, never half of each."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import secrets
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from conjoin.errors import RunError

SEAL = "sha256"
LARGEST = 1 << 28
"""Bytes of JSON that are read at most: reading takes many times as much memory."""


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A path to write to; on leaving it is synced to disk and takes the place of `path`, on an error it vanishes."""
    aside = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        yield aside
        with aside.open("rb+") as written:
            os.fsync(written.fileno())
        aside.replace(path)
        sync_folder(path.parent)
    finally:
        aside.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Make a rename in `folder` survive a power cut."""
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
    text = json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False)
    with replacing(path) as aside:
        aside.write_text(text + "\n", encoding="utf-8")


def proper(path: Path) -> os.stat_result:
    """What the system says about a file; an error unless it is an ordinary one, for a pipe or a device has no end."""
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "it is not an ordinary file", str(path))
    return found


def read_json(path: Path) -> Any:
    """The inverse of `write_json`."""
    try:
        if proper(path).st_size > LARGEST:
            raise RunError(f"{path} is damaged: no such file is larger than {LARGEST >> 20} MiB; delete it")
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise RunError(f"{path} cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise RunError(f"{path} is damaged ({error}): delete the folder and run again") from error


def write_sealed(path: Path, value: Mapping[str, Any]) -> None:
    """An object with the checksum of its own content, so that a changed digit is noticed."""
    write_json(path, {**value, SEAL: digest(value)})


def read_sealed(path: Path) -> dict[str, Any]:
    """The inverse of `write_sealed`: the object without its checksum."""
    value = read_json(path)
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
    proper(path)
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
