"""What goes back: JSON that is always finite, and refusals with a reason and a way out."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

PATHS = "GET /openapi.json lists the paths"
AT_ONCE = 500
"""Elements of a list that are encoded together: about a millisecond of work."""
PART = 64 << 10
"""Bytes of an answer that are handed to the connection at once."""
LONGEST = 300
"""Characters of a reason; a name of ten thousand characters is not repeated in full."""


class FiniteJsonResponse(Response):
    """A JSON answer."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return encoded(content)


class LargeReply(Response):
    """A JSON answer that was encoded in pieces, in another thread, and is sent as fast as the client reads it."""

    media_type = "application/json"

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._parts = joined(pieces)
        super().__init__(headers={"Content-Length": str(sum(map(len, self._parts)))})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        del scope, receive
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        for place, part in enumerate(self._parts, start=1):
            more = place < len(self._parts)
            await send({"type": "http.response.body", "body": part, "more_body": more})


class ApiError(Exception):
    """A request that is not answered, and why."""

    def __init__(self, status: int, reason: str, hint: str = "", *, headers: dict[str, str] | None = None) -> None:
        super().__init__(reason)
        self.status, self.reason, self.hint = status, reason, hint
        self.headers = headers or {}

    def reply(self) -> FiniteJsonResponse:
        return FiniteJsonResponse(problem(self.reason, self.hint), status_code=self.status, headers=self.headers)


def problem(reason: str, hint: str = "") -> dict[str, Any]:
    """The one shape of every error."""
    return {"error": {"reason": _cut(reason), "hint": _cut(hint)}}


def encoded(content: Any) -> bytes:
    """Half a surrogate pair, which some names hold, becomes the escape that JSON has for it."""
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode("utf-8", "backslashreplace")


def in_pieces(content: Any) -> Iterator[bytes]:
    """The same JSON, encoded a little at a time.

    Python's encoder lets no other thread run until it is done: an answer of 10 MB would hold up every other request.
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
    """The elements of a list that are encoded already, with the commas between them."""
    for place, element in enumerate(elements):
        yield b"," + element if place else element


def joined(pieces: Iterable[bytes]) -> list[bytes]:
    """The same bytes in parts of a size that is sent at once; at least one part."""
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
