"""Questions of several requests, answered by as few products as possible."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import NamedTuple

from conjoin.graph.graph import Vocabulary
from conjoin.predict.inputs import KnownWords, question_words, untrained
from conjoin.predict.predictor import Answer, Predictor, Question
from conjoin.server.responses import encoded, in_pieces

STEPS = (16, 128, 1024)
"""Questions share a product when their k falls into the same step: a k of 1,000 must not make the others slow."""


@dataclass(frozen=True)
class BatchQuery:
    """One question with exactly one None among its names."""

    head: str | None
    relation: str | None
    tail: str | None
    k: int = 10
    only_new: bool = False
    candidates: tuple[str, ...] | None = None

    @property
    def company(self) -> Hashable:
        """Questions with the same company are scored together."""
        return self.relation is None, self.only_new, self.candidates, next(s for s in STEPS if self.k <= s)


class BatchAnswer(NamedTuple):
    """The answers to a question, and what of both occurs in no training fact."""

    answers: list[Answer]
    untrained: list[KnownWords]


def encoded_together(predictor: Predictor, questions: list[BatchQuery]) -> list[bytes]:
    """The answers to each question as JSON: the members `answers` and `untrained` of its result, without braces.

    Encoded here, in the thread that scores: a hundred thousand answers as Python objects take much memory, and time of
    the collector that holds up every thread.
    """
    return [
        b'"answers":%b,"untrained":%b'
        % (
            b"".join(in_pieces([vars(answer) for answer in found.answers])),
            encoded([named(vocabulary, i) for vocabulary, i in found.untrained]),
        )
        for found in answer_together(predictor, questions)
    ]


def named(vocabulary: Vocabulary, i: int) -> dict[str, str]:
    """An entity or a relation as answers show it."""
    return {"name": vocabulary.names[i], "label": vocabulary.label(i)}


def answer_together(predictor: Predictor, questions: list[BatchQuery]) -> list[BatchAnswer]:
    """The answers to each question, in order, the same as one by one."""
    groups: dict[Hashable, list[int]] = {}
    for place, question in enumerate(questions):
        groups.setdefault(question.company, []).append(place)
    answered: dict[int, BatchAnswer] = {}
    for places in groups.values():
        group = [questions[place] for place in places]
        asked = [Question(q.head, q.relation, q.tail) for q in group]
        found = predictor.ask_many(
            asked,
            k=max(q.k for q in group),
            only_new=group[0].only_new,
            candidates=group[0].candidates,
        )
        for place, parts, best in zip(places, asked, found, strict=True):
            answers = best[: questions[place].k]
            words = question_words(predictor.graph, parts, (answer.entity for answer in answers))
            answered[place] = BatchAnswer(answers, untrained(predictor.graph, words))
    return [answered[place] for place in range(len(questions))]
