"""Listening: a socket, a server that ends politely, and connections that do not wait for ever."""

from __future__ import annotations

import asyncio
import logging
import resource
import signal
import socket
from collections.abc import Callable

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from conjoin.errors import UsageError
from conjoin.serve.http.limits import Settings
from conjoin.serve.http.replies import encoded, problem
from conjoin.serve.http.watch import Watch

LARGEST_HEAD = 64 << 10
"""Bytes of a request's first line and headers."""
IDLE_SECONDS = 30
LINGER_SECONDS = 0.5
CONNECTIONS = 1_000
BACKLOG = 256
"""Connections that are taken at once; as many are told that there are too many, any further ones are closed."""
FILES = CONNECTIONS + 2 * BACKLOG + 64
"""Open files: where there are fewer, asyncio fills the log with the connections that it cannot take."""
MALFORMED = encoded(problem("this is not well-formed HTTP", "send an HTTP/1.1 request with one Host and one length"))
CROWDED = encoded(problem("too many connections", "close those that are not needed, and try again"))


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


def serve(
    app: ASGIApp, listening: socket.socket, *, settings: Settings, watch: Watch, started: Callable[[], None]
) -> None:
    """Answer until SIGINT or SIGTERM; then finish what is under way, within the time that a request has."""
    server = make_server(app, settings=settings, watch=watch, started=started)
    _allow_files(watch)
    # uvicorn raises the signal again once it is done: by then there is nothing left to stop.
    kept = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        asyncio.run(server.serve(sockets=[listening]))
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)
    watch.log("stopped")


def make_server(app: ASGIApp, *, settings: Settings, watch: Watch, started: Callable[[], None]) -> uvicorn.Server:
    """uvicorn with our limits and our log."""
    logger = logging.getLogger("uvicorn")
    logger.handlers = [_Lines(watch)]
    logger.propagate = False
    config = uvicorn.Config(
        app,
        log_config=None,
        log_level="warning",
        access_log=False,
        backlog=BACKLOG,
        server_header=False,
        proxy_headers=False,
        lifespan="on",
        ws="none",
        http=_patient(settings.sending_seconds),
        h11_max_incomplete_event_size=LARGEST_HEAD,
        timeout_keep_alive=IDLE_SECONDS,
        timeout_graceful_shutdown=round(settings.seconds) + 5,
    )
    return _Server(config, started)


def _allow_files(watch: Watch) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < FILES:
        allowed = FILES if hard == resource.RLIM_INFINITY else min(FILES, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
        if allowed < FILES:
            watch.log("files", level="warning", message=f"{allowed} open files are few: allow {FILES} (ulimit -n)")


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, started: Callable[[], None]) -> None:
        super().__init__(config)
        self._says_started = started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._says_started()


def _patient(seconds: float) -> type[H11Protocol]:
    """HTTP whose connections end when a head does not come, or an answer is not read on, within so many seconds."""

    class Patient(H11Protocol):
        _waiting: asyncio.TimerHandle | None = None
        _reading: asyncio.TimerHandle | None = None
        _unread = 0
        _ending = False

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            if len(self.connections) > CONNECTIONS + BACKLOG:
                transport.abort()
            elif len(self.connections) > CONNECTIONS:
                self.logger.warning("too many connections")
                self._refuse(503, CROWDED, ("retry-after", "1"))
            else:
                self._watch_head()

        def data_received(self, data: bytes) -> None:
            if not self._ending:
                super().data_received(data)
                self._watch_head()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_watching()
            if self._reading is not None:
                self._reading.cancel()
            super().connection_lost(exc)

        def on_response_complete(self) -> None:
            super().on_response_complete()
            self._watch_head()

        def send_400_response(self, msg: str) -> None:
            del msg
            if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
                self._refuse(400, MALFORMED)
            else:
                self.transport.close()

        def _refuse(self, status: int, reason: bytes, *more: tuple[str, str]) -> None:
            headers = [("content-type", "application/json"), ("connection", "close"), *more]
            for event in (h11.Response(status_code=status, headers=headers), h11.Data(reason), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
            # Closed at once, what the client still sends would make the system throw the answer away.
            self._ending = True
            self.transport.write_eof()
            self.loop.call_later(LINGER_SECONDS, self.transport.close)

        def pause_writing(self) -> None:
            super().pause_writing()
            if self._reading is None:
                self._watch_reader()

        def resume_writing(self) -> None:
            super().resume_writing()
            self._unread = 0

        def _watch_reader(self) -> None:
            """Cut a connection whose answer is not read on: uvicorn would hold it, and what it has to send."""
            unread, self._reading = self.transport.get_write_buffer_size(), None
            if unread and unread == self._unread:
                self.transport.abort()
            elif unread:
                self._reading = self.loop.call_later(seconds, self._watch_reader)
            self._unread = unread

        def _watch_head(self) -> None:
            """The clock runs while part of a head is there, and from the start until the first head is."""
            expected = self.conn.their_state is h11.IDLE and (self.cycle is None or bool(self.conn.trailing_data[0]))
            if expected and self._waiting is None:
                self._waiting = self.loop.call_later(seconds, self.transport.close)
            elif not expected:
                self._stop_watching()

        def _stop_watching(self) -> None:
            if self._waiting is not None:
                self._waiting.cancel()
                self._waiting = None

    return Patient


class _Lines(logging.Handler):
    """What uvicorn says, as lines of our log."""

    def __init__(self, watch: Watch) -> None:
        super().__init__()
        self._watch = watch

    def emit(self, record: logging.LogRecord) -> None:
        self._watch.log("server", level=record.levelname.lower(), message=record.getMessage())
