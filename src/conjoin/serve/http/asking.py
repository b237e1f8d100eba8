"""Questions of several requests, answered by as few products as possible."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from conjoin.serve.predictor import Answer, Predictor, Question

STEPS = (16, 128, 1024)
"""Questions share a product when their k falls into the same step: a k of 1,000 must not make the others slow."""


@dataclass(frozen=True)
class Asked:
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


def answer_together(predictor: Predictor, questions: list[Asked]) -> list[list[Answer]]:
    """The answers to each question, in order, the same as one by one."""
    groups: dict[Hashable, list[int]] = {}
    for place, question in enumerate(questions):
        groups.setdefault(question.company, []).append(place)
    answers: list[list[Answer]] = [[] for _ in questions]
    for places in groups.values():
        group = [questions[place] for place in places]
        found = predictor.ask_many(
            [Question(q.head, q.relation, q.tail) for q in group],
            k=max(q.k for q in group),
            only_new=group[0].only_new,
            candidates=group[0].candidates,
        )
        for place, best in zip(places, found, strict=True):
            answers[place] = best[: questions[place].k]
    return answers
