"""The server on real sockets, with clients that stop reading, disconnect or open many connections."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.server.served import exchange, listening, rest

from conjoin.runtime.progress import Track
from conjoin.server.open_runs import OpenRun, open_runs
from conjoin.server.routes import explain
from conjoin.server.settings import ServerSettings

PATIENCE = 15.0


@pytest.fixture(scope="module")
def run(lands: Path) -> Path:
    return lands


def request(path: str, *, method: str = "GET", close: bool = True) -> bytes:
    return f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n{'Connection: close' if close else 'X: y'}\r\n\r\n".encode()


def under_way(address: tuple[str, int]) -> float:
    """Requests that the service is answering, except this one."""
    [found] = re.findall(rb"^conjoin_requests_under_way (\S+)", exchange(address, request("/metrics")), re.MULTILINE)
    return float(found) - 1


def test_head_returns_the_headers_of_get_without_a_body(run: Path) -> None:
    with listening(run, ServerSettings()) as address:
        for path in ("/healthz", "/v1/runs", "/v1/ask?head=France&relation=borders", "/openapi.json", "/"):
            got, _, body = exchange(address, request(path)).partition(b"\r\n\r\n")
            told, _, nothing = exchange(address, request(path, method="HEAD")).partition(b"\r\n\r\n")
            assert told.startswith(b"HTTP/1.1 200"), path
            assert (nothing, len(body) > 0) == (b"", True)
            if "ask" not in path:  # which says how long it took
                assert re.findall(rb"content-length: \d+", got) == re.findall(rb"content-length: \d+", told)
        assert exchange(address, request("/v1/none", method="HEAD")).startswith(b"HTTP/1.1 404")


def test_client_that_stops_reading_is_cut_off(run: Path) -> None:
    with (
        listening(run, ServerSettings(sending_seconds=1.0, rate=1e6, burst=1e6)) as address,
        socket.create_connection(address, timeout=20) as connection,
    ):
        connection.sendall(1_000 * request("/openapi.json", close=False))
        stuck = time.monotonic() + PATIENCE
        while under_way(address) == 0 and time.monotonic() < stuck:
            time.sleep(0.05)
        while under_way(address) and time.monotonic() < stuck:
            time.sleep(0.1)
        assert under_way(address) == 0, "the service still holds an answer for a client that does not read"
        assert rest(connection).count(b"HTTP/1.1 200") < 1_000


@pytest.mark.slow
def test_server_raises_its_open_file_limit(run: Path, tmp_path: Path) -> None:
    few = 256
    command = [
        sys.executable,
        "-m",
        "conjoin",
        "serve",
        str(run),
        "--port",
        "0",
        "--json",
        "--connections-per-client",
        "0",
    ]
    limited = ["bash", "-c", f'ulimit -Sn {few}; exec "$@"', "serve", *command]
    log = tmp_path / "log.txt"
    with (
        log.open("w", encoding="utf-8") as told,
        subprocess.Popen(limited, stdout=subprocess.PIPE, stderr=told, text=True) as service,
    ):
        assert service.stdout is not None
        address = ("127.0.0.1", int(json.loads(service.stdout.readline())["url"].rpartition(":")[2]))
        crowd = [socket.create_connection(address, timeout=20) for _ in range(few + 50)]
        assert exchange(address, request("/healthz")).startswith(b"HTTP/1.1 200")
        for connection in crowd:
            connection.close()
        service.terminate()
        assert service.wait(60) == 0
    lines = log.read_text(encoding="utf-8").splitlines()
    events = [json.loads(line)["event"] for line in lines]
    assert [event for event in events if event != "files"] == ["request", "stopped"], "files: the hard limit is low"


def test_mining_stops_when_the_client_disconnects(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    began, ended = threading.Event(), threading.Event()

    def endless(*_: Any, track: Track, **__: Any) -> Iterator[Any]:
        began.set()
        for _step in track(iter(int, 1), "mine", None):
            time.sleep(0.01)
        ended.set()
        yield from ()

    monkeypatch.setattr(explain, "mine", endless)
    with listening(run, ServerSettings(seconds=4 * PATIENCE)) as address:
        with socket.create_connection(address, timeout=20) as connection:
            connection.sendall(request("/v1/mine"))
            assert began.wait(PATIENCE)
        assert ended.wait(PATIENCE), "mining continues after the client disconnected"


def test_once_continues_after_a_timeout_and_retries_after_a_failure(run: Path) -> None:
    begun: list[str] = []
    free = threading.Event()

    def slow(one: OpenRun) -> str:
        begun.append(one.name)
        free.wait(60)
        if len(begun) == 1:
            return "found"
        raise AssertionError("begun twice")

    async def wanted() -> str:
        opened = open_runs([run], settings=ServerSettings())
        one = opened[None]
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(opened.once(one, "what", slow), 0.05)
        free.set()
        found = await opened.once(one, "what", slow)
        with pytest.raises(AssertionError):
            await opened.once(one, "other", slow)
        with pytest.raises(AssertionError):
            await opened.once(one, "other", slow)
        await opened.close()
        return found

    with ThreadPoolExecutor(1) as apart:  # a browser test in this process may have a loop running here
        assert apart.submit(lambda: asyncio.run(wanted())).result() == "found"
    assert len(begun) == 3, "a failed computation must be repeated once per call"
