"""Serve the files of the explorer page, or a short notice if the page was not built."""

from __future__ import annotations

import mimetypes
from pathlib import Path
from urllib.parse import quote

from fastapi import APIRouter, Request
from starlette.responses import FileResponse, HTMLResponse, RedirectResponse, Response
from starlette.staticfiles import NotModifiedResponse

from conjoin.server.responses import PATHS, ApiError

STATIC = Path(__file__).resolve().parent / "static"
RESERVED = ("v1", "healthz", "readyz", "metrics", "openapi.json")
HASHED = "assets/"
"""Files in this folder have a hash of their content in their name, so they never change."""
CACHE_FOREVER = "public, max-age=31536000, immutable"
NOT_BUILT = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Conjoin</title></head>
<body><h1>Conjoin is running</h1>
<p>This installation has no explorer page. Use the HTTP interface:
<a href="/v1/runs">/v1/runs</a>, <a href="/openapi.json">/openapi.json</a>.</p></body></html>
"""


def page_routes(static: Path = STATIC) -> APIRouter:
    """Routes for the files of the page. Any other path opened in a browser returns the page, so deep links work."""
    router = APIRouter(include_in_schema=False)
    root = static.resolve()
    for suffix, kind in ((".js", "text/javascript"), (".mjs", "text/javascript"), (".wasm", "application/wasm")):
        mimetypes.add_type(kind, suffix)

    @router.get("/{path:path}")
    async def page(request: Request, path: str) -> Response:
        first = path.split("/", maxsplit=1)[0]
        if first in RESERVED:
            raise ApiError(404, f"Nothing is served at /{path}.", PATHS)
        index = root / "index.html"
        file = _inside(root, path or "index.html")
        if file is not None:
            return _file(request, file, CACHE_FOREVER if path.startswith(HASHED) else "no-cache")
        wants_page = "text/html" in request.headers.get("accept", "") and not path.startswith(HASHED)
        if path and not wants_page:
            raise ApiError(404, f"Nothing is served at /{path}.", PATHS)
        if not index.is_file():
            return HTMLResponse(NOT_BUILT)
        if "/" in path:  # the page uses relative paths, so that it works below any URL prefix
            asked = f"?{request.url.query}" if request.url.query else ""
            return RedirectResponse("../" * path.count("/") + quote(first, safe="") + asked)
        return _file(request, index, "no-cache")

    return router


def _file(request: Request, file: Path, caching: str) -> Response:
    answer = FileResponse(file, stat_result=file.stat(), headers={"Cache-Control": caching})
    cached = [tag.strip().removeprefix("W/") for tag in request.headers.get("if-none-match", "").split(",")]
    return NotModifiedResponse(answer.headers) if answer.headers["etag"] in cached else answer


def _inside(root: Path, path: str) -> Path | None:
    """The file at this path inside the root; None if it does not exist or lies outside."""
    if "\0" in path or "\\" in path:
        return None
    try:
        file = (root / path.lstrip("/")).resolve()
        return file if file.is_relative_to(root) and file.is_file() else None
    except (OSError, ValueError):  # not a valid file name
        return None
