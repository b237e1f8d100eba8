"""What goes back: JSON that is always finite, and refusals with a reason and a way out."""

from __future__ import annotations

import json
from typing import Any

from starlette.responses import Response

PATHS = "GET /openapi.json lists the paths"
LONGEST = 300
"""Characters of a reason; a name of ten thousand characters is not repeated in full."""


class Reply(Response):
    """A JSON answer."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return encoded(content)


class Refusal(Exception):
    """A request that is not answered, and why."""

    def __init__(self, status: int, reason: str, hint: str = "", *, headers: dict[str, str] | None = None) -> None:
        super().__init__(reason)
        self.status, self.reason, self.hint = status, reason, hint
        self.headers = headers or {}

    def reply(self) -> Reply:
        return Reply(problem(self.reason, self.hint), status_code=self.status, headers=self.headers)


def problem(reason: str, hint: str = "") -> dict[str, Any]:
    """The one shape of every error."""
    return {"error": {"reason": _cut(reason), "hint": _cut(hint)}}


def encoded(content: Any) -> bytes:
    """Half a surrogate pair, which some names hold, becomes the escape that JSON has for it."""
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode("utf-8", "backslashreplace")


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
