"""Download files over https: resume interrupted transfers, verify checksums."""

from __future__ import annotations

import gzip
import hashlib
import http.client
import re
import urllib.error
import urllib.request
import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal
from urllib.parse import urlsplit

from conjoin.errors import DatasetError
from conjoin.runtime.atomic_files import open_regular
from conjoin.runtime.progress import Track, silent

CHUNK = 1 << 16
LARGEST = 1 << 30
TRIES = 3
LOOPBACK = ("127.0.0.1", "::1", "localhost")


class Mismatch(DatasetError):
    """Content whose checksum is wrong."""


@dataclass(frozen=True)
class Checksum:
    """The checksum of a text file, computed over its unpacked content with line feeds as line ends.

    `sha256` is the plain digest, `git` the id of the file as a git blob.
    """

    kind: Literal["sha256", "git"]
    digest: str

    @classmethod
    def parse(cls, text: str) -> Checksum:
        """From "sha256:…" or "git:…"."""
        kind, _, digest = text.partition(":")
        if kind == "sha256" and re.fullmatch("[0-9a-f]{64}", digest):
            return cls("sha256", digest)
        if kind == "git" and re.fullmatch("[0-9a-f]{40}", digest):
            return cls("git", digest)
        raise DatasetError(f"{text!r} is not a checksum. Write sha256: or git:, followed by the hexadecimal digest.")

    def fits(self, path: Path) -> bool:
        """Does the content of the file, compressed with gzip or not, have this checksum?"""
        if self.kind == "sha256":
            digest = hashlib.sha256()
        else:
            digest = hashlib.sha1(b"blob %d\0" % sum(map(len, _text(path))), usedforsecurity=False)
        for chunk in _text(path):
            digest.update(chunk)
        return digest.hexdigest() == self.digest


def _text(path: Path) -> Iterator[bytes]:
    """The content in chunks: unpacked, without carriage returns before line feeds (a common repackaging)."""
    held = b""
    try:
        with ExitStack() as opened:
            plain = opened.enter_context(open_regular(path))
            gzipped = plain.read(2) == b"\x1f\x8b"
            plain.seek(0)
            source = opened.enter_context(gzip.open(plain, "rb")) if gzipped else plain
            while chunk := source.read(CHUNK):
                content = held + chunk
                held = b"\r" if content.endswith(b"\r") else b""
                yield content[: len(content) - len(held)].replace(b"\r\n", b"\n")
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise Mismatch(f"{path} is a damaged gzip file ({error}). Download it again.") from None
    yield held


def download(
    url: str,
    target: Path,
    *,
    checksum: Checksum | None = None,
    limit: int = LARGEST,
    timeout: float = 30.0,
    track: Track = silent,
) -> None:
    """Download `url` to `target`, which appears only when complete and verified.

    The bytes of an interrupted transfer stay next to it as `.part`, and the next call continues there. Content with a
    wrong checksum is deleted; if the transfer was a continued one, it starts again from the beginning.
    """
    part = target.with_name(target.name + ".part")
    target.parent.mkdir(parents=True, exist_ok=True)
    for attempt in range(1, TRIES + 1):
        continued = _size(part) > 0
        if not _transfer(url, part, limit=limit, timeout=timeout, track=track):
            if attempt == TRIES:
                raise DatasetError(
                    f"the transfer stopped after {_size(part):,} bytes; run the same command to continue it"
                )
        elif checksum is None or checksum.fits(part):
            part.replace(target)
            return
        else:
            received = _size(part)
            part.unlink()
            if not continued or attempt == TRIES:
                raise Mismatch(f"the {received:,} bytes received have not the published checksum of {target.name}")


def _transfer(url: str, part: Path, *, limit: int, timeout: float, track: Track) -> bool:
    """Append the missing bytes to `part`. False if the transfer stopped early and can be tried again."""
    have = _size(part)
    try:
        with _answer(url, have, timeout) as answer:
            return _store(answer, part, have=have, limit=limit, track=track)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code != http.client.REQUESTED_RANGE_NOT_SATISFIABLE:
            raise DatasetError(f"the server answered {error.code} {error.reason}") from None
        complete = error.headers.get("Content-Range") == f"bytes */{have}"
        if not complete:
            part.unlink(missing_ok=True)
        return complete
    except urllib.error.URLError as error:
        raise DatasetError(f"no connection: {error.reason}") from None
    except (http.client.HTTPException, TimeoutError, ConnectionError):
        return False


def _store(answer: http.client.HTTPResponse, part: Path, *, have: int, limit: int, track: Track) -> bool:
    """Write the body of `answer` after the `have` bytes of `part`, or instead of them. True if it is complete."""
    if answer.status != http.client.PARTIAL_CONTENT:
        have = 0
    elif not answer.headers.get("Content-Range", "").startswith(f"bytes {have}-"):
        part.unlink(missing_ok=True)
        return False
    length = answer.headers.get("Content-Length", "")
    expected = int(length) if length.isdecimal() else None
    what = f"downloading {part.stem}" + (f", continued at {have / 1e6:.1f} MB" if have else "")
    chunks = iter(lambda: answer.read(CHUNK), b"") if have + (expected or 0) <= limit else ()
    arrived = 0
    with part.open("ab" if have else "wb") as sink:
        for chunk in track(chunks, what, None if expected is None else -(-expected // CHUNK)):
            arrived += sink.write(chunk)
            if have + arrived > limit:
                break
    if have + max(arrived, expected or 0) > limit:
        part.unlink()
        raise DatasetError(f"the file has more than {limit:,} bytes, the limit for a dataset")
    return expected is None or arrived == expected


def _answer(url: str, have: int, timeout: float) -> http.client.HTTPResponse:
    _refuse_unsafe(url)
    headers = {"User-Agent": "conjoin", "Accept-Encoding": "identity"}
    if have:
        headers["Range"] = f"bytes={have}-"
    opener = urllib.request.build_opener(_SafeRedirects())
    answer: http.client.HTTPResponse = opener.open(urllib.request.Request(url, headers=headers), timeout=timeout)
    return answer


class _SafeRedirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects to https, and redirects within this machine; no others."""

    def redirect_request(  # noqa: PLR0917
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        _refuse_unsafe(newurl, allow_loopback=req.type == "http")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _refuse_unsafe(url: str, *, allow_loopback: bool = True) -> None:
    parts = urlsplit(url)
    if parts.scheme == "https" or (allow_loopback and parts.scheme == "http" and parts.hostname in LOOPBACK):
        return
    raise DatasetError(f"{url} was not opened: downloads use https only")


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
