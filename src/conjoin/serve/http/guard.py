"""The outermost layer: every request passes the doors, has bounded size, rate and time, and leaves one log line."""

from __future__ import annotations

import asyncio
import secrets
import time
from contextlib import suppress
from typing import Any

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from conjoin.serve.http.doors import Doors
from conjoin.serve.http.limits import Settings
from conjoin.serve.http.rate import Buckets
from conjoin.serve.http.replies import Refusal
from conjoin.serve.http.watch import Watch

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
DRAIN_SECONDS = 0.5


class Guard:
    """Wraps the application. Refusals that need no application never reach it."""

    def __init__(self, app: ASGIApp, *, settings: Settings, watch: Watch) -> None:
        self._app, self._settings, self._watch = app, settings, watch
        self._doors = Doors(settings)
        self._buckets = Buckets(settings.rate, settings.burst)
        self._under_way = 0

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
        if method == "HEAD":  # answered as GET is; the server leaves the body out
            scope = {**scope, "method": "GET"}
        self._under_way += 1
        self._watch.under_way.set(self._under_way)
        try:
            await self._admitted(scope, receive, out)
        except Refusal as refusal:
            await out.reply(scope, receive, refusal.reply())
        except TimeoutError:
            late = Refusal(503, "this took too long", "ask for less at a time", headers={"Retry-After": "1"})
            await out.reply(scope, receive, late.reply())
        except Exception as error:  # the last resort: the client learns no more than the number of its request
            self._watch.failed(error, id=out.id)
            await out.reply(scope, receive, Refusal(500, "the service failed", f"quote request {out.id}").reply())
        finally:
            self._under_way -= 1
            self._watch.under_way.set(self._under_way)
            route = _route(scope)
            client = scope["client"][0] if scope.get("client") else ""
            line = {"id": out.id, "method": method, "client": client}
            self._watch.answered(route=route, status=out.status, seconds=time.perf_counter() - began, line=line)

    async def _admitted(self, scope: Scope, receive: Receive, out: _Outgoing) -> None:
        headers = _headers(scope)
        out.shared = self._doors.check(headers)
        self._doors.check_token(scope["path"], scope["method"], headers)
        if self._under_way > self._settings.at_once:
            raise Refusal(503, "too many requests at once", "try again", headers={"Retry-After": "1"})
        wait = self._buckets.take(scope["client"][0] if scope.get("client") else "")
        if wait:
            raise Refusal(429, "too many requests", f"wait {wait} s", headers={"Retry-After": str(wait)})
        if scope["method"] == "OPTIONS" and out.shared:
            await out.reply(scope, receive, Response(status_code=204, headers=PREFLIGHT))
            return
        body = await self._body(headers, scope["method"], receive)
        async with asyncio.timeout(self._settings.seconds):
            await self._app(scope, _replay(body, receive), out.send)

    async def _body(self, headers: dict[bytes, bytes], method: str, receive: Receive) -> bytes:
        """The whole body, within its size and its time."""
        if b"content-length" not in headers and b"transfer-encoding" not in headers:
            return b""
        if method == "POST":
            kind = headers.get(b"content-type", b"").decode("latin-1")
            _check_content_type(kind)
            if b"content-encoding" in headers:
                raise Refusal(415, "compressed bodies are not read", "send the JSON as it is")
        limit = self._settings.body
        too_large = Refusal(413, f"the body is larger than {limit} bytes", "send fewer questions at a time")
        try:
            announced = int(headers.get(b"content-length", b"0"))
        except ValueError as error:
            raise Refusal(400, "the Content-Length header is not a number") from error
        if announced > limit:
            await _drain(receive)
            raise too_large
        parts: list[bytes] = []
        size, more = 0, True
        try:
            async with asyncio.timeout(self._settings.sending_seconds):
                while more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise Refusal(400, "the connection closed before the body was sent")
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    more = message.get("more_body", False)
                    if size > limit:
                        await _drain(receive)
                        raise too_large
        except TimeoutError as error:
            raise Refusal(408, f"the body took longer than {self._settings.sending_seconds:g} s") from error
        return b"".join(parts)


class _Outgoing:
    """The answer on its way: adds the headers that every answer has and remembers the status."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.id = secrets.token_hex(8)
        self.status = 0
        self.shared: dict[str, str] = {}

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            present = {name.lower() for name, _ in message.get("headers", [])}
            extra = {**SECURITY, **self.shared, "X-Request-Id": self.id, "Cache-Control": "no-store"}
            raw = [(name.lower().encode(), value.encode("latin-1")) for name, value in extra.items()]
            message["headers"] = [*message.get("headers", []), *(pair for pair in raw if pair[0] not in present)]
        await self._send(message)

    async def reply(self, scope: Scope, receive: Receive, answer: Response) -> None:
        """Send this, unless another answer has begun: then what is missing makes the server cut the connection."""
        if self.status:
            return
        if answer.status_code in (408, 413):
            answer.headers["Connection"] = "close"
        await answer(scope, receive, self.send)


def _route(scope: Scope) -> str:
    """One of few words: paths of the interface have no parameters in them."""
    if "endpoint" not in scope:
        return "refused"
    return "page" if scope["path_params"] else str(scope["path"])


def _headers(scope: Scope) -> dict[bytes, bytes]:
    headers: dict[bytes, bytes] = {}
    for name, value in scope["headers"]:
        if name in headers and name in (b"host", b"authorization", b"content-length", b"content-type", b"origin"):
            raise Refusal(400, f"the header {name.decode('latin-1')} was sent twice")
        headers[name] = value
    if b"content-length" in headers and b"transfer-encoding" in headers:
        # A proxy in front may believe the other one, and take part of the body for a request of someone else.
        hint = "send Content-Length or Transfer-Encoding"
        raise Refusal(400, "the length of the body was told twice", hint, headers={"Connection": "close"})
    return headers


def _check_content_type(kind: str) -> None:
    main, _, parameters = kind.partition(";")
    charset = parameters.strip().casefold()
    if main.strip().casefold() != "application/json" or charset not in ("", "charset=utf-8", 'charset="utf-8"'):
        raise Refusal(415, "the body is not application/json", "send the header Content-Type: application/json")


async def _drain(receive: Receive) -> None:
    """Let a client that sends too much go on for a moment, or it would not listen to the refusal."""
    with suppress(TimeoutError):
        async with asyncio.timeout(DRAIN_SECONDS):
            while (message := await receive())["type"] == "http.request" and message.get("more_body", False):
                pass


def _replay(body: bytes, receive: Receive) -> Receive:
    """The body that was read, then whatever the connection says."""
    sent = False

    async def again() -> Message:
        nonlocal sent
        if sent:
            return await receive()
        sent = True
        message: dict[str, Any] = {"type": "http.request", "body": body, "more_body": False}
        return message

    return again
