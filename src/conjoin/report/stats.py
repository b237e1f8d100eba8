"""Tests between models: between runs (Welch), between answers to the same questions (paired), and from print."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from conjoin.errors import NotInstalled, RunError
from conjoin.evaluation.ranks import Ranks

ALPHA = 0.05
RESAMPLES = 2_000
AT_ONCE = 4_000_000
"""Random numbers drawn at a time by the bootstrap: bounds its memory."""
NO_SPREAD = 1e-12
"""Differences of reciprocal ranks that are closer than this differ by rounding only."""
OTHER_QUESTIONS = "a paired test needs answers to the same questions"
STEPS = 65
"""Points per side when p is searched over rounded deviations."""


@dataclass(frozen=True)
class Moments:
    """Mean, standard deviation (n − 1 below the line; None where one value has none) and number of values.

    >>> Moments.of([0.25, 0.75]).mean, Moments.of([0.5])
    (0.5, Moments(mean=0.5, sd=None, n=1))
    """

    mean: float
    sd: float | None
    n: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Moments:
        """The moments of at least one value. Equal values have a deviation of exactly 0."""
        return cls(statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None, len(values))


@dataclass(frozen=True)
class Interval:
    """All numbers from `low` to `high`."""

    low: float
    high: float

    def meets(self, other: Interval) -> bool:
        return self.low <= other.high and other.low <= self.high


@dataclass(frozen=True)
class Paired:
    """The difference of two models' MRRs on the same questions, its 95 % interval, and p of no difference."""

    difference: float
    interval: Interval
    p: float
    questions: int
    triples: int


def welch(a: Moments | None, b: Moments | None) -> float | None:
    """p of Welch's two-sample t-test (unknown, unequal variances), or None with fewer than two values on a side.

    Where neither side varies at all, p takes its limit: 1 for equal means, 0 for different ones.

    >>> round(welch(Moments(0.36, 0.01, 5), Moments(0.35, 0.01, 5)), 3)
    0.153
    """
    if a is None or b is None or a.sd is None or b.sd is None:
        return None
    if a.sd == b.sd == 0:
        return float(a.mean == b.mean)
    return float(_scipy().ttest_ind_from_stats(a.mean, a.sd, a.n, b.mean, b.sd, b.n, equal_var=False).pvalue)


def h_p(p: float | None, *, alpha: float = ALPHA) -> str:
    """As the appendix prints a test: (1, 8e-17), h = 1 where equal means are rejected; '-' where there is no test.

    >>> h_p(0.0004), h_p(0.3), h_p(None)
    ('(1, 4e-4)', '(0, 3e-1)', '-')
    """
    return "-" if p is None else f"({int(p < alpha)}, {one_digit(p)})"


def one_digit(value: float) -> str:
    """One significant digit, as the paper prints deviations and p-values: 8e-17, 4e-4, 2e-1; 0 and 1 stay."""
    digit, _, exponent = f"{value:.0e}".partition("e")
    return digit if value == 0 or int(exponent) == 0 else f"{digit}e{int(exponent)}"


def p_value(p: float) -> str:
    """A p-value to print; below what double precision holds it is not zero.

    >>> p_value(0.0)
    '<1e-300'
    """
    return "<1e-300" if p < 1e-300 else one_digit(p)


def holm(ps: Sequence[float | None]) -> list[float | None]:
    """The p-values of one family corrected after Holm, in the order given; tests that were not made stay None.

    >>> holm([0.25, None, 0.125])
    [0.25, None, 0.25]
    """
    made = sorted((p, place) for place, p in enumerate(ps) if p is not None)
    corrected: list[float | None] = [None] * len(ps)
    floor = 0.0
    for smaller, (p, place) in enumerate(made):
        floor = max(floor, min(1.0, (len(made) - smaller) * p))
        corrected[place] = floor
    return corrected


@dataclass(frozen=True, eq=False)
class Answers:
    """How well a model answers: reciprocal ranks (n,) of sorted questions (n, 4) = head, relation, tail, direction.

    >>> column = lambda *numbers: np.array(numbers)
    >>> ranks = Ranks(column(0, 0), column(1, 1), column(2, 2), column(0, 1), column(0, 3), column(0, 0), column(9, 9))
    >>> Answers.of([ranks]).reciprocal.tolist()
    [1.0, 0.25]
    """

    questions: npt.NDArray[np.int64]
    reciprocal: npt.NDArray[np.float64]

    @classmethod
    def of(cls, seeds: Iterable[Ranks]) -> Answers:
        """The reciprocal rank of each question, averaged over the seeds of a model."""
        questions, total, n = None, None, 0
        for ranks in seeds:
            order = np.lexsort((ranks.direction, ranks.tail, ranks.relation, ranks.head))
            asked = np.stack([ranks.head, ranks.relation, ranks.tail, ranks.direction], 1)[order]
            if questions is not None and not np.array_equal(questions, asked):
                raise RunError(f"{OTHER_QUESTIONS}: the seeds of a model were ranked on different ones")
            reciprocal = 1 / ranks.ranks()[order]
            questions, total, n = asked, reciprocal if total is None else total + reciprocal, n + 1
        if questions is None or total is None:
            raise RunError("a paired test needs the ranks of at least one run on each side")
        return cls(questions, total / n)


