"""Packs the small files of finished runs into one .tar.gz, to copy them off a rented machine. Does not import torch."""

from __future__ import annotations

import tarfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from conjoin.errors import RunError
from conjoin.runs.folder import RunFolder
from conjoin.runtime.atomic_files import open_regular, replacing

KEPT = ("cell.json", "run.json", "events.jsonl", "result.json", "ranks-*.parquet")
BESIDE = ("graph.json", "questions-*.parquet")
"""Files that the runs of a dataset share, two folders above each run."""


def write_archive(folders: Iterable[RunFolder], root: Path, file: Path) -> None:
    """Write the archive atomically. `tar -xzf FILE -C studies/results` restores the run folders."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with replacing(file) as aside, tarfile.open(aside, "w:gz", compresslevel=1) as archive:
        for path in _files(folders):
            archive.add(path, arcname=str(path.relative_to(root)), filter=_anonymous)


def archived_files(root: Path, file: Path) -> list[RunFolder]:
    """The finished runs under the root that an existing archive names; a repeated command keeps them in it."""
    if not file.exists():
        return []
    try:
        with open_regular(file) as stream, tarfile.open(fileobj=stream) as archive:
            names = [Path(name) for name in archive.getnames()]
    except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
        raise RunError(f"{file} is not an archive of runs: {error}. Name another file.") from error
    found = [RunFolder(root / name.parent) for name in names if name.name == "result.json"]
    return [folder for folder in found if folder.finished]


def _files(folders: Iterable[RunFolder]) -> Iterator[Path]:
    seen: set[Path] = set()
    for folder in folders:
        shared = folder.path.parents[1]
        found = [path for pattern in BESIDE for path in sorted(shared.glob(pattern))]
        found += [path for pattern in KEPT for path in sorted(folder.path.glob(pattern))]
        yield from (path for path in found if path not in seen)
        seen.update(found)


def _anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Remove the user's name and ids."""
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member
