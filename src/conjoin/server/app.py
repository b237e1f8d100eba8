"""The service as an ASGI application: routes, errors as JSON, and the guard around them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass

from fastapi import Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp

from conjoin import __version__
from conjoin.errors import RunError, UnknownName, UsageError
from conjoin.server import schemas
from conjoin.server.metrics import Metrics
from conjoin.server.middleware import RequestGuard
from conjoin.server.open_runs import OpenRuns
from conjoin.server.responses import PATHS, ApiError, FiniteJsonResponse, problem
from conjoin.server.routes.browse import browse_routes
from conjoin.server.routes.explain import explain_routes
from conjoin.server.routes.predict import prediction_routes
from conjoin.server.settings import ServerSettings
from conjoin.server.static_page import page_routes

DESCRIPTION = "Ask a trained knowledge-graph embedding with the names of the graph."
VERSION = "/v1"
ACCEPTED = "GET /openapi.json says what is accepted"
PROBLEMS = {
    400: "Not a question",
    401: "Token missing or wrong",
    403: "Another origin",
    404: "No such name",
    405: "Wrong method",
    408: "Sent too slowly",
    413: "Too large",
    415: "Not JSON",
    421: "Another host",
    422: "Outside the limits",
    429: "Too many requests",
    431: "Too many headers",
    503: "Busy",
}


@dataclass
class Readiness:
    """Is the service taking questions?"""

    ready: bool = False


def create_app(shelf: OpenRuns, settings: ServerSettings | None = None, *, watch: Metrics | None = None) -> ASGIApp:
    """The application over open runs. Everything it needs is opened before; its lifespan warms and closes."""
    chosen, seen = settings or ServerSettings(), watch or Metrics()
    readiness = Readiness()
    app = FastAPI(
        title="Conjoin",
        version=__version__,
        description=DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        lifespan=_lifespan(shelf, seen, readiness),
        responses={status: {"model": schemas.ErrorResponse, "description": text} for status, text in PROBLEMS.items()},
    )
    # The guard has checked the token by then: this only lets the description say that one is needed.
    token = [Depends(HTTPBearer(auto_error=False))] if chosen.token else []
    posted: set[str] = set()
    for routes in (
        prediction_routes(shelf),
        explain_routes(shelf, seconds=chosen.seconds),
        browse_routes(shelf, chosen),
    ):
        app.include_router(routes, prefix=VERSION, dependencies=token)
        posted |= {
            VERSION + route.path
            for route in routes.routes
            if isinstance(route, APIRoute) and "POST" in (route.methods or ())
        }
    _add_health(app, seen, readiness)
    app.include_router(page_routes())
    _add_errors(app)
    return RequestGuard(app, settings=chosen, watch=seen, takes_body=posted.__contains__)


Lifespan = Callable[[FastAPI], AbstractAsyncContextManager[None]]


def _lifespan(shelf: OpenRuns, watch: Metrics, readiness: Readiness) -> Lifespan:
    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        for run in shelf.runs.values():
            run.observed_by(watch)
            await shelf.in_thread(run.warm)
        readiness.ready = True
        searching = [asyncio.ensure_future(shelf.in_thread(run.warm_search)) for run in shelf.runs.values()]
        yield
        await asyncio.wait(searching)
        readiness.ready = False
        await shelf.close()

    return lifespan


def _add_health(app: FastAPI, watch: Metrics, readiness: Readiness) -> None:
    @app.get("/healthz", response_model=schemas.Status, tags=["health"], summary="Is the process alive?")
    async def healthz() -> FiniteJsonResponse:
        return FiniteJsonResponse({"status": "alive"})

    @app.get("/readyz", response_model=schemas.Status, tags=["health"], summary="Does it take questions?")
    async def readyz() -> FiniteJsonResponse:
        if not readiness.ready:
            raise ApiError(503, "the service is starting or stopping", "try again", headers={"Retry-After": "1"})
        return FiniteJsonResponse({"status": "ready"})

    @app.get("/metrics", tags=["health"], summary="Numbers for Prometheus", response_class=Response)
    async def metrics() -> Response:
        return Response(watch.exposition(), media_type="text/plain; version=0.0.4; charset=utf-8")


def _methods(app: FastAPI, path: str) -> list[str]:
    """What a path takes: GET and HEAD everywhere."""
    described = app.openapi()["paths"].get(path, ())
    return sorted({"GET", "HEAD", *(method.upper() for method in described)})


def _add_errors(app: FastAPI) -> None:
    """Every error as {"error": {"reason", "hint"}}."""

    async def refused(_: Request, error: Exception) -> Response:
        assert isinstance(error, ApiError)
        return error.reply()

    async def invalid(_: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        first = error.errors()[0]
        if first["type"] == "json_invalid":
            return FiniteJsonResponse(
                problem("the body is not JSON", str(first.get("ctx", {}).get("error", ""))), status_code=400
            )
        place = ".".join(str(part) for part in first["loc"][1:]) or str(first["loc"][0])
        return FiniteJsonResponse(problem(f"{place}: {first['msg']}", ACCEPTED), status_code=422)

    async def failed(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        if error.status_code == 405:
            headers = {"Allow": ", ".join(_methods(app, request.url.path))}
            return FiniteJsonResponse(
                problem("this path does not take this method", PATHS), status_code=405, headers=headers
            )
        if error.status_code == 400:  # JSON that is nested too deeply, not UTF-8, or holds a number without end
            return FiniteJsonResponse(
                problem("the body cannot be read", "send one JSON object in UTF-8"), status_code=400
            )
        said = "there is nothing at this path" if error.status_code == 404 else str(error.detail)
        return FiniteJsonResponse(
            problem(said, PATHS), status_code=error.status_code, headers=dict(error.headers or {})
        )

    async def wrong_use(_: Request, error: Exception) -> Response:
        return FiniteJsonResponse(problem(str(error)), status_code=404 if isinstance(error, UnknownName) else 400)

    async def left_to_the_guard(_: Request, error: Exception) -> Response:
        """Ours to mend: logged with its trace, while the client learns nothing, such as where files lie."""
        raise error

    app.add_exception_handler(ApiError, refused)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, failed)
    app.add_exception_handler(UsageError, wrong_use)
    app.add_exception_handler(RunError, left_to_the_guard)
    app.add_exception_handler(Exception, left_to_the_guard)
