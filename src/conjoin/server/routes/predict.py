"""Routes that use the model: ask, score, similar."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from typing import Annotated, Any, NamedTuple

from fastapi import APIRouter, Query

from conjoin.graph.column_roles import PLACES
from conjoin.graph.graph import Vocabulary
from conjoin.predict.inputs import all_words, untrained
from conjoin.predict.predictor import UNKNOWN
from conjoin.predict.views import similar_json
from conjoin.server import schemas, settings
from conjoin.server.batch_predict import BatchQuery
from conjoin.server.open_runs import OpenRun, OpenRuns
from conjoin.server.responses import ApiError, FiniteJsonResponse, LargeReply, between, encoded

FEW = 16
"""Up to this many names are looked up in the event loop, more in a thread."""


def prediction_routes(open_runs: OpenRuns) -> APIRouter:
    """The routes of these open runs."""
    router = APIRouter(tags=["predictions"])

    @router.get("/ask", response_model=schemas.OneResult, summary="Answer one question with one unknown")
    async def ask(params: Annotated[schemas.AskRequest, Query()]) -> LargeReply:
        began = time.perf_counter()
        run = open_runs[params.run]
        part = schemas.QuestionPart(head=params.head, relation=params.relation, tail=params.tail)
        [result] = await _asked(open_runs, run, [part], params)
        seconds = encoded({"run": run.name, "seconds": time.perf_counter() - began})
        return LargeReply([seconds[:-1], b",", result[1:]])

    @router.post("/ask", response_model=schemas.ManyResults, summary="Answer many questions")
    async def ask_many(params: schemas.AskManyRequest) -> LargeReply:
        began = time.perf_counter()
        run = open_runs[params.run]
        results = await _asked(open_runs, run, params.questions, params)
        seconds = encoded({"run": run.name, "seconds": time.perf_counter() - began})
        return await open_runs.encode(LargeReply, chain([seconds[:-1], b',"results":['], between(results), [b"]}"]))

    @router.get("/score", response_model=schemas.Scores, summary="Score one fact")
    async def score(params: Annotated[schemas.ScoreRequest, Query()]) -> FiniteJsonResponse:
        part = schemas.TriplePart(head=params.head, relation=params.relation, tail=params.tail)
        return FiniteJsonResponse(await _scored(open_runs, open_runs[params.run], [part]))

    @router.post("/score", response_model=schemas.Scores, summary="Score many facts")
    async def score_many(params: schemas.ScoreManyRequest) -> LargeReply:
        return await open_runs.large(await _scored(open_runs, open_runs[params.run], params.triples))

    async def alike(params: schemas.SimilarRequest) -> FiniteJsonResponse:
        run = open_runs[params.run]
        entity = await open_runs.find(run.graph.entities, params.entity)
        best = await open_runs.in_thread(run.predictor.similar, run.graph.entities.names[entity], params.k)
        lines = similar_json(best)
        return FiniteJsonResponse({"run": run.name, "entity": run.entity(entity), "similar": lines})

    @router.get("/similar", response_model=schemas.Similar, summary="Entities with similar embeddings")
    async def similar(params: Annotated[schemas.SimilarRequest, Query()]) -> FiniteJsonResponse:
        return await alike(params)

    @router.post("/similar", response_model=schemas.Similar, summary="Entities with similar embeddings")
    async def similar_by_post(params: schemas.SimilarRequest) -> FiniteJsonResponse:
        return await alike(params)

    return router


class _Prepared(NamedTuple):
    """Questions as names of the graph; for each, the first half of its result as JSON without the closing brace."""

    questions: list[BatchQuery]
    about: list[bytes]


class _NotIndexed(Exception):
    """A word that is not in the index of names; it may be a label."""


async def _asked(
    open_runs: OpenRuns,
    run: OpenRun,
    parts: list[schemas.QuestionPart],
    params: schemas.AskRequest | schemas.AskManyRequest,
) -> Iterator[bytes]:
    """The results of all questions as one JSON object each, scored in one submission."""
    if len(parts) * params.k > settings.ANSWERS:
        raise ApiError(
            422,
            f"{len(parts)} questions with k = {params.k} request more than {settings.ANSWERS} answers.",
            "Send fewer questions or use a smaller k.",
        )
    try:
        if len(parts) + len(params.candidates or ()) > FEW:
            raise _NotIndexed
        prepared = _prepared(_in_index, run, parts, params)
    except _NotIndexed:  # many names or labels: look them up in a thread
        prepared = await open_runs.encode(_prepared, open_runs.look_up, run, parts, params)
    answered = await run.batcher.submit(prepared.questions)
    return map(b"%b,%b}".__mod__, zip(prepared.about, answered, strict=True))


def _prepared(
    find: Callable[[Vocabulary, str], int],
    run: OpenRun,
    parts: list[schemas.QuestionPart],
    params: schemas.AskRequest | schemas.AskManyRequest,
) -> _Prepared:
    vocabularies = {"head": run.graph.entities, "relation": run.graph.relations, "tail": run.graph.entities}
    prepared = _Prepared([], [])
    chosen: dict[str, tuple[str, ...]] = {}
    for part in parts:
        ids = _ids(find, vocabularies, part)
        [asked] = vocabularies.keys() - ids.keys()
        if params.candidates is not None and asked not in chosen:
            vocabulary = vocabularies[asked]
            ids_of_candidates = {find(vocabulary, word) for word in params.candidates}
            chosen[asked] = tuple(vocabulary.names[i] for i in sorted(ids_of_candidates))
        named = {place: run.named(vocabularies[place], i) for place, i in ids.items()}
        words = {place: named[place]["name"] if place in named else None for place in PLACES}
        prepared.questions.append(
            BatchQuery(**words, k=params.k, only_new=params.only_new, candidates=chosen.get(asked))
        )
        about = {"asked": asked, "question": {place: named.get(place) for place in PLACES}}
        prepared.about.append(encoded(about)[:-1])
    return prepared


def _in_index(vocabulary: Vocabulary, word: str) -> int:
    found = vocabulary.index.get(word)
    if found is None:
        raise _NotIndexed
    return found


def _ids(
    find: Callable[[Vocabulary, str], int], vocabularies: Mapping[str, Vocabulary], part: schemas.QuestionPart
) -> dict[str, int]:
    """The ids of the two given parts of a question."""
    given = {place: word for place in PLACES if (word := getattr(part, place)) not in (None, UNKNOWN)}
    ids = {place: find(vocabularies[place], word) for place, word in given.items()}
    if len(ids) != 2:
        reason = f"The question has {len(PLACES) - len(ids)} unknowns; it must have exactly 1."
        raise ApiError(400, reason, "Leave out one of head, relation and tail, or write ? for it.")
    return ids


async def _scored(open_runs: OpenRuns, run: OpenRun, parts: list[schemas.TriplePart]) -> dict[str, Any]:
    return await open_runs.in_thread(_judged, open_runs, run, parts)


def _judged(open_runs: OpenRuns, run: OpenRun, parts: list[schemas.TriplePart]) -> dict[str, Any]:
    entities, relations = run.graph.entities, run.graph.relations
    rows = scored(
        run,
        [
            (
                open_runs.look_up(entities, p.head),
                open_runs.look_up(relations, p.relation),
                open_runs.look_up(entities, p.tail),
            )
            for p in parts
        ],
    )
    facts = ((row["head"]["name"], row["relation"]["name"], row["tail"]["name"]) for row in rows)
    without_facts = untrained(run.graph, (word for fact in facts for word in all_words(run.graph)(fact)))
    return {"run": run.name, "scores": rows, "untrained": [run.named(*one) for one in without_facts]}


def scored(run: OpenRun, triples: list[tuple[int, int, int]]) -> list[dict[str, Any]]:
    lines = run.up_to_date().score([run.graph.names(*triple) for triple in triples])
    return [
        {
            **run.fact(*triple),
            "score": line.score,
            "rank": line.rank,
            "known": line.known,
            "probability": line.probability,
        }
        for triple, line in zip(triples, lines, strict=True)
    ]
