"""Routes for browsing: runs, entities, relations, the map, geometry, studies."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.responses import Response

from conjoin import __version__
from conjoin.datasets.registry import Counts
from conjoin.errors import did_you_mean
from conjoin.geometry.relation_maps import symbol
from conjoin.model.model import Model
from conjoin.server import schemas
from conjoin.server.open_runs import OpenRun, OpenRuns
from conjoin.server.projection import Projection, projection_of, stored_methods
from conjoin.server.responses import ApiError, FiniteJsonResponse, LargeReply, in_pieces, joined
from conjoin.server.routes.entity import entity_page
from conjoin.server.routes.geometry import geometry
from conjoin.server.routes.relations import by_frequency, relation_rows
from conjoin.server.routes.studies import find_reports, read_report, study_line
from conjoin.server.settings import ServerSettings, public_limits


def browse_routes(open_runs: OpenRuns, settings: ServerSettings) -> APIRouter:
    """The routes of these open runs."""
    router = APIRouter(tags=["browsing"])
    reports = find_reports(settings.studies)

    @router.get("/runs", response_model=schemas.Runs, summary="List the open runs and the limits")
    async def runs(_params: Annotated[schemas.RunRequest, Query()]) -> FiniteJsonResponse:
        lines = [
            {**await open_runs.once(run, "summary", _summary), "calibrated": await asyncio.to_thread(run.is_calibrated)}
            for run in open_runs.runs.values()
        ]
        return FiniteJsonResponse({"conjoin": __version__, "runs": lines, "limits": public_limits(settings)})

    @router.get("/entities", response_model=schemas.Entities, summary="Search entities by name or label")
    async def entities(params: Annotated[schemas.EntitySearchRequest, Query()]) -> FiniteJsonResponse:
        run = open_runs[params.run]
        matches = await open_runs.in_thread(_matching_entities, run, params.q.strip(), params.limit)
        return FiniteJsonResponse({"run": run.name, "q": params.q, "entities": matches})

    @router.get("/entity", response_model=schemas.EntityPage, summary="Facts and neighbourhood of an entity")
    async def entity(params: Annotated[schemas.EntityRequest, Query()]) -> Response:
        run = open_runs[params.run]
        entity_id = await open_runs.find(run.graph.entities, params.entity)
        return await open_runs.large(await open_runs.in_thread(entity_page, run, entity_id, params.facts, params.nodes))

    @router.get(
        "/relations", response_model=schemas.Relations, summary="List relations with counts, patterns and metrics"
    )
    async def relations(params: Annotated[schemas.RelationSearchRequest, Query()]) -> Response:
        run = open_runs[params.run]
        rows = await open_runs.once(run, "relations", relation_rows)
        chosen = await open_runs.in_thread(_matching_relations, run, rows, params.q.strip(), params.limit)
        return await open_runs.large({"run": run.name, "total": len(rows), "relations": chosen})

    binary: dict[int | str, dict[str, Any]] = {200: {"content": {"application/octet-stream": {}}}}

    @router.get(
        "/map", response_model=schemas.MapShape, responses=binary, summary="Positions of the entities in two dimensions"
    )
    async def positions(params: Annotated[schemas.MapRequest, Query()]) -> Response:
        run = open_runs[params.run]
        method = params.method or settings.map
        if method not in stored_methods(run):
            raise ApiError(404, f"No {method} map is stored for this run.", f"Start the service with --map {method}.")
        layout: Projection = await open_runs.once(run, f"map {method}", lambda run: projection_of(run, method))
        if params.format == "binary":
            packed = await open_runs.in_thread(layout.packed, params.limit)
            return Response(packed, media_type="application/octet-stream")
        if params.limit < len(layout.ids):
            return await open_runs.in_thread(lambda: LargeReply(in_pieces(layout.columns(run, params.limit))))
        whole = await open_runs.once(
            run, f"map {method} as JSON", lambda run: joined(in_pieces(layout.columns(run, params.limit)))
        )
        return LargeReply(whole)

    @router.get(
        "/geometry",
        response_model=schemas.GeometryShape,
        summary="Effect of a relation on one coordinate, on the Riemann sphere",
    )
    async def geometry_of(params: Annotated[schemas.GeometryRequest, Query()]) -> FiniteJsonResponse:
        run = open_runs[params.run]
        relation = await open_runs.find(run.graph.relations, params.relation)
        entity = None if params.entity is None else await open_runs.find(run.graph.entities, params.entity)
        return FiniteJsonResponse(await open_runs.in_thread(geometry, run, params, relation, entity))

    @router.get("/studies", response_model=schemas.Studies, summary="List the studies with a report")
    async def studies(_params: Annotated[schemas.RunRequest, Query()]) -> FiniteJsonResponse:
        return FiniteJsonResponse({"studies": await open_runs.in_thread(_study_lines, reports)})

    @router.get("/study", summary="The report of one study", response_model=dict[str, Any])
    async def study(params: Annotated[schemas.StudyRequest, Query()]) -> Response:
        report = await open_runs.in_thread(read_report, reports[params.name]) if params.name in reports else None
        if report is None:
            hint = did_you_mean(params.name[:200], reports).strip() or "GET /v1/studies lists the studies."
            raise ApiError(404, f"No study named {params.name[:200]!r} has a report.", hint)
        return await open_runs.large(report)

    return router


def _summary(run: OpenRun) -> dict[str, Any]:
    """Settings and metrics of a run. Values that a predictor made in Python does not have are None."""
    scorer, settings = run.predictor.scorer, run.predictor.settings
    result = {} if run.folder is None else run.folder.result
    measured = result.get(run.weights) or {}
    return {
        "name": run.name,
        "data": settings.data if settings else run.graph.name,
        "form": str(settings.form) if settings else scorer.title,
        "symbol": symbol(scorer) if isinstance(scorer, Model) else scorer.title,
        "rank": settings.rank if settings else None,
        "seed": settings.seed if settings else None,
        "weights": run.weights,
        **vars(Counts.of(run.graph)),
        "parameters": result.get("parameters"),
        "relation_parameters": result.get("relation_parameters"),
        "metrics": {split: measured.get(split) for split in ("valid", "test")},
    }


def _matching_entities(run: OpenRun, q: str, limit: int) -> list[dict[str, Any]]:
    if not q:
        return [run.entity(int(e)) for e in run.by_degree[:limit]]
    return list(map(vars, run.predictor.find_entities(q, limit)))


def _matching_relations(run: OpenRun, rows: list[dict[str, Any]], q: str, limit: int) -> list[dict[str, Any]]:
    if not q:
        return by_frequency(rows)[:limit]
    index = run.graph.relations.index
    return [rows[index[match.name]] for match in run.predictor.find_relations(q, limit)]


def _study_lines(reports: dict[str, Path]) -> list[dict[str, Any]]:
    read = {name: read_report(file) for name, file in reports.items()}
    return [study_line(name, report) for name, report in read.items() if report is not None]
