"""The rows of a study in the order of their MRR, each tested against one of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from conjoin.report.collect import Findings, RowResult
from conjoin.report.stats import Answers, Paired, holm, paired_by_t


@dataclass(frozen=True, kw_only=True)
class RankedRow:
    """A row, its place among those that were run, and the paired test of it against the reference row."""

    outcome: RowResult
    place: int
    mrr: float
    seeds: int
    against: Paired | None = None
    holm: float | None = None


def ranked(
    findings: Findings, dataset: str, *, reference: str, competes: Callable[[RowResult], bool] = lambda _: True
) -> tuple[RankedRow, ...]:
    """Best first. Seeds that not every compared row has are left out, so that nobody wins by the luck of more seeds."""
    run = [outcome for outcome in findings.on(dataset) if outcome.runs and competes(outcome)]
    shared = set.intersection(*({each.seed for each in outcome.runs} for outcome in run)) if run else set()
    answers = {
        outcome.row.name: Answers.of(each.folder.ranks("test") for each in outcome.runs if each.seed in shared)
        for outcome in run
        if shared
    }
    means = {name: float(np.mean(each.reciprocal)) for name, each in answers.items()}
    order = sorted((outcome for outcome in run if shared), key=lambda outcome: -means[outcome.row.name])
    found = [
        RankedRow(
            outcome=outcome,
            place=place,
            mrr=means[outcome.row.name],
            seeds=len(shared),
            against=paired_by_t(answers[outcome.row.name], answers[reference])
            if reference in answers and outcome.row.name != reference
            else None,
        )
        for place, outcome in enumerate(order, start=1)
    ]
    corrected = holm([each.against.p if each.against else None for each in found])
    return tuple(replace(each, holm=p) for each, p in zip(found, corrected, strict=True))
