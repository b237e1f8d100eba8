"""Routes that say why, and what is missing: explain, mine."""

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
"""Of the time that a request has, mining takes this much and then gives what it has found."""
ATTENTION = 0.25
"""Seconds between two looks whether the client is still there."""


class Deadline:
    """A track that ends when the time is up, so that the work gives what it has."""

    def __init__(self, seconds: float) -> None:
        self._until = time.monotonic() + seconds
        self.reached = False

    def give_up(self) -> None:
        """Nobody waits any more."""
        self._until = 0.0

    def __call__(self, steps: Iterable[T], what: str, total: int | None) -> Iterator[T]:
        del what, total
        for step in steps:
            if time.monotonic() > self._until:
                self.reached = True
                return
            yield step


def explain_routes(shelf: OpenRuns, *, seconds: float) -> APIRouter:
    """The routes, bound to the open runs."""
    router = APIRouter(tags=["predictions"])
    one_at_a_time = asyncio.Semaphore(1)

    async def why(wanted: schemas.ExplainRequest) -> FiniteJsonResponse:
        run = shelf[wanted.run]
        entities, relations = run.graph.entities, run.graph.relations
        h, t = await shelf.find(entities, wanted.head), await shelf.find(entities, wanted.tail)
        r = await shelf.find(relations, wanted.relation)
        return FiniteJsonResponse(await shelf.in_thread(_explained, run, (h, r, t), wanted.k))

    @router.get("/explain", response_model=schemas.Explained, summary="Training facts that support a fact")
    async def explain_one(wanted: Annotated[schemas.ExplainRequest, Query()]) -> FiniteJsonResponse:
        return await why(wanted)

    @router.post("/explain", response_model=schemas.Explained, summary="Training facts that support a fact")
    async def explain_by_post(wanted: schemas.ExplainRequest) -> FiniteJsonResponse:
        return await why(wanted)

    @router.get("/mine", response_model=schemas.MinedResponse, summary="The most probable missing facts")
    async def mined(request: Request, wanted: Annotated[schemas.MineRequest, Query()]) -> FiniteJsonResponse:
        run = shelf[wanted.run]
        relation = None
        if wanted.relation is not None:
            relation = run.graph.relations.names[await shelf.find(run.graph.relations, wanted.relation)]

        async def in_turn() -> dict[str, Any]:
            async with one_at_a_time:
                deadline = Deadline(seconds * MINING_SHARE)
                try:
                    return await shelf.in_thread(_mined, run, relation, wanted.n, deadline)
                finally:
                    deadline.give_up()

        return FiniteJsonResponse(await _while_there(request, in_turn()))

    return router


async def _while_there(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """The result of slow work, unless the client goes away: who clicks on must not wait behind what nobody reads."""
    begun = asyncio.ensure_future(work)
    try:
        while not begun.done():
            await asyncio.wait({begun}, timeout=ATTENTION)
            if not begun.done() and await request.is_disconnected():
                raise ApiError(400, "the connection closed before the answer was there")
        return begun.result()
    finally:
        begun.cancel()


def _explained(run: OpenRun, triple: tuple[int, int, int], k: int) -> dict[str, Any]:
    [score] = scored(run, [triple])
    words = [score[place]["name"] for place in PLACES]
    found = explain(run.predictor, *words, k=k)
    return {
        "run": run.name,
        "fact": run.fact(*triple),
        "score": score["score"],
        "known": score["known"],
        "probability": score["probability"],
        "supports": [{**_fact(run, s.head, s.relation, s.tail), "strength": s.strength} for s in found.supports],
        "paths": [
            {"strength": path.strength, "steps": [_fact(run, s.head, s.relation, s.tail) for s in path.steps]}
            for path in found.paths
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
