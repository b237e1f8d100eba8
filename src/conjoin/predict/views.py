"""Answers as JSON, the same for the command line and the service. Does not import torch."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from conjoin.predict.mining import MinedFact
    from conjoin.predict.predictor import Answer, Scored


def answer_json(answer: Answer) -> dict[str, Any]:
    """One answer to a question: entity, label, score, known and probability."""
    return dict(vars(answer))


def scored_json(scored: Scored) -> dict[str, Any]:
    """One scored fact: its names, label, score, rank, known and probability."""
    return dict(vars(scored))


def mined_json(fact: MinedFact) -> dict[str, Any]:
    """One mined fact with its names, score, probability, rank, plausibility and label."""
    return dict(vars(fact))


def similar_json(answers: Iterable[Answer]) -> list[dict[str, Any]]:
    """Similar entities, each with its cosine as `score`; `linked` says whether a fact joins it to the entity."""
    return [{"entity": a.entity, "label": a.label, "score": a.score, "linked": a.known} for a in answers]
