"""Compares two rows of a study: the difference of their MRRs, and the tests that the runs allow."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from conjoin.report.collect import Findings, RowResult, collect
from conjoin.report.formatting import signed
from conjoin.report.stats import Answers, Interval, Moments, Paired, p_value, paired_by_t, welch
from conjoin.studies.parse import read_study

Verdict = Literal["proved", "confirmed", "refuted", "mixed", "open"]
SEEDS = 3
"""With this number of runs on each side, Welch's test decides; with fewer, the paired test does."""
LEVEL = 0.95
SURE = 0.05


@dataclass(frozen=True, kw_only=True)
class Scatter:
    """How far the MRRs of a row's seeds lie apart: a deviation, and over how many runs it was taken."""

    deviation: float
    runs: int

    def reach(self, *counts: int) -> float:
        """Half of the 95 % interval of a sum or difference of means over `counts` runs each, by Student's t."""
        return student(self.runs - 1) * self.deviation * math.sqrt(sum(1 / count for count in counts))


@dataclass(frozen=True, kw_only=True)
class Contrast:
    """A less B. `runs` is p of Welch's test over seeds, `questions` the paired test; either may be missing."""

    a: RowResult
    b: RowResult
    difference: float
    runs: float | None
    questions: Paired | None

    @property
    def by_seeds(self) -> bool:
        """Do the seeds decide, because there are enough of them?"""
        return self.runs is not None and min(len(self.a.runs), len(self.b.runs)) >= SEEDS

    @property
    def noise(self) -> Scatter | None:
        """How far seeds scatter."""
        return largest_scatter(self.a, self.b)

    @property
    def interval(self) -> Interval | None:
        """95 % of the difference: by Welch over the seeds where there are enough of them, else by the questions,
        widened by what is known of the scatter of seeds. None where nothing is."""
        if self.by_seeds:
            return interval_of_means((1, self.a.moments("mrr")), (-1, self.b.moments("mrr")))
        if self.questions is None or self.noise is None:
            return None
        seeds = self.noise.reach(len(self.a.runs), len(self.b.runs))
        reach = math.hypot(self.questions.interval.high - self.questions.difference, seeds)
        return Interval(self.difference - reach, self.difference + reach)

    def within(self, margin: float) -> Verdict:
        """Are both as good as each other, to a margin? Open while the interval crosses it."""
        between = self.interval
        if between is None:
            return "open"
        if -margin <= between.low and between.high <= margin:
            return "confirmed"
        return "refuted" if between.low > margin or between.high < -margin else "open"

    def beyond(self) -> bool:
        """Is A better than B by more than chance?"""
        return self.interval is not None and self.interval.low > 0

    def no_worse(self, margin: float) -> Verdict:
        """Is A no worse than B by more than a margin?"""
        between = self.interval
        if between is None:
            return "open"
        return "confirmed" if between.low >= -margin else "refuted" if between.high < -margin else "open"

    def better(self, margin: float) -> Verdict:
        """Is A better than B? Refuted where it is worse, or as good within a margin."""
        if self.interval is not None and self.interval.high < 0:
            return "refuted"
        return "confirmed" if self.beyond() else "refuted" if self.within(margin) == "confirmed" else "open"

    def words(self) -> str:
        """−0.0123 (t-test over 3 and 3 seeds, p = 2e-4; paired over 3,134 triples, p = 1e-5)."""
        told = []
        if self.runs is not None:
            told.append(f"t-test over {len(self.a.runs)} and {len(self.b.runs)} seeds, {p_words(self.runs)}")
        if self.questions is not None:
            told.append(f"paired over {self.questions.triples:,} test triples, {p_words(self.questions.p)}")
        if self.runs is None:
            told.append(f"{len(self.a.runs)} and {len(self.b.runs)} seeds")
        return f"{signed(self.difference)} ({'; '.join(told) or 'no test possible'})"


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What has been measured: the paper's study, three smaller ones, and the benchmarks of training.

    `mobius` searches the printed formula on the paper's graphs, `readings` both readings on small ones; `layout` has
    the paper's rows of Complεx at a low rank.
    """

    paper: Findings
    mobius: Findings
    layout: Findings
    readings: Findings
    benches: Sequence[Mapping[str, Any]] = ()
    answers: dict[tuple[str, str, str], Answers | None] = field(default_factory=dict)

    @classmethod
    def read(cls, studies: Path, benches: Sequence[Mapping[str, Any]] = ()) -> Evidence:
        """All of it; a result that is damaged or out of place stops here, it must not silently be missing."""
        read = [read_study(studies / f"{name}.toml") for name in ("paper", "mobius", "layout", "readings")]
        paper, mobius, layout, readings = (collect(study, study.root) for study in read)
        found = cls(paper=paper, mobius=mobius, layout=layout, readings=readings, benches=benches)
        if flaws := [flaw for findings in found.studies for flaw in findings.flaws]:
            raise SystemExit("These results cannot be used: " + "; ".join(flaws))
        return found

    @property
    def studies(self) -> tuple[Findings, ...]:
        return self.paper, self.mobius, self.layout, self.readings

    def ran(self, dataset: str, row: str, *, study: Findings | None = None) -> RowResult | None:
        """A row of a study, the paper's unless another is given, if it has a run."""
        outcome = (study or self.paper).of(dataset, row)
        return outcome if outcome is not None and outcome.runs else None

    def contrast(self, dataset: str, a: str, b: str, *, study: Findings | None = None) -> Contrast | None:
        """Two rows of a study, the paper's unless another is given; None while one has no run."""
        left, right = (self.ran(dataset, row, study=study) for row in (a, b))
        return None if left is None or right is None else self.between(left, right)

    def between(self, a: RowResult, b: RowResult) -> Contrast | None:
        """Any two outcomes on one dataset."""
        ours, theirs = a.moments("mrr"), b.moments("mrr")
        if ours is None or theirs is None:
            return None
        left, right = self._answers(a), self._answers(b)
        questions = paired_by_t(left, right) if left and right else None
        return Contrast(a=a, b=b, difference=ours.mean - theirs.mean, runs=welch(ours, theirs), questions=questions)

    def above_halfway(self, middle: RowResult, *ends: RowResult) -> Interval | None:
        """95 % interval of one MRR minus the mean of two others, with the uncertainty of all three.

        By seeds or by questions as in a `Contrast`.
        """
        if min(len(outcome.runs) for outcome in (middle, *ends)) >= SEEDS:
            return interval_of_means((1, middle.moments("mrr")), *((-0.5, end.moments("mrr")) for end in ends))
        noise = largest_scatter(middle, *ends)
        top, left, right = (self._answers(outcome) for outcome in (middle, *ends))
        if noise is None or top is None or left is None or right is None:
            return None
        found = paired_by_t(top, replace(left, reciprocal=(left.reciprocal + right.reciprocal) / 2))
        if found is None:
            return None
        seeds = noise.reach(len(middle.runs), *(4 * len(end.runs) for end in ends))
        reach = math.hypot(found.interval.high - found.difference, seeds)
        return Interval(found.difference - reach, found.difference + reach)

    def _answers(self, outcome: RowResult) -> Answers | None:
        key = (*outcome.key, str(outcome.runs[0].folder.path))
        if key not in self.answers:
            self.answers[key] = outcome.answers()
        return self.answers[key]


