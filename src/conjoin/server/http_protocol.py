"""HTTP/1.1 on one connection, with a timer in every phase that bytes from the client do not restart."""

from __future__ import annotations

import asyncio
import re
import socket
from contextlib import suppress
from typing import Any, cast

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from conjoin.server.client_address import Clients
from conjoin.server.connections import HEALTH_ONLY, Admission, Connections, Phase
from conjoin.server.metrics import Metrics
from conjoin.server.responses import encoded, problem
from conjoin.server.settings import HEADERS, ServerSettings

LARGEST_HEAD = 64 << 10
"""Largest request line plus headers, in bytes."""
CHUNKS = 4_096
"""Most chunks of a chunked body. Parsing many short chunks would block all other connections."""
READ = 16 << 10
"""Most bytes that are read and parsed at a time."""
LINGER_SECONDS = 1.0
"""How long a closing connection stays open while the client still sends; otherwise it might lose the answer."""
GRACE_SECONDS = 1.0
"""The application answers a slow body with 408. If it fails to, the connection is cut after this extra time."""
RESERVE_SECONDS = 5.0
"""Time to send the head of a request on a connection that may only request health."""
SLOWEST = 32 << 10
"""Lowest rate, in bytes a second, at which a client must read its answer."""
MALFORMED = encoded(problem("The request is not valid HTTP.", "Send an HTTP/1.1 request with one Host and one length."))
LONG_HEAD = encoded(problem(f"The request has more than {HEADERS} header lines.", "Send fewer headers."))
END_OF_HEAD = re.compile(rb"\n\r?\n")


class _Transport:
    """Wraps the transport of a connection: `close` lets the client read the answer first, and writes are counted."""

    def __init__(self, real: asyncio.Transport, owner: TimedProtocol) -> None:
        self._real, self._owner = real, owner
        self.written = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def write(self, data: bytes) -> None:
        if data:
            self.written += len(data)
            self._real.write(data)

    def close(self) -> None:
        self._owner.close_gently()

    def is_closing(self) -> bool:
        return self._owner.closing or self._real.is_closing()


class _Parser(h11.Connection):
    """h11 with a limit on the number of chunks of a body."""

    def __init__(self) -> None:
        super().__init__(h11.SERVER, LARGEST_HEAD)
        self._chunks = 0

    def next_event(self) -> Any:
        event = super().next_event()
        if isinstance(event, h11.Data):
            self._chunks += 1
            if self._chunks > CHUNKS:
                raise h11.RemoteProtocolError("too many chunks")
        elif isinstance(event, h11.Request):
            self._chunks = 0
        return event


