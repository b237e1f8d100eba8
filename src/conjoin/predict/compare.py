"""Compare the answers of several runs to one question."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from conjoin.errors import UsageError
from conjoin.predict.predictor import Predictor, Question


@dataclass(frozen=True)
class AnswerPlace:
    """One run's view of an answer: rank among all candidates, score, and probability if new and calibrated."""

    rank: int
    score: float
    probability: float | None


@dataclass(frozen=True)
class ComparedAnswer:
    """One answer and its view by each run; None where a run lacks the name or excludes the answer."""

    entity: str
    label: str
    known: bool
    places: tuple[AnswerPlace | None, ...]


def compare(
    predictors: Sequence[Predictor],
    question: Question,
    *,
    k: int = 10,
    only_new: bool = False,
    candidates: Sequence[str] | None = None,
) -> list[ComparedAnswer]:
    """Every answer that is among the k best of any run, sorted by mean reciprocal rank over the runs.

    Scores of different runs are not comparable, but ranks and probabilities are. `known` marks facts of any graph.

    >>> from conjoin.graph.graph import Graph
    >>> from conjoin.model.model import Model
    >>> facts = [("France", "borders", "Spain"), ("Spain", "borders", "Portugal"), ("Spain", "borders", "France")]
    >>> graph = Graph.from_triples(facts)
    >>> runs = [Predictor(Model("complex", 3, 1, rank=4, seed=seed), graph) for seed in (0, 1)]
    >>> [len(answer.places) for answer in compare(runs, Question("France", "borders"), k=3)]
    [2, 2]
    """
    if not predictors:
        raise UsageError("There are no runs to compare. Give at least one.")
    labels: dict[str, str] = {}
    for predictor in predictors:
        for answer in predictor.ask(*question, k=k, only_new=only_new, candidates=candidates):
            labels.setdefault(answer.entity, answer.label)
    found = [_places(predictor, question, list(labels), candidates, only_new=only_new) for predictor in predictors]
    known = set[str]().union(*(facts for _, facts in found))
    compared = [
        ComparedAnswer(name, labels[name], name in known, tuple(places[number] for places, _ in found))
        for number, name in enumerate(labels)
    ]
    return sorted(compared, key=lambda answer: np.mean([1 / p.rank if p else 0 for p in answer.places]), reverse=True)


def _places(
    predictor: Predictor, question: Question, names: Sequence[str], candidates: Sequence[str] | None, *, only_new: bool
) -> tuple[list[AnswerPlace | None], set[str]]:
    """A run's view of each name, and the names of its known answers."""
    asked = predictor.parse(question)
    scores, facts, competes = predictor.scores(asked)
    vocabulary = predictor.graph.relations if asked.r is None else predictor.graph.entities
    if candidates is not None:
        competes &= np.isin(np.arange(len(competes)), [vocabulary.find(name) for name in candidates])
    if only_new:
        competes[facts] = False
    places: list[AnswerPlace | None] = []
    for name in names:
        i = vocabulary.index.get(name)
        if i is None or not competes[i]:
            places.append(None)
            continue
        relation = np.array([i if asked.r is None else asked.r])
        (probability,) = predictor.probabilities(relation, scores[i : i + 1])
        rank = 1 + int((scores[competes] > scores[i]).sum())
        places.append(AnswerPlace(rank, float(scores[i]), None if i in facts else probability))
    return places, {vocabulary.names[i] for i in facts.tolist()}
