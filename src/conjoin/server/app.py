"""The service as an ASGI application: its routes, errors as JSON, and the middleware around them."""

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
from conjoin.errors import RunError, UnknownName, UsageError, quoted
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

DESCRIPTION = "Query a trained knowledge-graph embedding. Names and labels of the graph are accepted everywhere."
VERSION = "/v1"
ACCEPTED = "See GET /openapi.json for the accepted parameters."
PROBLEMS = {
    400: "Bad request",
    401: "Bearer token missing or wrong",
    403: "Origin not allowed",
    404: "Unknown run, entity, relation, study or path",
    405: "Method not allowed",
    408: "Body not received in time",
    413: "Body too large",
    415: "Body is not application/json",
    421: "Host not allowed",
    422: "Invalid parameter or field",
    429: "Too many requests",
    431: "Too many headers",
    503: "Starting, stopping, overloaded, or time limit exceeded",
}


@dataclass
class Readiness:
    """Whether the service accepts requests: False while it starts or stops."""

    ready: bool = False


def create_app(
    open_runs: OpenRuns, settings: ServerSettings | None = None, *, metrics: Metrics | None = None
) -> ASGIApp:
    """The ASGI application over runs that are already open. Its lifespan warms them up and closes them."""
    chosen, counted = settings or ServerSettings(), metrics or Metrics()
    readiness = Readiness()
    app = FastAPI(
        title="Conjoin",
        version=__version__,
        description=DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        lifespan=_lifespan(open_runs, counted, readiness),
        responses={status: {"model": schemas.ErrorResponse, "description": text} for status, text in PROBLEMS.items()},
    )
    # RequestGuard has already checked the token. This dependency only documents it in the OpenAPI schema.
    token = [Depends(HTTPBearer(auto_error=False))] if chosen.token else []
    posted: set[str] = set()
    for routes in (
        prediction_routes(open_runs),
        explain_routes(open_runs, seconds=chosen.seconds),
        browse_routes(open_runs, chosen),
    ):
        app.include_router(routes, prefix=VERSION, dependencies=token)
        posted |= {
            VERSION + route.path
            for route in routes.routes
            if isinstance(route, APIRoute) and "POST" in (route.methods or ())
        }
    _add_health(app, counted, readiness)
    app.include_router(page_routes())
    _add_errors(app)
    return RequestGuard(app, settings=chosen, metrics=counted, takes_body=posted.__contains__)


Lifespan = Callable[[FastAPI], AbstractAsyncContextManager[None]]


def _lifespan(open_runs: OpenRuns, metrics: Metrics, readiness: Readiness) -> Lifespan:
    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        for run in open_runs.runs.values():
            run.report_to(metrics)
            await open_runs.in_thread(run.warm)
        readiness.ready = True
        searching = [asyncio.ensure_future(open_runs.in_thread(run.warm_search)) for run in open_runs.runs.values()]
        yield
        await asyncio.wait(searching)
        readiness.ready = False
        await open_runs.close()

    return lifespan


def _add_health(app: FastAPI, service_metrics: Metrics, readiness: Readiness) -> None:
    @app.get("/healthz", response_model=schemas.Status, tags=["health"], summary="Liveness: the process runs")
    async def healthz() -> FiniteJsonResponse:
        return FiniteJsonResponse({"status": "alive"})

    @app.get(
        "/readyz", response_model=schemas.Status, tags=["health"], summary="Readiness: the service accepts requests"
    )
    async def readyz() -> FiniteJsonResponse:
        if not readiness.ready:
            raise ApiError(
                503, "The service is starting or stopping.", "Try again in 1 s.", headers={"Retry-After": "1"}
            )
        return FiniteJsonResponse({"status": "ready"})

    @app.get("/metrics", tags=["health"], summary="Metrics in the Prometheus text format", response_class=Response)
    async def metrics() -> Response:
        return Response(service_metrics.exposition(), media_type="text/plain; version=0.0.4; charset=utf-8")


def _methods(app: FastAPI, path: str) -> list[str]:
    """The methods that a path accepts, sorted; every path accepts GET and HEAD."""
    described = app.openapi()["paths"].get(path, ())
    return sorted({"GET", "HEAD", *(method.upper() for method in described)})


def _add_errors(app: FastAPI) -> None:
    """Return every error as `{"error": {"reason", "hint"}}`."""

    async def api_error(_: Request, error: Exception) -> Response:
        assert isinstance(error, ApiError)
        return error.reply()

    async def invalid(_: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        first = error.errors()[0]
        if first["type"] == "json_invalid":
            return FiniteJsonResponse(
                problem("The body is not valid JSON.", str(first.get("ctx", {}).get("error", ""))), status_code=400
            )
        field = ".".join(str(part) for part in first["loc"][1:]) or str(first["loc"][0])
        value = first.get("input")
        given = f" The value was {quoted(str(value))}." if isinstance(value, str | int | float) else ""
        return FiniteJsonResponse(problem(f"{field}: {first['msg']}.{given}", ACCEPTED), status_code=422)

    async def http_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        if error.status_code == 405:
            headers = {"Allow": ", ".join(_methods(app, request.url.path))}
            return FiniteJsonResponse(
                problem(f"{request.url.path} does not support {request.method}.", f"Use {headers['Allow']}."),
                status_code=405,
                headers=headers,
            )
        if error.status_code == 400:  # JSON that is nested too deeply, is not UTF-8, or has a number of endless digits
            return FiniteJsonResponse(
                problem("The body cannot be decoded.", "Send one JSON object in UTF-8."), status_code=400
            )
        reason = f"Nothing is served at {request.url.path}." if error.status_code == 404 else str(error.detail)
        return FiniteJsonResponse(
            problem(reason, PATHS), status_code=error.status_code, headers=dict(error.headers or {})
        )

    async def usage_error(_: Request, error: Exception) -> Response:
        return FiniteJsonResponse(problem(str(error)), status_code=404 if isinstance(error, UnknownName) else 400)

    async def reraise(_: Request, error: Exception) -> Response:
        """Leave internal errors to RequestGuard: it logs the trace and hides details such as paths from the client."""
        raise error

    app.add_exception_handler(ApiError, api_error)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, http_error)
    app.add_exception_handler(UsageError, usage_error)
    app.add_exception_handler(RunError, reraise)
    app.add_exception_handler(Exception, reraise)
