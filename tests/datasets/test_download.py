from __future__ import annotations

import gzip
import hashlib
import http.server
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conjoin.datasets import download as module
from conjoin.datasets.download import CHUNK, Checksum, Mismatch, download
from conjoin.errors import DatasetError

T = TypeVar("T")
CONTENT = bytes(range(256)) * 1200
SUM = Checksum("sha256", hashlib.sha256(CONTENT.replace(b"\r\n", b"\n")).hexdigest())


@dataclass
class Server:
    """What a real HTTP server on this machine serves, and what it was asked."""

    address: str = ""
    content: bytes = CONTENT
    cut_after: int | None = None
    ranges: bool = True
    length: bool = True
    status: int = 200
    location: str = ""
    stall: float = 0.0
    asked: list[str] = field(default_factory=list)
    agents: list[str] = field(default_factory=list)
    sent: list[int] = field(default_factory=list)


class Handler(http.server.BaseHTTPRequestHandler):
    state: Server

    def do_GET(self) -> None:
        state = self.state
        wanted = self.headers.get("Range", "")
        state.asked.append(wanted)
        state.agents.append(self.headers.get("User-Agent", ""))
        if state.status != 200:
            self.send_response(state.status)
            if state.location:
                self.send_header("Location", state.location)
            self.end_headers()
            return
        start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and state.ranges else 0
        if start and start >= len(state.content):
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{len(state.content)}")
            self.end_headers()
            return
        body = state.content[start:]
        self.send_response(206 if start else 200)
        if state.length:
            self.send_header("Content-Length", str(len(body)))
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(state.content) - 1}/{len(state.content)}")
        self.end_headers()
        body = body[: state.cut_after]
        state.sent.append(len(body))
        if state.stall:
            self.wfile.write(body[: len(body) // 2])
            self.wfile.flush()
            time.sleep(state.stall)
            body = body[len(body) // 2 :]
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


class QuietServer(http.server.ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """A client that hangs up is part of the tests."""


@pytest.fixture
def server() -> Iterator[Server]:
    state = Server()
    handler = type("BoundHandler", (Handler,), {"state": state})
    with QuietServer(("127.0.0.1", 0), handler) as running:
        state.address = f"http://127.0.0.1:{running.server_port}/train.txt"
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        yield state
        running.shutdown()
        thread.join()


def test_a_file_arrives_whole_and_alone(server: Server, tmp_path: Path) -> None:
    download(server.address, tmp_path / "new" / "train.txt", checksum=SUM)
    assert (tmp_path / "new" / "train.txt").read_bytes() == CONTENT
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["train.txt"]
    assert server.agents == ["conjoin"]
    assert server.asked == [""]


def test_progress_counts_the_chunks_that_are_left(server: Server, tmp_path: Path) -> None:
    seen: list[tuple[str, int | None, int]] = []

    def watch(steps: Iterable[T], what: str, total: int | None) -> Iterator[T]:
        count = 0
        for step in steps:
            count += 1
            yield step
        seen.append((what, total, count))

    (tmp_path / "train.txt.part").write_bytes(CONTENT[: 3 * CHUNK])
    download(server.address, tmp_path / "train.txt", checksum=SUM, track=watch)
    left = -(-(len(CONTENT) - 3 * CHUNK) // CHUNK)
    assert seen == [("downloading train.txt, continued at 0.2 MB", left, left)]


def test_partial_download_is_continued(server: Server, tmp_path: Path) -> None:
    (tmp_path / "train.txt.part").write_bytes(CONTENT[:100_000])
    download(server.address, tmp_path / "train.txt", checksum=SUM)
    assert server.asked == ["bytes=100000-"]
    assert server.sent == [len(CONTENT) - 100_000]
    assert (tmp_path / "train.txt").read_bytes() == CONTENT


def test_a_truncated_transfer_is_continued_at_once(server: Server, tmp_path: Path) -> None:
    server.cut_after = 150_000
    download(server.address, tmp_path / "train.txt", checksum=SUM)
    assert server.asked == ["", "bytes=150000-", "bytes=300000-"]
    assert (tmp_path / "train.txt").read_bytes() == CONTENT


def test_a_transfer_that_keeps_stopping_leaves_the_part_for_later(server: Server, tmp_path: Path) -> None:
    server.cut_after = 20_000
    with pytest.raises(DatasetError, match="60,000 bytes"):
        download(server.address, tmp_path / "train.txt", checksum=SUM)
    assert [path.name for path in tmp_path.iterdir()] == ["train.txt.part"]
    server.cut_after = None
    download(server.address, tmp_path / "train.txt", checksum=SUM)
    assert server.asked[-1] == "bytes=60000-"
    assert [path.name for path in tmp_path.iterdir()] == ["train.txt"]


def test_a_stalled_transfer_runs_into_the_timeout(server: Server, tmp_path: Path) -> None:
    server.stall = 1.0
    with pytest.raises(DatasetError, match="stopped after"):
        download(server.address, tmp_path / "train.txt", checksum=SUM, timeout=0.1)
    assert (tmp_path / "train.txt.part").exists()


def test_wrong_content_is_an_error_and_leaves_nothing(server: Server, tmp_path: Path) -> None:
    server.content = b"<html>please log in</html>"
    with pytest.raises(Mismatch, match=r"26 .*train\.txt"):
        download(server.address, tmp_path / "train.txt", checksum=SUM)
    assert list(tmp_path.iterdir()) == []


def test_a_part_of_another_file_is_thrown_away_and_fetched_anew(server: Server, tmp_path: Path) -> None:
    (tmp_path / "train.txt.part").write_bytes(b"not the beginning")
    download(server.address, tmp_path / "train.txt", checksum=SUM)
    assert server.asked == ["bytes=17-", ""]
    assert (tmp_path / "train.txt").read_bytes() == CONTENT


def test_a_part_that_is_already_complete_is_only_verified(server: Server, tmp_path: Path) -> None:
    (tmp_path / "train.txt.part").write_bytes(CONTENT)
    download(server.address, tmp_path / "train.txt", checksum=SUM)
    assert server.sent == []
    assert (tmp_path / "train.txt").read_bytes() == CONTENT


def test_partial_file_longer_than_the_download_is_deleted(server: Server, tmp_path: Path) -> None:
    (tmp_path / "train.txt.part").write_bytes(CONTENT + b"more")
    download(server.address, tmp_path / "train.txt", checksum=SUM)
    assert (tmp_path / "train.txt").read_bytes() == CONTENT


@pytest.mark.parametrize("length", [True, False])
def test_a_server_without_ranges_sends_the_file_again(server: Server, tmp_path: Path, *, length: bool) -> None:
    server.ranges, server.length = False, length
    (tmp_path / "train.txt.part").write_bytes(CONTENT[:1000])
    download(server.address, tmp_path / "train.txt", checksum=SUM)
    assert (tmp_path / "train.txt").read_bytes() == CONTENT


@pytest.mark.parametrize("status", [403, 404, 500])
def test_http_errors_of_the_server_raise_dataset_error(server: Server, tmp_path: Path, status: int) -> None:
    server.status = status
    with pytest.raises(DatasetError, match=str(status)):
        download(server.address, tmp_path / "train.txt", checksum=SUM)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("place", ["http://example.org/train.txt", "ftp://127.0.0.1/train.txt"])
def test_redirects_to_what_is_not_https_are_refused(server: Server, tmp_path: Path, place: str) -> None:
    server.status, server.location = 302, place
    with pytest.raises(DatasetError, match="https"):
        download(server.address, tmp_path / "train.txt", checksum=SUM)
    assert list(tmp_path.iterdir()) == []


def test_redirects_to_files_are_refused(server: Server, tmp_path: Path) -> None:
    server.status, server.location = 302, "file:///etc/passwd"
    with pytest.raises(DatasetError, match="not allowed"):
        download(server.address, tmp_path / "train.txt", checksum=SUM)


def test_redirects_from_https_to_localhost_are_refused() -> None:
    asked = urllib.request.Request("https://example.org/train.txt")
    with pytest.raises(DatasetError, match="https"):
        module._SafeRedirects().redirect_request(asked, None, 302, "", {}, "http://127.0.0.1/x")  # type: ignore[arg-type]


@pytest.mark.parametrize("url", ["http://example.org/x", "ftp://example.org/x", "file:///etc/passwd", "x"])
def test_only_https_is_used(url: str, tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="https"):
        download(url, tmp_path / "x")


def test_refused_connection_fails_without_retry(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(DatasetError, match="no connection"):
            download(f"http://127.0.0.1:{taken.getsockname()[1]}/x", tmp_path / "x")


@pytest.mark.parametrize("length", [True, False])
def test_more_than_the_limit_is_refused(server: Server, tmp_path: Path, *, length: bool) -> None:
    server.length = length
    with pytest.raises(DatasetError, match="1,000 bytes"):
        download(server.address, tmp_path / "train.txt", limit=1000)
    assert list(tmp_path.iterdir()) == []


def test_a_part_that_would_grow_over_the_limit_is_refused(server: Server, tmp_path: Path) -> None:
    (tmp_path / "train.txt.part").write_bytes(CONTENT[:1000])
    with pytest.raises(DatasetError, match="more than"):
        download(server.address, tmp_path / "train.txt", limit=len(CONTENT) - 1)
    assert list(tmp_path.iterdir()) == []


def test_a_killed_process_leaves_only_the_part(server: Server, tmp_path: Path) -> None:
    server.stall = 30.0
    code = (
        "from pathlib import Path; from conjoin.datasets.download import download;"
        f"download({server.address!r}, Path({str(tmp_path / 'train.txt')!r}))"
    )
    process = subprocess.Popen([sys.executable, "-c", code])
    try:
        _wait(lambda: (tmp_path / "train.txt.part").exists() and (tmp_path / "train.txt.part").stat().st_size > 0)
    finally:
        process.kill()
        process.wait()
    assert [path.name for path in tmp_path.iterdir()] == ["train.txt.part"]
    server.stall = 0.0
    download(server.address, tmp_path / "train.txt", checksum=SUM)
    assert (tmp_path / "train.txt").read_bytes() == CONTENT


def _wait(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_checksum_of_hello_is_the_well_known_one(tmp_path: Path) -> None:
    plain, zipped, windows = tmp_path / "a.txt", tmp_path / "a.txt.gz", tmp_path / "w.txt"
    plain.write_bytes(b"hello\n")
    zipped.write_bytes(gzip.compress(b"hello\n"))
    windows.write_bytes(b"hello\r\n")
    sha256 = Checksum.parse("sha256:5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03")
    git = Checksum.parse("git:ce013625030ba8dba906f756967f9e9ca394464a")
    for path in (plain, zipped, windows):
        assert sha256.fits(path)
        assert git.fits(path)
    plain.write_bytes(b"hello")
    assert not sha256.fits(plain)
    assert not git.fits(plain)


@given(lines=st.lists(st.binary(max_size=40)), chunk=st.integers(1, 9))
def test_line_ends_never_change_a_checksum(
    lines: list[bytes], chunk: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("ends") / "file"
    content = b"\n".join(line.replace(b"\r", b"").replace(b"\n", b"") for line in lines)
    path.write_bytes(b"." + content.replace(b"\n", b"\r\n"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "CHUNK", chunk)
        assert Checksum("sha256", hashlib.sha256(b"." + content).hexdigest()).fits(path)


def test_a_lone_carriage_return_counts(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"a\rb\r")
    assert Checksum("sha256", hashlib.sha256(b"a\rb\r").hexdigest()).fits(tmp_path / "a")


def test_damaged_gzip_is_a_mismatch(tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"hello\n" * 1000)[:-12])
    with pytest.raises(Mismatch, match="damaged"):
        SUM.fits(tmp_path / "a.gz")


@pytest.mark.parametrize("text", ["sha256:12", "md5:" + "0" * 32, "0" * 64, "git:" + "G" * 40])
def test_invalid_checksums_are_refused(text: str) -> None:
    with pytest.raises(DatasetError, match=text):
        Checksum.parse(text)