def paired(a: Answers, b: Answers, *, seed: int = 0, resamples: int = RESAMPLES) -> Paired | None:
    """Compare two models on the same questions; None with fewer than two triples.

    What is resampled are *triples*, not questions: (h, r, ?) and (?, r, t) are asked of one and the same fact, a model
    that has learnt the fact does well on both, and an interval that took them for independent would be too narrow. p
    is that of the t-test of the triples' mean differences against 0: as many numbers within [−1, 1] as there are test
    triples, whose mean is as good as normal. Where all of them are equal, which leaves the t-test no variance, p is
    that of flipping their signs: 2^(1 − triples). Deterministic for a `seed`.

    Both say how far the difference carries over to other *questions* of this kind, for the models as trained;
    Welch's test says how far it carries over to other *seeds*, for these questions.

    >>> asked = np.array([[0, 0, 1, 0], [0, 0, 1, 1], [2, 0, 1, 0], [2, 0, 1, 1]])
    >>> paired(Answers(asked, np.array([1, 1, 0.5, 1])), Answers(asked, np.array([0.5, 1, 0.5, 0.5]))).difference
    0.25
    """
    return _tested(
        a, b, lambda values, _: np.quantile(_resampled_means(values, seed=seed, resamples=resamples), [0.025, 0.975])
    )


def paired_by_t(a: Answers, b: Answers) -> Paired | None:
    """As `paired`, but with the interval of the t-test: for many tests at once, where the bootstrap would take long."""
    return _tested(a, b, lambda _, test: test.confidence_interval(0.95))


def _tested(
    a: Answers, b: Answers, interval: Callable[[npt.NDArray[np.float64], Any], Iterable[float]]
) -> Paired | None:
    values = _triple_differences(a, b)
    if values is None:
        return None
    n, difference = len(a.questions), float(np.mean(values))
    if np.ptp(values) <= NO_SPREAD:
        p = 1.0 if abs(difference) <= NO_SPREAD else 2.0 ** (1 - len(values))
        return Paired(difference, Interval(difference, difference), p, n, len(values))
    test = _scipy().ttest_1samp(values, 0.0)
    low, high = interval(values, test)
    return Paired(difference, Interval(float(low), float(high)), float(test.pvalue), n, len(values))


def _triple_differences(a: Answers, b: Answers) -> npt.NDArray[np.float64] | None:
    """Per triple, the mean difference over its questions, weighed so that their mean is that of all questions.

    None with fewer than two triples: one says nothing about others.
    """
    if not np.array_equal(a.questions, b.questions):
        raise RunError(f"{OTHER_QUESTIONS}: the two models were ranked on different ones")
    n = len(a.questions)
    next_triple = np.any(a.questions[1:, :3] != a.questions[:-1, :3], axis=1)
    triple = np.concatenate([[0], np.cumsum(next_triple)])
    sums = np.bincount(triple[:n], weights=a.reciprocal - b.reciprocal)
    return np.asarray(sums * (len(sums) / n), dtype=np.float64) if len(sums) > 1 else None


def within_half(value: float, *, unit: float) -> Interval:
    """The numbers that print as `value` in whole units; none of those printed is negative."""
    return Interval(max(0.0, value - unit / 2), value + unit / 2)


def within_digit(value: float) -> Interval:
    """The positive numbers that print as `value` with one significant digit: 1e-3 is .00095 to .0015."""
    if value == 0:
        return Interval(0.0, 0.0)
    digit, _, exponent = f"{value:.0e}".partition("e")
    below = 0.05 if digit == "1" else 0.5
    return Interval(*(float(f"{int(digit) + half}e{exponent}") for half in (-below, 0.5)))


@dataclass(frozen=True)
class Printed:
    """A mean and a deviation as known from print: each somewhere in an interval."""

    mean: Interval
    sd: Interval
    n: int


def welch_interval(a: Printed, b: Printed) -> Interval:
    """Every p that Welch's test can have given, for means and deviations that print as these do.

    p falls with the distance of the means. In the deviations it is not monotonous (a second deviation also adds
    degrees of freedom), so it is searched on a grid over both.
    """
    nearest = max(0.0, a.mean.low - b.mean.high, b.mean.low - a.mean.high)
    farthest = max(a.mean.high - b.mean.low, b.mean.high - a.mean.low)
    sd_a, sd_b = np.meshgrid(*(np.linspace(side.sd.low, side.sd.high, STEPS) for side in (a, b)))
    varies = (sd_a > 0) | (sd_b > 0)
    extremes = []
    for distance in (farthest, nearest):
        test = _scipy().ttest_ind_from_stats(
            distance, np.where(varies, sd_a, 1.0), a.n, 0.0, np.where(varies, sd_b, 1.0), b.n, equal_var=False
        )
        extremes.append(np.where(varies, test.pvalue, float(distance == 0)))
    return Interval(float(np.min(extremes[0])), float(np.max(extremes[1])))


def _resampled_means(
    values: npt.NDArray[np.floating[Any]], *, seed: int, resamples: int
) -> npt.NDArray[np.floating[Any]]:
    generator = np.random.default_rng(seed)
    n = len(values)
    chunk = max(1, AT_ONCE // n)
    sizes = [min(chunk, resamples - done) for done in range(0, resamples, chunk)]
    draws = (generator.integers(n, size=(size, n), dtype=np.int32) for size in sizes)
    return np.concatenate([values[drawn].mean(axis=1) for drawn in draws])


def _scipy() -> Any:
    try:
        import scipy.stats
    except ImportError as error:
        raise NotInstalled("scipy", "study", "testing whether two models differ") from error
    return scipy.stats
