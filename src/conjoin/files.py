"""Files that are either the old ones or the new ones, never half of each."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from conjoin.errors import RunError


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A path to write to; on leaving it is synced to disk and takes the place of `path`, on an error it vanishes."""
    aside = path.with_name(f".{path.name}.{os.getpid()}.part")
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


def write_json(path: Path, value: Any) -> None:
    """Readable, sorted, atomic; refuses numbers that JSON cannot hold."""
    text = json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False)
    with replacing(path) as aside:
        aside.write_text(text + "\n", encoding="utf-8")


def read_json(path: Path) -> Any:
    """The inverse of `write_json`."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise RunError(f"{path} does not exist") from error
    except (OSError, ValueError, RecursionError) as error:
        raise RunError(f"{path} is damaged ({error}): delete the folder and run again") from error


def sha256_of(path: Path) -> str:
    """The checksum of a file's bytes."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
