"""Routes that explain an answer and find missing facts: explain, mine."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Iterable, Iterator
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Query, Request

from conjoin.graph.column_roles import PLACES
from conjoin.predict.explain import explain
from conjoin.predict.mining import mine
from conjoin.server import schemas
from conjoin.server.open_runs import OpenRun, OpenRuns
from conjoin.server.responses import ApiError, FiniteJsonResponse
from conjoin.server.routes.predict import scored

T = TypeVar("T")
MINING_SHARE = 0.5
"""Mining stops after this share of the time limit of a request and returns the facts found so far."""
POLL_SECONDS = 0.25
"""How often to check that the client is still connected."""


class Deadline:
    """A progress tracker that stops the iteration at a time limit, so that the caller returns partial results."""

    def __init__(self, seconds: float) -> None:
        self._until = time.monotonic() + seconds
        self.reached = False

    def expire(self) -> None:
        """Stop the iteration at its next step."""
        self._until = 0.0

    def __call__(self, steps: Iterable[T], what: str, total: int | None) -> Iterator[T]:
        del what, total
        for step in steps:
            if time.monotonic() > self._until:
                self.reached = True
                return
            yield step


def explain_routes(open_runs: OpenRuns, *, seconds: float) -> APIRouter:
    """The routes of these open runs."""
    router = APIRouter(tags=["predictions"])
    one_at_a_time = asyncio.Semaphore(1)

    async def explained(params: schemas.ExplainRequest) -> FiniteJsonResponse:
        run = open_runs[params.run]
        entities, relations = run.graph.entities, run.graph.relations
        h, t = await open_runs.find(entities, params.head), await open_runs.find(entities, params.tail)
        r = await open_runs.find(relations, params.relation)
        return FiniteJsonResponse(await open_runs.in_thread(_explained, run, (h, r, t), params.k))

    @router.get("/explain", response_model=schemas.Explained, summary="Training facts that support a fact")
    async def explain_one(params: Annotated[schemas.ExplainRequest, Query()]) -> FiniteJsonResponse:
        return await explained(params)

    @router.post("/explain", response_model=schemas.Explained, summary="Training facts that support a fact")
    async def explain_by_post(params: schemas.ExplainRequest) -> FiniteJsonResponse:
        return await explained(params)

    @router.get("/mine", response_model=schemas.MinedResponse, summary="Find the most probable missing facts")
    async def mined(request: Request, params: Annotated[schemas.MineRequest, Query()]) -> FiniteJsonResponse:
        run = open_runs[params.run]
        relation = None
        if params.relation is not None:
            relation = run.graph.relations.names[await open_runs.find(run.graph.relations, params.relation)]

        async def mined_in_turn() -> dict[str, Any]:
            async with one_at_a_time:
                deadline = Deadline(seconds * MINING_SHARE)
                try:
                    return await open_runs.in_thread(_mined, run, relation, params.n, deadline)
                finally:
                    deadline.expire()

        return FiniteJsonResponse(await _while_connected(request, mined_in_turn()))

    return router


async def _while_connected(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """The result of slow work; cancels it when the client disconnects, so that it does not delay other requests."""
    task = asyncio.ensure_future(work)
    try:
        while not task.done():
            await asyncio.wait({task}, timeout=POLL_SECONDS)
            if not task.done() and await request.is_disconnected():
                raise ApiError(400, "The connection closed before the answer was ready.")
        return task.result()
    finally:
        task.cancel()


def _explained(run: OpenRun, triple: tuple[int, int, int], k: int) -> dict[str, Any]:
    [score] = scored(run, [triple])
    words = [score[place]["name"] for place in PLACES]
    explanation = explain(run.predictor, *words, k=k)
    return {
        "run": run.name,
        "fact": run.fact(*triple),
        "score": score["score"],
        "known": score["known"],
        "probability": score["probability"],
        "supports": [{**_fact(run, s.head, s.relation, s.tail), "strength": s.strength} for s in explanation.supports],
        "paths": [
            {"strength": path.strength, "steps": [_fact(run, s.head, s.relation, s.tail) for s in path.steps]}
            for path in explanation.paths
        ],
    }


def _mined(run: OpenRun, relation: str | None, n: int, deadline: Deadline) -> dict[str, Any]:
    facts = [
        {
            **_fact(run, fact.head, fact.relation, fact.tail),
            "score": fact.score,
            "plausibility": fact.plausibility,
            "probability": fact.probability,
            "rank": fact.rank,
        }
        for fact in mine(run.up_to_date(), relation=relation, n=n, track=deadline)
    ]
    return {"run": run.name, "complete": not deadline.reached, "facts": facts}


def _fact(run: OpenRun, head: str, relation: str, tail: str) -> dict[str, Any]:
    entities, relations = run.graph.entities.index, run.graph.relations.index
    return run.fact(entities[head], relations[relation], entities[tail])
