"""Responses: JSON without NaN or infinity, and errors with a reason and a hint."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

PATHS = "GET /openapi.json lists all paths."
AT_ONCE = 500
"""List elements that are encoded together: about a millisecond of work."""
PART = 64 << 10
"""Bytes of an answer that are sent to the connection at once."""
LONGEST = 300
"""Most characters of a reason or a hint; long names are cut."""


class FiniteJsonResponse(Response):
    """A JSON answer."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return encoded(content)


class LargeReply(Response):
    """A JSON answer made of encoded pieces, sent as fast as the client reads it."""

    media_type = "application/json"

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._parts = joined(pieces)
        super().__init__(headers={"Content-Length": str(sum(map(len, self._parts)))})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        del scope, receive
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        for number, part in enumerate(self._parts, start=1):
            more = number < len(self._parts)
            await send({"type": "http.response.body", "body": part, "more_body": more})


class ApiError(Exception):
    """A refused request: HTTP status, the reason, and a hint what to do next."""

    def __init__(self, status: int, reason: str, hint: str = "", *, headers: dict[str, str] | None = None) -> None:
        super().__init__(reason)
        self.status, self.reason, self.hint = status, reason, hint
        self.headers = headers or {}

    def reply(self) -> FiniteJsonResponse:
        return FiniteJsonResponse(problem(self.reason, self.hint), status_code=self.status, headers=self.headers)


def problem(reason: str, hint: str = "") -> dict[str, Any]:
    """The body of every error."""
    return {"error": {"reason": _cut(reason), "hint": _cut(hint)}}


def encoded(content: Any) -> bytes:
    """Compact JSON in UTF-8. A lone surrogate, which some names contain, becomes a JSON escape."""
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode("utf-8", "backslashreplace")


def in_pieces(content: Any) -> Iterator[bytes]:
    """The same JSON as `encoded`, in small pieces.

    Python's encoder blocks all other threads until it returns: encoding 10 MB at once would block every request.
    """
    if isinstance(content, dict) and content:
        before = b"{"
        for key, value in content.items():
            yield before + encoded(str(key)) + b":"
            yield from in_pieces(value)
            before = b","
        yield b"}"
    elif isinstance(content, list) and len(content) > AT_ONCE:
        before = b"["
        for start in range(0, len(content), AT_ONCE):
            yield before + encoded(content[start : start + AT_ONCE])[1:-1]
            before = b","
        yield b"]"
    else:
        yield encoded(content)


def between(elements: Iterable[bytes]) -> Iterator[bytes]:
    """Encoded elements of a list, with the commas between them."""
    for i, element in enumerate(elements):
        yield b"," + element if i else element


def joined(pieces: Iterable[bytes]) -> list[bytes]:
    """Join pieces into parts of about PART bytes; at least one part."""
    parts: list[bytes] = []
    gathered: list[bytes] = []
    size = 0
    for piece in pieces:
        gathered.append(piece)
        size += len(piece)
        if size >= PART:
            parts.append(b"".join(gathered))
            gathered, size = [], 0
    return [*parts, b"".join(gathered)] if gathered or not parts else parts


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
