"""Run the application with uvicorn: socket, graceful shutdown, open-file limit, and a log that never blocks."""

from __future__ import annotations

import asyncio
import gc
import logging
import math
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TextIO

import uvicorn
from starlette.types import ASGIApp

from conjoin.errors import UsageError
from conjoin.server.client_address import Clients
from conjoin.server.connections import RESERVE, Connections
from conjoin.server.http_protocol import LARGEST_HEAD, timed_protocol
from conjoin.server.log_writer import LogWriter
from conjoin.server.metrics import Metrics
from conjoin.server.settings import ServerSettings

BACKLOG = 256
"""Connections that the operating system queues, and that asyncio accepts at once."""
OTHER_FILES = 64
"""Open files that the service needs in addition to its connections."""
FEWEST_CONNECTIONS = 16
FLUSH_SECONDS = 2.0
"""How long the shutdown waits until the last log lines are read."""
SWITCH_SECONDS = 0.001
"""Python's thread switch interval: shorter than the default of 5 ms, so that scoring delays other requests less."""


def bind(host: str, port: int) -> socket.socket:
    """A listening socket at this address. Call it before slow work, so that errors show at once."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family, backlog=BACKLOG)
    except (OSError, UnicodeError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"Cannot listen on {host} port {port} ({reason}). Choose another --host or --port.") from error


def url_of(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def run_server(
    app: ASGIApp, listening: socket.socket, *, settings: ServerSettings, metrics: Metrics, started: Callable[[], None]
) -> None:
    """Serve until SIGINT or SIGTERM, then finish running requests within their time limit."""

    def ready() -> None:
        gc.collect()
        gc.freeze()  # exempt graphs and libraries: scanning them again would block all threads
        started()

    with _unblocked(metrics):
        allowed = _connections_allowed(settings.connections, metrics)
        server = make_server(app, settings=replace(settings, connections=allowed), metrics=metrics, started=ready)
        # uvicorn raises the signal again after its shutdown; ignore it then.
        previous = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGINT, signal.SIGTERM)}
        switch = sys.getswitchinterval()
        sys.setswitchinterval(SWITCH_SECONDS)
        try:
            asyncio.run(server.serve(sockets=[listening]))
        finally:
            sys.setswitchinterval(switch)
            gc.unfreeze()
            for number, handler in previous.items():
                signal.signal(number, handler)
        metrics.log("stopped")


def make_server(
    app: ASGIApp, *, settings: ServerSettings, metrics: Metrics, started: Callable[[], None]
) -> uvicorn.Server:
    """A uvicorn server with the limits and the log of this service."""
    logger = logging.getLogger("uvicorn")
    logger.handlers = [_LogHandler(metrics)]
    logger.propagate = False
    config = uvicorn.Config(
        app,
        loop="asyncio",
        log_config=None,
        log_level="warning",
        access_log=False,
        backlog=BACKLOG,
        server_header=False,
        proxy_headers=False,
        lifespan="on",
        ws="none",
        http=timed_protocol(
            settings=settings,
            clients=Clients(settings.proxies),
            connections=Connections(settings.connections, settings.connections_per_client),
            metrics=metrics,
        ),
        h11_max_incomplete_event_size=LARGEST_HEAD,
        timeout_keep_alive=math.ceil(settings.idle_seconds) + 1,  # our own idle timer fires first
        timeout_graceful_shutdown=round(settings.seconds) + 5,
    )
    return _Server(config, started)


def _connections_allowed(requested: int, metrics: Metrics) -> int:
    """Raise the limit on open files; return how many connections it allows, at most `requested`.

    Without free file descriptors asyncio cannot accept: the open connections would lock out all others.
    """
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return requested
    other_files = RESERVE + BACKLOG + OTHER_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = requested + other_files
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return requested
    allowed = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    if allowed == needed:
        return requested
    connections = max(allowed - other_files, FEWEST_CONNECTIONS)
    message = (
        f"The limit of {allowed} open files allows only {connections} of {requested} connections. "
        f"Raise it with `ulimit -n {needed}`."
    )
    metrics.log("files", level="warning", message=message)
    return connections


@contextmanager
def _unblocked(metrics: Metrics) -> Iterator[None]:
    """Send stdout and stderr through queues, so that a pipe that is not read never blocks the service.

    Libraries write to these streams too: warnings, exceptions in threads, asyncio's log.
    """
    previous = sys.stdout, sys.stderr
    writers: list[LogWriter] = []

    def queued(stream: TextIO, **options: Any) -> Any:
        try:
            stream.flush()
            writers.append(LogWriter(stream.fileno(), **options))
        except (AttributeError, OSError, ValueError):  # the stream has no file descriptor
            return stream
        return writers[-1]

    sys.stdout = queued(sys.stdout)
    sys.stderr = queued(sys.stderr, lost=metrics.lost_lines.inc, notice=metrics.notice_of_loss)
    logging.captureWarnings(True)
    lines = _LogHandler(metrics)
    logging.getLogger().addHandler(lines)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(lines)
        logging.captureWarnings(False)
        sys.stdout, sys.stderr = previous
        until = time.monotonic() + FLUSH_SECONDS
        for writer in writers:
            writer.close(max(until - time.monotonic(), 0.0))


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, started: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_started = started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._on_started()


class _LogHandler(logging.Handler):
    """Writes the log records of libraries to the log of the service."""

    def __init__(self, metrics: Metrics) -> None:
        super().__init__(logging.WARNING)
        self._metrics = metrics

    def emit(self, record: logging.LogRecord) -> None:
        trace = {"trace": logging.Formatter().formatException(record.exc_info)} if record.exc_info else {}
        self._metrics.log("server", level=record.levelname.lower(), message=record.getMessage(), **trace)
