"""Decides which values of a table are best, and whether a published number was reproduced."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from conjoin.report.collect import QUALITY, Findings, RowResult
from conjoin.report.formatting import bare, printed_mean, printed_sd
from conjoin.report.stats import Moments, welch
from conjoin.studies.spec import MEASURES

WITHIN = {"mrr": 0.003, "hits1": 0.005, "hits3": 0.005, "hits10": 0.005}
"""Largest distance from the printed value that counts as a reproduction."""
UNPUBLISHED = "no published number"
ROUNDING = 1e-9
"""Tolerance for rounding in binary numbers: .353 − .350 counts as a difference of .003."""

RULE = (
    "Bold marks the best values of a dataset by the paper's rule; on the paper's numbers it gives exactly the"
    " bold values of the paper. All rows of the main table and all other tested rows compete; ablations without"
    " tests and controls do not. The best printed mean leads: the highest for quality, the lowest for time."
    " Between equal printed means the smaller printed deviation leads. For time and MRR, values that Welch's test"
    " cannot distinguish from a leading one are bold too. Hits@n are not tested; there, all equal printed means"
    " are bold."
)


@dataclass(frozen=True)
class PrintedValue:
    """A value as printed. `sd` is None without a standard deviation."""

    mean: float
    sd: float | None = None


def best_values(
    values: Mapping[str, PrintedValue], *, lowest: bool, equal: Callable[[str, str], bool]
) -> frozenset[str]:
    """The names whose values are bold: the leading values and all values statistically `equal` to one of them.

    The leading ones have the best printed mean and, among equal means, the smallest printed deviation. A value without
    a deviation (one seed) cannot lose by it.
    """
    if not values:
        return frozenset()
    top = (min if lowest else max)(shown.mean for shown in values.values())
    first = {name: shown.sd for name, shown in values.items() if shown.mean == top}
    smallest = min((sd for sd in first.values() if sd is not None), default=None)
    leading = {name for name, sd in first.items() if sd is None or sd == smallest}
    return frozenset(name for name in values if name in leading or any(equal(name, leader) for leader in leading))


def competing(findings: Findings, dataset: str) -> tuple[RowResult, ...]:
    """The outcomes that compete for the best values of a dataset."""
    tested = {row for each in findings.study.comparisons if dataset in each.datasets for row in (each.a, each.b)}
    return tuple(
        outcome
        for outcome in findings.on(dataset)
        if outcome.row.group == "main" or (outcome.row.group == "ablation" and outcome.row.name in tested)
    )


def best_rows(findings: Findings, dataset: str, measure: str) -> frozenset[str]:
    """The rows whose value of a measure is bold on a dataset."""
    moments = {o.row.name: m for o in competing(findings, dataset) if (m := o.moments(measure)) is not None}
    tested = measure in MEASURES

    def shown(value: Moments) -> PrintedValue:
        sd = printed_sd(measure, value) if tested else ""
        return PrintedValue(float(printed_mean(measure, value)), float(sd) if sd else None)

    def equal(a: str, b: str) -> bool:
        p = welch(moments[a], moments[b]) if tested else None
        return p is not None and p >= findings.study.alpha

    values = {name: shown(value) for name, value in moments.items()}
    return best_values(values, lowest=measure == "seconds", equal=equal)


def published_value(outcome: RowResult, measure: str) -> float | None:
    """The published value with which a measure may be compared; None for a stand-in graph."""
    if outcome.published is None or outcome.benchmark.stand_in:
        return None
    value: float | None = getattr(outcome.published, measure)
    return value


def difference(outcome: RowResult, measure: str) -> float | None:
    """Our mean minus the printed one."""
    ours, printed = outcome.moments(measure), published_value(outcome, measure)
    return None if ours is None or printed is None else ours.mean - printed


def reproduced(outcome: RowResult, measure: str) -> bool | None:
    """Whether the mean is close enough to the printed one; None if either is missing."""
    apart = difference(outcome, measure)
    return None if apart is None else abs(apart) <= WITHIN[measure] + ROUNDING


def verdict(findings: Findings, outcome: RowResult) -> str:
    """The verdict on the MRR of an outcome, in words."""
    if outcome.absent:
        return outcome.absent
    if outcome.benchmark.stand_in:
        return f"ran on {outcome.benchmark.graph}, a stand-in: not comparable"
    if outcome.published is None or outcome.published.mrr is None:
        return UNPUBLISHED
    words = _apart(outcome, "mrr")
    if outcome.judged:
        return words
    judge = next(r for r in findings.study.rows.values() if r.reproduces == outcome.row.name)
    return f"{words}; judged by {judge.label}"


def hits_verdict(outcome: RowResult) -> str:
    """The verdict on Hits@n in words: one phrase if all agree, otherwise the values that differ."""
    hits = [measure for measure in QUALITY if measure != "mrr" and difference(outcome, measure) is not None]
    if not hits:
        return ""
    off = [measure for measure in hits if not reproduced(outcome, measure)]
    words = [f"H@{measure.removeprefix('hits')} {_apart(outcome, measure)}" for measure in off]
    return "; ".join(words) or f"reproduced within {bare(WITHIN['hits1'])}"


def _apart(outcome: RowResult, measure: str) -> str:
    apart = difference(outcome, measure)
    if apart is None:
        return "no test questions"
    if reproduced(outcome, measure):
        return f"reproduced within {bare(WITHIN[measure])}"
    decimals = 3 if round(abs(apart), 3) > WITHIN[measure] else 4
    return f"{'higher' if apart > 0 else 'lower'} by {bare(abs(apart), decimals=decimals)}"
