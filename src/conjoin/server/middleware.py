"""The outermost ASGI layer: access checks, limits on size, rate and time, and one log line per request."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from conjoin.server.access import AccessPolicy
from conjoin.server.client_address import Clients
from conjoin.server.concurrency_limit import ConcurrencyLimit
from conjoin.server.connections import HEALTH_ONLY
from conjoin.server.metrics import Metrics
from conjoin.server.rate_limit import RateLimiter
from conjoin.server.responses import ApiError
from conjoin.server.settings import HEADERS, ServerSettings

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self' 'unsafe-inline'",
        "img-src 'self' data: blob:",
        "font-src 'self'",
        "connect-src 'self'",
        "worker-src 'self' blob:",
        "manifest-src 'self'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
    )
)
SECURITY = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
PREFLIGHT = {
    "Access-Control-Allow-Methods": "GET, POST",
    "Access-Control-Allow-Headers": "Authorization, Content-Type",
    "Access-Control-Max-Age": "600",
}
HEALTH = ("/healthz", "/readyz")
"""Exempt from all limits and from the token: these answers are cheap and contain no data."""
RETRY = {"Retry-After": "1"}
LARGE = ("/v1/map", "/v1/relations", "/v1/study")
"""Paths whose answers may be megabytes."""
LARGE_BY_POST = ("/v1/ask", "/v1/score")
"""Paths whose answers may be megabytes if the request has a large body."""
SMALL_BODY = 1024
"""A body of at most this many bytes cannot request a large answer."""
BODIES = ("POST",)
"""Methods that may have a body. The application decides which of its paths accept one."""


class RequestGuard:
    """Wraps the application and refuses bad requests before they reach it.

    `takes_body(path)` says whether a path accepts a body.
    """

    def __init__(
        self, app: ASGIApp, *, settings: ServerSettings, metrics: Metrics, takes_body: Callable[[str], bool]
    ) -> None:
        self._app, self._settings, self._metrics, self._takes_body = app, settings, metrics, takes_body
        self._access = AccessPolicy(settings)
        self._clients = Clients(settings.proxies)
        self._buckets = RateLimiter(settings.rate, settings.burst)
        self._under_way = 0
        self._at_work: Counter[str] = Counter()
        per_client = settings.large_per_client if settings.connections_per_client else 0
        self._turns = ConcurrencyLimit(settings.large_at_once, per_client)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._answer(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            await self._app(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        began = time.perf_counter()
        out = _Outgoing(send)
        method = scope["method"]
        if method == "HEAD":  # the application answers GET; the server omits the body
            scope = {**scope, "method": "GET"}
        self._under_way += 1
        self._metrics.under_way.set(self._under_way)
        try:
            await self._admitted(scope, receive, out)
        except ApiError as refusal:
            await out.reply(scope, receive, refusal.reply())
        except TimeoutError:
            late = ApiError(
                503,
                f"The request exceeded the time limit of {self._settings.seconds:g} s.",
                "Request fewer answers at a time.",
                headers=RETRY,
            )
            await out.reply(scope, receive, late.reply())
        except Exception as error:  # log the details; the client gets only the request id
            self._metrics.failed(error, id=out.id)
            await out.reply(
                scope,
                receive,
                ApiError(500, "Internal error.", f"Report request id {out.id}; the log has details.").reply(),
            )
        finally:
            self._under_way -= 1
            self._metrics.under_way.set(self._under_way)
            route = _route(scope)
            line = {"id": out.id, "method": method, "client": out.client}
            self._metrics.answered(route=route, status=out.status, seconds=time.perf_counter() - began, line=line)

    async def _admitted(self, scope: Scope, receive: Receive, out: _Outgoing) -> None:
        peer = scope["client"][0] if scope.get("client") else ""
        out.client = client = self._clients.of_request(peer, dict(scope["headers"]))
        out.unread = _announces_body(scope)
        out.last = crowded = scope.get("state", {}).get(HEALTH_ONLY, False)
        health = _asks_for_health(scope) and not out.unread
        # Every other request counts, even if it is refused later, so that token guesses are rate-limited too.
        wait = 0 if health else self._buckets.take(client)
        headers = _headers(scope)
        out.shared = self._access.check(headers)
        if health:
            await self._app(scope, receive, out.send)
            return
        if wait:
            raise ApiError(
                429,
                "Too many requests from this client.",
                f"Try again in {wait} s.",
                headers={"Retry-After": str(wait)},
            )
        if crowded:
            raise ApiError(503, "Too many open connections.", "Close unused connections and try again.", headers=RETRY)
        self._check_token(scope, headers)
        if scope["method"] == "OPTIONS" and out.shared and not out.unread:
            await out.reply(scope, receive, Response(status_code=204, headers=PREFLIGHT))
            return
        body = await self._body(scope, headers, receive, out)
        large = scope["path"] in LARGE or (scope["path"] in LARGE_BY_POST and len(body) > SMALL_BODY)
        await self._run_application(scope, _replay(body, receive), out, client, large=large)

    def _check_token(self, scope: Scope, headers: dict[bytes, bytes]) -> None:
        try:
            self._access.check_token(scope["path"], scope["method"], headers)
        except ApiError:
            self._metrics.wrong_tokens.inc()
            raise

    async def _run_application(
        self, scope: Scope, receive: Receive, out: _Outgoing, client: str, *, large: bool
    ) -> None:
        """Run the application within the limits on concurrent requests and on time."""
        most, per_client = self._settings.at_once, self._settings.connections_per_client
        if self._at_work.total() >= most or (per_client and self._at_work[client] >= per_client):
            raise ApiError(503, "Too many requests are running.", "Try again in 1 s.", headers=RETRY)
        self._at_work[client] += 1
        self._metrics.at_work.set(self._at_work.total())
        try:
            async with asyncio.timeout(self._settings.seconds) as limit:
                # After the first byte of the answer the connection's own timer checks how fast the client reads.
                out.begun = lambda: limit.reschedule(None)
                async with self._turns.turn(client) if large else nullcontext():
                    await self._app(scope, receive, out.send)
        finally:
            out.begun = _nothing
            self._at_work[client] -= 1
            if not self._at_work[client]:
                del self._at_work[client]
            self._metrics.at_work.set(self._at_work.total())

    async def _body(self, scope: Scope, headers: dict[bytes, bytes], receive: Receive, out: _Outgoing) -> bytes:
        """Read the whole body within the limits on size and time; empty for paths that accept none."""
        if not out.unread:
            return b""
        if scope["method"] not in BODIES or not self._takes_body(scope["path"]):
            if scope["method"] in ("GET", "OPTIONS"):
                raise ApiError(
                    400,
                    f"{scope['method']} requests accept no body.",
                    "Send the request without Content-Length or Transfer-Encoding.",
                )
            return b""  # the application answers 404 or 405
        _check_content_type(headers.get(b"content-type", b"").decode("latin-1"))
        if b"content-encoding" in headers:
            raise ApiError(415, "Compressed bodies are not supported.", "Send the JSON without Content-Encoding.")
        limit = self._settings.body
        too_large = ApiError(413, f"The body is larger than {limit} bytes.", "Send fewer questions at a time.")
        if _announced(headers) > limit:
            raise too_large
        parts: list[bytes] = []
        size, more = 0, True
        try:
            async with asyncio.timeout(self._settings.sending_seconds):
                while more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise ApiError(400, "The connection closed before the body was complete.")
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    more = message.get("more_body", False)
                    if size > limit:
                        raise too_large
        except TimeoutError as error:
            raise ApiError(
                408,
                f"The body did not arrive within {self._settings.sending_seconds:g} s.",
                "Send a smaller body or use a faster connection.",
            ) from error
        out.unread = False
        return b"".join(parts)


class _Outgoing:
    """The answer being sent: adds the common headers and remembers the status.

    `unread` means that the body of the request was not read completely. The connection then closes after the answer,
    because the remaining bytes are not another request.
    """

    def __init__(self, send: Send) -> None:
        self._send = send
        self.id = secrets.token_hex(8)
        self.client = ""
        self.status = 0
        self.shared: dict[str, str] = {}
        self.unread = self.last = False
        self.begun: Callable[[], None] = _nothing

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.begun()
            self.status = message["status"]
            extra = {**SECURITY, **self.shared, "X-Request-Id": self.id, "Cache-Control": "no-store"}
            if self.unread or self.last:
                extra["Connection"] = "close"
            present = {name.lower() for name, _ in message.get("headers", [])}
            raw = [(name.lower().encode(), value.encode("latin-1")) for name, value in extra.items()]
            message["headers"] = [*message.get("headers", []), *(pair for pair in raw if pair[0] not in present)]
        await self._send(message)

    async def reply(self, scope: Scope, receive: Receive, answer: Response) -> None:
        """Send this answer unless another one has begun; the server then cuts the incomplete answer off."""
        if not self.status:
            await answer(scope, receive, self.send)


def _nothing() -> None:
    """Placeholder while no time limit runs."""


def _asks_for_health(scope: Scope) -> bool:
    return scope["method"] == "GET" and scope["path"] in HEALTH


def _announces_body(scope: Scope) -> bool:
    """Whether the head announces a body. A Content-Length that is not a number counts as one."""
    return any(
        name == b"transfer-encoding" or (name == b"content-length" and value.strip(b"0") != b"")
        for name, value in scope["headers"]
    )


def _announced(headers: dict[bytes, bytes]) -> int:
    length = headers.get(b"content-length", b"0")
    try:
        return int(length)
    except ValueError as error:
        reason = f"The Content-Length {length.decode('latin-1')!r} is not a number."
        raise ApiError(400, reason, "Send the length of the body in bytes.") from error


def _route(scope: Scope) -> str:
    """The route for logs and metrics: a path of the interface, `page`, or `refused`."""
    if "endpoint" not in scope:
        return "refused"
    return "page" if scope["path_params"] else str(scope["path"])


def _headers(scope: Scope) -> dict[bytes, bytes]:
    headers: dict[bytes, bytes] = {}
    if len(scope["headers"]) > HEADERS:
        raise ApiError(431, f"The request has more than {HEADERS} headers.", "Send fewer headers.")
    for name, value in scope["headers"]:
        if name in headers and name in (b"host", b"authorization", b"content-length", b"content-type", b"origin"):
            raise ApiError(400, f"The header {name.decode('latin-1')} occurs twice.", "Send it once.")
        headers[name] = value
    if b"content-length" in headers and b"transfer-encoding" in headers:
        # A proxy in front may trust the other header and read part of the body as someone else's request.
        raise ApiError(
            400, "The request has both Content-Length and Transfer-Encoding.", "Send only one of these headers."
        )
    return headers


def _check_content_type(kind: str) -> None:
    main, _, parameters = kind.partition(";")
    charset = parameters.strip().casefold()
    if main.strip().casefold() != "application/json" or charset not in ("", "charset=utf-8", 'charset="utf-8"'):
        raise ApiError(
            415, f"The content type {kind!r} is not supported.", "Send JSON with Content-Type: application/json."
        )


def _replay(body: bytes, receive: Receive) -> Receive:
    """A `receive` that returns the body read before, then the messages of the connection."""
    sent = False

    async def replay() -> Message:
        nonlocal sent
        if sent:
            return await receive()
        sent = True
        message: dict[str, Any] = {"type": "http.request", "body": body, "more_body": False}
        return message

    return replay