class TimedProtocol(H11Protocol):
    """uvicorn's protocol with a timer in every phase and limits on all connections.

    The timer starts when a phase begins. The phases wait for the head of a request, its body, the answer, the client
    to read the answer, the next request, and the end of the connection.
    """

    settings: ServerSettings
    clients: Clients
    all: Connections
    metrics: Metrics

    phase = Phase.HEAD
    since = 0.0
    closing = False
    _client_name = ""
    _timer: asyncio.TimerHandle | None = None
    _timed: tuple[Phase, Any] | None = None
    _head_seconds = 0.0
    _reader: asyncio.TimerHandle | None = None
    _read_before = 0
    _written_before = 0

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.conn = _Parser()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._real = transport
        with suppress(AttributeError):  # asyncio's own transports read 256 KiB at once
            transport.max_size = READ  # type: ignore[attr-defined]
        with suppress(AttributeError, OSError):  # asyncio does this only for sockets that name their protocol
            # Head and body of an answer are two writes. Without this option the second one waits 40 ms for an ACK.
            transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._bytes = _Transport(transport, self)
        super().connection_made(cast(asyncio.Transport, self._bytes))
        self._head_seconds = self.settings.sending_seconds
        peer = self.client[0] if self.client else ""
        self._client_name = self.clients.of_peer(peer)
        self.since = self.loop.time()
        admitted = self.all.admit(self, self._client_name, limited=not self.clients.is_proxy(peer))
        self.metrics.connected(len(self.all))
        if admitted is not Admission.SERVED:
            self.metrics.crowded(admitted.value)
        if admitted is Admission.REFUSED:
            transport.abort()
            return
        if admitted is Admission.HEALTH_ONLY:
            self.app_state = {**self.app_state, HEALTH_ONLY: True}
            self._head_seconds = min(RESERVE_SECONDS, self._head_seconds)
        self._update()

    def connection_lost(self, exc: Exception | None) -> None:
        self.closing = True
        for timer in (self._timer, self._reader):
            if timer is not None:
                timer.cancel()
        self.all.leave(self, self._client_name)
        self.metrics.connected(len(self.all))
        super().connection_lost(exc)
        self._unset_keepalive_if_required()

    def data_received(self, data: bytes) -> None:
        if self.closing:  # discard the data: the client then sees the answer instead of a reset connection
            return
        if self.conn.their_state is h11.IDLE and self._is_long(self.conn.trailing_data[0] + data):
            self._refuse(431, LONG_HEAD)
            return
        super().data_received(data)
        self._update()

    def eof_received(self) -> None:
        """The transport closes itself once this returns and its buffer is empty."""
        self.closing = True
        self._update()

    def on_response_complete(self) -> None:
        if self.conn.their_state is h11.SEND_BODY:  # answered before the body arrived: no request may follow
            self.close_gently()
        super().on_response_complete()
        self._update()

    def shutdown(self) -> None:
        if not self.closing:
            super().shutdown()

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._reader is None:
            self._watch_reader(first=True)

    def _watch_reader(self, *, first: bool = False) -> None:
        """Cut off a client that reads its answer slower than SLOWEST. Runs while written bytes wait for the client."""
        seconds = self.settings.sending_seconds
        read, self._reader = self._read_by_client(), None
        if not first and self._unread() and read - self._read_before < SLOWEST * seconds:
            self._cut()
        elif self._unread():
            self._read_before = read
            self._reader = self.loop.call_later(seconds, self._watch_reader)

    def make_room(self) -> None:
        self.metrics.evicted(self.phase.name.lower())
        self._abort()

    def close_gently(self) -> None:
        """Close the connection after sending all written data; discard everything that still arrives."""
        if self.closing:
            return
        # A body or another request may be on its way. Closing a socket that holds unread bytes resets the connection,
        # and the client loses the answer.
        awaited = self.conn.their_state is h11.SEND_BODY or bool(self.conn.trailing_data[0])
        self.closing = True
        if awaited and not self._real.is_closing():
            self._real.write_eof()
            self._real.resume_reading()
        else:
            self._real.close()
        self._update()

    def send_400_response(self, msg: str) -> None:
        del msg
        self._refuse(400, MALFORMED)

    def _unsupported_upgrade_warning(self) -> None:
        """Log nothing: upgrades are answered as plain requests, and a client could fill the log with these warnings."""

    def _refuse(self, status: int, reason: bytes) -> None:
        """Send an error without the application if no answer has begun, and close the connection."""
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            self._abort()
            return
        headers = [("content-type", "application/json"), ("content-length", str(len(reason))), ("connection", "close")]
        for event in (h11.Response(status_code=status, headers=headers), h11.Data(reason), h11.EndOfMessage()):
            self._bytes.write(self.conn.send(event) or b"")
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.closing = True
        self._real.write_eof()
        self._update()

    def _is_long(self, head: bytes) -> bool:
        end = END_OF_HEAD.search(head)
        return head.count(b"\n", 0, end.start() if end else len(head)) > HEADERS

    def _update(self) -> None:
        """Start the timer of the current phase, unless it already runs."""
        phase = self._current()
        if self._timed is not None and self._timed[0] is phase and self._timed[1] is self.cycle:
            return
        self._timed = (phase, self.cycle)
        self.phase, self.since = phase, self.loop.time()
        limits = self.settings
        self._start(
            {
                Phase.HEAD: self._head_seconds,
                Phase.IDLE: limits.idle_seconds,
                Phase.BODY: limits.sending_seconds + GRACE_SECONDS,
                Phase.ANSWER: limits.seconds + limits.sending_seconds + GRACE_SECONDS,
                Phase.CLOSING: LINGER_SECONDS,
            }[phase]
        )
        if phase is Phase.CLOSING and self._reader is None:
            self._watch_reader(first=True)

    def _current(self) -> Phase:
        if self.closing or self._real.is_closing():
            return Phase.CLOSING
        if self.conn.their_state is h11.SEND_BODY:
            return Phase.BODY
        if self.cycle is not None and not self.cycle.response_complete:
            return Phase.ANSWER
        return Phase.HEAD if self.cycle is None or self.conn.trailing_data[0] else Phase.IDLE

    def _start(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._written_before = self._bytes.written
        self._timer = self.loop.call_later(seconds, self._on_timeout)

    def _unread(self) -> int:
        """Written bytes that the operating system has not accepted yet, because the client does not read."""
        return self._real.get_write_buffer_size()

    def _read_by_client(self) -> int:
        return self._bytes.written - self._unread()

    def _on_timeout(self) -> None:
        # Wait longer if the application is still writing, or if `_watch_reader` already checks the client's speed.
        in_progress = self._reader is not None or self._bytes.written > self._written_before
        if in_progress and self.phase in (Phase.ANSWER, Phase.CLOSING):
            self._start(self.settings.sending_seconds)
        elif self.phase in (Phase.HEAD, Phase.IDLE) and not self._unread():
            self.metrics.timed_out(self.phase.name.lower())
            self.close_gently()
        else:
            self._cut()

    def _cut(self) -> None:
        if self.phase is not Phase.CLOSING or self._unread():
            self.metrics.timed_out(self.phase.name.lower())
        self._abort()

    def _abort(self) -> None:
        self.closing = True
        self._real.abort()


def timed_protocol(
    *, settings: ServerSettings, clients: Clients, connections: Connections, metrics: Metrics
) -> type[TimedProtocol]:
    """A protocol class for one service, whose connections share their limits."""
    names = {"settings": settings, "clients": clients, "all": connections, "metrics": metrics}
    return cast(type[TimedProtocol], type("ServiceProtocol", (TimedProtocol,), names))
