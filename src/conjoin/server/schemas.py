"""Requests and answers as pydantic models, which also form the OpenAPI schema. Unknown fields are refused."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from conjoin.server import settings

Name = Annotated[str, Field(min_length=1, max_length=settings.NAME)]
RunName = Annotated[
    str | None, Field(max_length=settings.NAME, description="Name of an open run; by default the first one.")
]
Most = Annotated[int, Field(ge=1, le=settings.K, description="Number of answers.")]
Candidates = Annotated[
    list[Name] | None,
    Field(max_length=settings.CANDIDATES, fail_fast=True, description="Rank only these names or labels."),
]
Format = Literal["json", "binary"]


class Strict(BaseModel):
    """A request that refuses unknown fields.

    Only the first error of a request is reported: collecting a hundred thousand errors would block every other request
    for seconds. This check and `fail_fast` lists stop at the first error.
    """

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _one_unknown_field(cls, given: Any) -> Any:
        if not isinstance(given, dict) or len(given) <= len(cls.model_fields):
            return given
        known = {name: value for name, value in given.items() if name in cls.model_fields}
        first = next(name for name in given if name not in cls.model_fields)
        return {**known, first: given[first]}


class RunRequest(Strict):
    """A request to one run."""

    run: RunName = None


class RequestItem(Strict):
    """One element of a list in a request."""


class QuestionPart(RequestItem):
    """A question. Exactly one of head, relation and tail must be null, missing or '?'."""

    head: Name | None = None
    relation: Name | None = None
    tail: Name | None = None


class TriplePart(RequestItem):
    head: Name
    relation: Name
    tail: Name


class AskRequest(RunRequest):
    head: Name | None = None
    relation: Name | None = None
    tail: Name | None = None
    k: Most = 10
    only_new: bool = False
    candidates: Candidates = None


class AskManyRequest(RunRequest):
    questions: Annotated[list[QuestionPart], Field(min_length=1, max_length=settings.QUESTIONS, fail_fast=True)]
    k: Most = 10
    only_new: bool = False
    candidates: Candidates = None


class ScoreRequest(RunRequest):
    head: Name
    relation: Name
    tail: Name


class ScoreManyRequest(RunRequest):
    triples: Annotated[list[TriplePart], Field(min_length=1, max_length=settings.QUESTIONS, fail_fast=True)]


class SimilarRequest(RunRequest):
    entity: Name
    k: Most = 10


class ExplainRequest(ScoreRequest):
    k: Annotated[int, Field(ge=1, le=settings.SUPPORTS)] = 5


class EntitySearchRequest(RunRequest):
    q: Annotated[str, Field(max_length=settings.SEARCH)] = ""
    limit: Annotated[int, Field(ge=1, le=settings.FOUND)] = 10


class RelationSearchRequest(RunRequest):
    q: Annotated[str, Field(max_length=settings.SEARCH)] = ""
    limit: Annotated[int, Field(ge=1, le=settings.RELATIONS)] = settings.RELATIONS


class EntityRequest(RunRequest):
    entity: Name
    facts: Annotated[int, Field(ge=0, le=settings.FACTS)] = 200
    nodes: Annotated[int, Field(ge=1, le=settings.NODES)] = 40


class MineRequest(RunRequest):
    relation: Name | None = None
    n: Annotated[int, Field(ge=1, le=settings.MINED)] = 100


class MapRequest(RunRequest):
    method: Literal["pca", "umap", "pacmap"] | None = None
    limit: Annotated[int, Field(ge=1, le=settings.POINTS)] = settings.POINTS
    format: Format = "json"


class GeometryRequest(RunRequest):
    relation: Name
    coordinate: Annotated[int | None, Field(ge=0)] = None
    entity: Name | None = None
    reverse: bool = False
    iterates: Annotated[int, Field(ge=1, le=settings.ITERATES)] = 5
    reading: Annotated[
        Literal["trained", "mobius"],
        Field(description="mobius: draw runs with quotient phase or aligned as Möbius maps."),
    ] = "trained"


class StudyRequest(RunRequest):
    name: Name


class Reason(BaseModel):
    reason: str
    hint: str


class ErrorResponse(BaseModel):
    """The body of every error."""

    error: Reason


class Named(BaseModel):
    name: str
    label: str


Untrained = Annotated[
    list[Named], Field(description="Names that occur in no training fact; the model has learned nothing about them.")
]


class Entity(Named):
    degree: int


class FactResponse(BaseModel):
    head: Named
    relation: Named
    tail: Named


class AnswerShape(BaseModel):
    entity: str
    label: str
    score: float
    known: bool
    probability: float | None


class QuestionShape(BaseModel):
    head: Named | None
    relation: Named | None
    tail: Named | None


class Result(BaseModel):
    asked: Literal["head", "relation", "tail"]
    question: QuestionShape
    answers: list[AnswerShape]
    untrained: Untrained


class OneResult(Result):
    run: str
    seconds: float


class ManyResults(BaseModel):
    run: str
    seconds: float
    results: list[Result]


class ScoreShape(FactResponse):
    score: float
    rank: int
    known: bool
    probability: float | None


class Scores(BaseModel):
    run: str
    scores: list[ScoreShape]
    untrained: Untrained


class SimilarShape(BaseModel):
    entity: str
    label: str
    score: float
    linked: bool


class Similar(BaseModel):
    run: str
    entity: Entity
    similar: list[SimilarShape]


class Entities(BaseModel):
    run: str
    q: str
    entities: list[Entity]


class PatternShape(BaseModel):
    pattern: Literal["symmetric", "inverse"]
    other: Named
    support: int
    confidence: float


class BothWays(BaseModel):
    tail: dict[str, float] | None
    head: dict[str, float] | None


class RelationShape(Named):
    train: int
    valid: int
    test: int
    tails_per_head: float | None
    heads_per_tail: float | None
    cardinality: str | None
    patterns: list[PatternShape]
    ranks: BothWays


class Relations(BaseModel):
    run: str
    total: int
    relations: list[RelationShape]


class SplitFact(FactResponse):
    split: Literal["train", "valid", "test"]


class Node(Entity):
    hops: int


class Edge(BaseModel):
    source: str
    target: str
    relation: Named


class Ego(BaseModel):
    nodes: list[Node]
    edges: list[Edge]


class EntityPage(BaseModel):
    run: str
    entity: Entity
    total: int
    facts: list[SplitFact]
    graph: Ego


class SupportResponse(FactResponse):
    strength: float


class PathShape(BaseModel):
    strength: float | None
    steps: list[FactResponse]


class Explained(BaseModel):
    run: str
    fact: FactResponse
    score: float
    known: bool
    probability: float | None
    supports: list[SupportResponse]
    paths: list[PathShape]


class MinedShape(FactResponse):
    score: float
    plausibility: float
    probability: float | None
    rank: int


class MinedResponse(BaseModel):
    run: str
    complete: bool
    facts: list[MinedShape]


class ClassShape(BaseModel):
    label: str
    count: int


class MapShape(BaseModel):
    run: str
    method: str
    methods: list[str]
    total: int
    count: int
    names: list[str]
    labels: list[str]
    x: list[float]
    y: list[float]
    degree: list[int]
    classes: list[ClassShape]
    of_class: Annotated[list[int], Field(alias="class")]


class CoordinatesShape(BaseModel):
    kind: list[str]
    weight: list[float]


class GeometryShape(BaseModel):
    run: str
    form: str
    symbol: str
    relation: Named
    reverse: bool
    reading: Literal["trained", "mobius"] | None
    note: str
    entity: Named | None
    coordinates: CoordinatesShape
    scene: dict[str, Any] | None


class Runs(BaseModel):
    conjoin: str
    runs: list[dict[str, Any]]
    limits: dict[str, int]


class StudyLine(BaseModel):
    name: str
    title: str
    cells: int
    datasets: list[str]


class Studies(BaseModel):
    studies: list[StudyLine]


class Status(BaseModel):
    status: str
