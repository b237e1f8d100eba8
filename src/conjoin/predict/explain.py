"""Explain an answer by the training facts that support it and by short paths between its head and tail."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from conjoin.errors import UsageError
from conjoin.graph.adjacency import adjacency
from conjoin.model.model import single_model
from conjoin.predict.influence import AnsweredFact, influences
from conjoin.predict.paths import Path, short_paths
from conjoin.predict.predictor import Predictor


@dataclass(frozen=True)
class SupportingFact:
    """A training fact and its share, between 0 and 1, of the support by all facts nearby.

    `label` is the fact as a person reads it.
    """

    head: str
    relation: str
    tail: str
    strength: float
    label: str


@dataclass(frozen=True)
class Explanation:
    """Supporting facts and paths of one fact. `trained` says whether it is a training fact itself."""

    head: str
    relation: str
    tail: str
    label: str
    trained: bool
    supports: list[SupportingFact]
    paths: list[Path]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def explain(predictor: Predictor, head: str, relation: str, tail: str, *, k: int = 5) -> Explanation:
    """The k training facts that support an answer most, and the k paths with the largest weight from head to tail.

    Names and labels are accepted. Support is measured by gradients (`conjoin.predict.influence`): how much the answer's
    loss would rise, to first order, without the fact.

    >>> from conjoin.graph.graph import Graph
    >>> from conjoin.model.model import Model
    >>> facts = [("France", "borders", "Spain"), ("Spain", "borders", "Portugal"), ("Spain", "borders", "France")]
    >>> graph = Graph.from_triples(facts)
    >>> found = explain(Predictor(Model("complex", 3, 1, rank=4), graph), "Spain", "borders", "France")
    >>> found.trained, found.label
    (True, 'Spain borders France')
    """
    if k < 1:
        raise UsageError(f"k must be at least 1, got {k}.")
    graph = predictor.graph
    entities, relations = graph.entities, graph.relations
    answer = AnsweredFact(entities.find(head), relations.find(relation), entities.find(tail))
    numbers, influence = influences(single_model(predictor.scorer, "An explanation"), graph, answer)
    index = adjacency(graph)
    order = np.argsort(-influence, kind="stable")[:k]
    whole = influence[influence > 0].sum()

    supports = [
        SupportingFact(*graph.names(*fact), float(influence[i] / whole), graph.label(*fact))
        for i, fact in zip(order, index.facts[numbers[order]].tolist(), strict=True)
        if influence[i] > 0
    ]
    ids = (answer.h, answer.r, answer.t)
    return Explanation(
        *graph.names(*ids),
        graph.label(*ids),
        trained=bool((index.edges_of(answer.h)[:, 1:3] == ids[1:]).all(axis=1).any()),
        supports=supports,
        paths=short_paths(graph, answer.h, answer.t, without=ids, k=k),
    )
