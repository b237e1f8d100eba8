"""Questions of several requests, scored in as few matrix products as possible."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import NamedTuple

from conjoin.graph.graph import Vocabulary
from conjoin.predict.inputs import KnownWords, question_words, untrained
from conjoin.predict.predictor import Answer, Predictor, Question
from conjoin.predict.views import answer_json
from conjoin.server.responses import encoded, in_pieces

STEPS = (16, 128, 1024)
"""Upper bounds of k. Only questions with k in the same step are scored together, so a large k does not slow others."""


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
    def batch_key(self) -> Hashable:
        """Questions with the same key can be scored together."""
        return self.relation is None, self.only_new, self.candidates, next(s for s in STEPS if self.k <= s)


class BatchAnswer(NamedTuple):
    """The answers to a question, and the names in either that occur in no training fact."""

    answers: list[Answer]
    untrained: list[KnownWords]


def encoded_together(predictor: Predictor, questions: list[BatchQuery]) -> list[bytes]:
    """The answers to each question as JSON: the members `answers` and `untrained`, without the surrounding braces.

    Encoding happens in the scoring thread. A hundred thousand answers as Python objects would take much memory, and
    collecting them as garbage would stop every thread.
    """
    return [
        b'"answers":%b,"untrained":%b'
        % (
            b"".join(in_pieces([answer_json(answer) for answer in result.answers])),
            encoded([named(vocabulary, i) for vocabulary, i in result.untrained]),
        )
        for result in answer_together(predictor, questions)
    ]


def named(vocabulary: Vocabulary, i: int) -> dict[str, str]:
    """An entity or a relation as JSON: its name and its label."""
    return {"name": vocabulary.names[i], "label": vocabulary.label(i)}


def answer_together(predictor: Predictor, questions: list[BatchQuery]) -> list[BatchAnswer]:
    """The answers to each question in order, as if each question were scored alone."""
    groups: dict[Hashable, list[int]] = {}
    for i, question in enumerate(questions):
        groups.setdefault(question.batch_key, []).append(i)
    answered: dict[int, BatchAnswer] = {}
    for members in groups.values():
        group = [questions[i] for i in members]
        asked = [Question(q.head, q.relation, q.tail) for q in group]
        ranked = predictor.ask_many(
            asked,
            k=max(q.k for q in group),
            only_new=group[0].only_new,
            candidates=group[0].candidates,
        )
        for i, parts, best in zip(members, asked, ranked, strict=True):
            answers = best[: questions[i].k]
            words = question_words(predictor.graph, parts, (answer.entity for answer in answers))
            answered[i] = BatchAnswer(answers, untrained(predictor.graph, words))
    return [answered[i] for i in range(len(questions))]
