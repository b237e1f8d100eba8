"""Helpers: a small run, a test client without a socket, and a real server with one."""

from __future__ import annotations

import asyncio
import io
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient
from starlette.types import ASGIApp
from tests.cli.commands import TINY, conjoin, little_graph

from conjoin.server.app import create_app
from conjoin.server.metrics import Metrics
from conjoin.server.open_runs import OpenRuns, open_runs
from conjoin.server.settings import ServerSettings
from conjoin.server.uvicorn_server import bind, make_server

HERE = "http://127.0.0.1:8311"


def little_run(folder: Path) -> Path:
    """A finished run on a ring of countries, with ids as names and words as labels."""
    run = folder / "lands"
    ran = conjoin("train", little_graph(folder / "graph"), *TINY, "-o", run, "--json")
    assert ran.code == 0, ran.err
    return run


@contextmanager
def talking(
    *runs: Path, settings: ServerSettings | None = None, log: io.StringIO | None = None, opened: OpenRuns | None = None
) -> Iterator[TestClient]:
    """A client of a started service."""
    chosen = settings or ServerSettings(rate=1e6, burst=1e6)
    opened = opened or open_runs(runs, settings=chosen)
    app = create_app(opened, chosen, metrics=Metrics(log or io.StringIO()))
    with TestClient(app, base_url=HERE) as client:
        yield client


def error_of(answer: Any) -> tuple[str, str]:
    """The reason and the hint of an error answer, after checking its shape."""
    body = answer.json()
    assert list(body) == ["error"], body
    assert set(body["error"]) == {"reason", "hint"}
    assert "Traceback" not in answer.text
    assert body["error"]["reason"]
    return body["error"]["reason"], body["error"]["hint"]


@contextmanager
def listening(
    run: Path, settings: ServerSettings, *, opened: OpenRuns | None = None, metrics: Metrics | None = None
) -> Iterator[tuple[str, int]]:
    """A real server on a socket, in a thread."""
    seen = metrics or Metrics(io.StringIO())
    app = create_app(opened or open_runs([run], settings=settings), settings, metrics=seen)
    with serving(app, settings, seen) as address:
        yield address


@contextmanager
def serving(app: ASGIApp, settings: ServerSettings, metrics: Metrics | None = None) -> Iterator[tuple[str, int]]:
    """Any ASGI application on a socket, in a thread."""
    ready = threading.Event()
    seen = metrics or Metrics(io.StringIO())
    with bind("127.0.0.1", 0) as place:
        server = make_server(app, settings=settings, metrics=seen, started=ready.set)
        thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[place])))
        thread.start()
        assert ready.wait(20)
        try:
            yield place.getsockname()[:2]
        finally:
            server.should_exit = True
            thread.join(60)
            assert not thread.is_alive()


def exchange(address: tuple[str, int], request: bytes) -> bytes:
    """Send bytes, and read until the service closes the connection."""
    with socket.create_connection(address, timeout=20) as connection:
        connection.sendall(request)
        return rest(connection)


def rest(connection: socket.socket) -> bytes:
    """Everything until the service closes the connection or resets it."""
    answer = b""
    with suppress(ConnectionError):
        while part := connection.recv(65536):
            answer += part
    return answer
