"""Listening: a socket, a server that ends politely, and a log that holds up nobody."""

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
"""Connections that the system takes before the service looks at them, and that asyncio accepts at once."""
OTHER_FILES = 64
"""Open files of the service beside its connections."""
FEWEST_CONNECTIONS = 16
FLUSH_SECONDS = 2.0
"""How long the end of the service waits for someone to read its last lines."""
SWITCH_SECONDS = 0.001
"""How long a thread that computes may keep the interpreter from the thread that answers; Python's default is 5 ms."""


def bind(host: str, port: int) -> socket.socket:
    """A socket at that address, before anything slow begins."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family, backlog=BACKLOG)
    except (OSError, UnicodeError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"cannot listen on {host} port {port} ({reason}): choose another with --port") from error


def url_of(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def run_server(
    app: ASGIApp, listening: socket.socket, *, settings: ServerSettings, watch: Metrics, started: Callable[[], None]
) -> None:
    """Answer until SIGINT or SIGTERM; then finish what is under way, within the time that a request has."""

    def ready() -> None:
        gc.collect()
        gc.freeze()  # graphs and libraries stay: looking through them again and again would hold up all threads
        started()

    with _unblocked(watch):
        allowed = _connections_allowed(settings.connections, watch)
        server = make_server(app, settings=replace(settings, connections=allowed), watch=watch, started=ready)
        # uvicorn raises the signal again once it is done: by then there is nothing left to stop.
        kept = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGINT, signal.SIGTERM)}
        switch = sys.getswitchinterval()
        sys.setswitchinterval(SWITCH_SECONDS)
        try:
            asyncio.run(server.serve(sockets=[listening]))
        finally:
            sys.setswitchinterval(switch)
            gc.unfreeze()
            for number, handler in kept.items():
                signal.signal(number, handler)
        watch.log("stopped")


def make_server(
    app: ASGIApp, *, settings: ServerSettings, watch: Metrics, started: Callable[[], None]
) -> uvicorn.Server:
    """uvicorn with our limits and our log."""
    logger = logging.getLogger("uvicorn")
    logger.handlers = [_Lines(watch)]
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
            watch=watch,
        ),
        h11_max_incomplete_event_size=LARGEST_HEAD,
        timeout_keep_alive=math.ceil(settings.idle_seconds) + 1,  # the protocol's own timer comes first
        timeout_graceful_shutdown=round(settings.seconds) + 5,
    )
    return _Server(config, started)


def _connections_allowed(wanted: int, watch: Metrics) -> int:
    """Raise the limit on open files as far as possible. How many connections it allows, at most as many as wanted.

    Without files asyncio cannot accept: then those who are there already lock out all others.
    """
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return wanted
    beside = RESERVE + BACKLOG + OTHER_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + beside
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return wanted
    allowed = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    if allowed == needed:
        return wanted
    connections = max(allowed - beside, FEWEST_CONNECTIONS)
    message = f"{allowed} open files allow {connections} connections; allow {needed} files (ulimit -n) for {wanted}"
    watch.log("files", level="warning", message=message)
    return connections


@contextmanager
def _unblocked(watch: Metrics) -> Iterator[None]:
    """Let everything that this process writes go through queues: a pipe that nobody reads stops nothing.

    Libraries write to the streams too: warnings, exceptions in threads, asyncio's own log.
    """
    kept = sys.stdout, sys.stderr
    writers: list[LogWriter] = []

    def through(stream: TextIO, **options: Any) -> Any:
        try:
            stream.flush()
            writers.append(LogWriter(stream.fileno(), **options))
        except (AttributeError, OSError, ValueError):  # not a file of the system, or none at all
            return stream
        return writers[-1]

    sys.stdout = through(sys.stdout)
    sys.stderr = through(sys.stderr, lost=watch.lost_lines.inc, notice=watch.notice_of_loss)
    logging.captureWarnings(True)
    lines = _Lines(watch)
    logging.getLogger().addHandler(lines)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(lines)
        logging.captureWarnings(False)
        sys.stdout, sys.stderr = kept
        until = time.monotonic() + FLUSH_SECONDS
        for writer in writers:
            writer.close(max(until - time.monotonic(), 0.0))


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, started: Callable[[], None]) -> None:
        super().__init__(config)
        self._says_started = started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._says_started()


class _Lines(logging.Handler):
    """What libraries log, as lines of our log."""

    def __init__(self, watch: Metrics) -> None:
        super().__init__(logging.WARNING)
        self._watch = watch

    def emit(self, record: logging.LogRecord) -> None:
        trace = {"trace": logging.Formatter().formatException(record.exc_info)} if record.exc_info else {}
        self._watch.log("server", level=record.levelname.lower(), message=record.getMessage(), **trace)
