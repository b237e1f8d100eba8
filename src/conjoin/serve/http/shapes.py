"""The shapes of requests and answers, which are also the OpenAPI schema. Unknown fields are refused."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from conjoin.serve.http import limits

Name = Annotated[str, Field(min_length=1, max_length=limits.NAME)]
RunName = Annotated[str | None, Field(max_length=limits.NAME, description="An open run; the first one by default.")]
Most = Annotated[int, Field(ge=1, le=limits.K, description="How many answers.")]
Candidates = Annotated[
    list[Name] | None, Field(max_length=limits.CANDIDATES, fail_fast=True, description="Rank only these.")
]
Format = Literal["json", "binary"]


class Strict(BaseModel):
    """Fields of a request; others are refused.

    Only the first error of a request is reported. Collecting all of them takes seconds where a hundred thousand fields
    are wrong, and every other request waits meanwhile: hence this check, and lists that stop at their first error.
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


class Wanted(Strict):
    """A request."""

    run: RunName = None


class Part(Strict):
    """A part of a request."""


class QuestionPart(Part):
    """Exactly one of the three is null or '?'."""

    head: Name | None = None
    relation: Name | None = None
    tail: Name | None = None


class TriplePart(Part):
    head: Name
    relation: Name
    tail: Name


class OneQuestion(Wanted):
    head: Name | None = None
    relation: Name | None = None
    tail: Name | None = None
    k: Most = 10
    only_new: bool = False
    candidates: Candidates = None


class ManyQuestions(Wanted):
    questions: Annotated[list[QuestionPart], Field(min_length=1, max_length=limits.QUESTIONS, fail_fast=True)]
    k: Most = 10
    only_new: bool = False
    candidates: Candidates = None


class OneTriple(Wanted):
    head: Name
    relation: Name
    tail: Name


class ManyTriples(Wanted):
    triples: Annotated[list[TriplePart], Field(min_length=1, max_length=limits.QUESTIONS, fail_fast=True)]


class LikeThis(Wanted):
    entity: Name
    k: Most = 10


class ToExplain(OneTriple):
    k: Annotated[int, Field(ge=1, le=limits.SUPPORTS)] = 5


class Search(Wanted):
    q: Annotated[str, Field(max_length=limits.SEARCH)] = ""
    limit: Annotated[int, Field(ge=1, le=limits.FOUND)] = 10


class RelationSearch(Wanted):
    q: Annotated[str, Field(max_length=limits.SEARCH)] = ""
    limit: Annotated[int, Field(ge=1, le=limits.RELATIONS)] = limits.RELATIONS


class AboutEntity(Wanted):
    entity: Name
    facts: Annotated[int, Field(ge=0, le=limits.FACTS)] = 200
    nodes: Annotated[int, Field(ge=1, le=limits.NODES)] = 40


class ToMine(Wanted):
    relation: Name | None = None
    n: Annotated[int, Field(ge=1, le=limits.MINED)] = 100


class MapWanted(Wanted):
    method: Literal["pca", "umap", "pacmap"] | None = None
    limit: Annotated[int, Field(ge=1, le=limits.POINTS)] = limits.POINTS
    format: Format = "json"


class GeometryWanted(Wanted):
    relation: Name
    coordinate: Annotated[int | None, Field(ge=0)] = None
    entity: Name | None = None
    reverse: bool = False
    iterates: Annotated[int, Field(ge=1, le=limits.ITERATES)] = 5
    reading: Annotated[Literal["trained", "mobius"], Field(description="mobius: read phase and aligned runs so.")] = (
        "trained"
    )


class StudyWanted(Wanted):
    name: Name


class Reason(BaseModel):
    reason: str
    hint: str


class Problem(BaseModel):
    """Every answer that is not a success."""

    error: Reason


class Named(BaseModel):
    name: str
    label: str


Untrained = Annotated[
    list[Named], Field(description="Names in it that occur in no training fact: nothing is learned about them.")
]


class Entity(Named):
    degree: int


class Fact(BaseModel):
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


class ScoreShape(Fact):
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


class SplitFact(Fact):
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


class Support(Fact):
    strength: float


class PathShape(BaseModel):
    strength: float | None
    steps: list[Fact]


class Explained(BaseModel):
    run: str
    fact: Fact
    score: float
    known: bool
    probability: float | None
    supports: list[Support]
    paths: list[PathShape]


class MinedShape(Fact):
    score: float
    plausibility: float
    probability: float | None
    rank: int


class Mined(BaseModel):
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