def largest_scatter(*outcomes: RowResult) -> Scatter | None:
    """The largest deviation of the MRRs of a row's seeds: of those that the paper prints, and of ours over enough."""
    found = []
    for outcome in outcomes:
        printed, moments = outcome.published, outcome.moments("mrr")
        if printed is not None and printed.mrr_pm is not None and printed.runs is not None:
            found.append(Scatter(deviation=printed.mrr_pm, runs=printed.runs))
        if moments is not None and moments.sd is not None and moments.n >= SEEDS:
            found.append(Scatter(deviation=moments.sd, runs=moments.n))
    return max(found, key=lambda each: (each.deviation, -each.runs), default=None)


def student(freedom: float) -> float:
    """The number of standard errors that contain 95 % of Student's t."""
    from scipy import stats

    return float(stats.t.ppf((1 + LEVEL) / 2, freedom))


def sign_test(above: int, below: int) -> str:
    """Whether ours lie to one side of print more often than a coin would."""
    from scipy import stats

    p = float(stats.binomtest(above, above + below).pvalue) if above + below else 1.0
    side = "above" if above > below else "below"
    leans = f"ours tend to be {side}" if p < SURE else "this may be chance"
    return f"sign test, {p_words(p)}: {leans}"


def p_words(p: float) -> str:
    """p = 2e-4, or p <1e-300."""
    text = p_value(p)
    return f"p {text}" if text.startswith("<") else f"p = {text}"


def interval_of_means(*terms: tuple[float, Moments | None]) -> Interval | None:
    """95 % of a weighed sum of means of unequal variance, after Welch; None with fewer than two values in a term."""
    middle, parts = 0.0, list[tuple[float, int]]()
    for weight, side in terms:
        if side is None or side.sd is None:
            return None
        middle += weight * side.mean
        parts.append((weight**2 * side.sd**2 / side.n, side.n - 1))
    variance = sum(part for part, _ in parts)
    if variance == 0:
        return Interval(middle, middle)
    reach = student(1 / sum((part / variance) ** 2 / free for part, free in parts)) * math.sqrt(variance)
    return Interval(middle - reach, middle + reach)
