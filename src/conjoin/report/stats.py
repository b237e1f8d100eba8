"""Statistical tests between models: Welch's on runs, paired on the same questions, and on printed numbers."""

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
"""Random numbers that the bootstrap draws at a time, to limit its memory."""
NO_SPREAD = 1e-12
"""Differences of reciprocal ranks up to this size count as rounding."""
OTHER_QUESTIONS = "a paired test needs answers to the same questions"
STEPS = 65
"""Grid points per side in the search for p over rounded deviations."""


@dataclass(frozen=True)
class Moments:
    """Mean, standard deviation (divided by n − 1; None for one value) and number of values.

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
    """The difference of two models' MRRs on the same questions, its 95 % interval, and the p-value."""

    difference: float
    interval: Interval
    p: float
    questions: int
    triples: int


def welch(a: Moments | None, b: Moments | None) -> float | None:
    """p of Welch's two-sample t-test (unknown, unequal variances), or None with fewer than two values on a side.

    If neither side varies, p is 1 for equal means and 0 for different ones.

    >>> round(welch(Moments(0.36, 0.01, 5), Moments(0.35, 0.01, 5)), 3)
    0.153
    """
    if a is None or b is None or a.sd is None or b.sd is None:
        return None
    if a.sd == b.sd == 0:
        return float(a.mean == b.mean)
    return float(_scipy().ttest_ind_from_stats(a.mean, a.sd, a.n, b.mean, b.sd, b.n, equal_var=False).pvalue)


def h_p(p: float | None, *, alpha: float = ALPHA) -> str:
    """A test as text, (1, 8e-17), where h = 1 means that equal means are rejected; '-' without a test.

    >>> h_p(0.0004), h_p(0.3), h_p(None)
    ('(1, 4e-4)', '(0, 3e-1)', '-')
    """
    return "-" if p is None else f"({int(p < alpha)}, {one_digit(p)})"


def one_digit(value: float) -> str:
    """One significant digit, as the paper prints deviations and p-values: 8e-17, 4e-4, 2e-1; 0 and 1 stay."""
    digit, _, exponent = f"{value:.0e}".partition("e")
    return digit if value == 0 or int(exponent) == 0 else f"{digit}e{int(exponent)}"


def p_value(p: float) -> str:
    """A p-value as text; values too small for double precision print as a bound instead of 0.

    >>> p_value(0.0)
    '<1e-300'
    """
    return "<1e-300" if p < 1e-300 else one_digit(p)


def holm(ps: Sequence[float | None]) -> list[float | None]:
    """Holm's correction of the p-values of one family, in the given order; None stays None.

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
    """Reciprocal ranks (n,) of a model for sorted questions (n, 4) = head, relation, tail, direction.

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
                raise RunError(
                    f"{OTHER_QUESTIONS}; the seeds of a model were ranked on different questions. Rank them again."
                )
            reciprocal = 1 / ranks.ranks()[order]
            questions, total, n = asked, reciprocal if total is None else total + reciprocal, n + 1
        if questions is None or total is None:
            raise RunError("a paired test needs the ranks of at least one run on each side")
        return cls(questions, total / n)


def paired(a: Answers, b: Answers, *, seed: int = 0, resamples: int = RESAMPLES) -> Paired | None:
    """Compare two models on the same questions; None with fewer than two triples.

    The bootstrap resamples *triples*, not questions. (h, r, ?) and (?, r, t) ask about the same fact, and a model that
    has learnt the fact answers both well; an interval that treated them as independent would be too narrow. p comes
    from the t-test of the triples' mean differences against 0. These are many numbers within [−1, 1], so their mean is
    nearly normal. If all differences are equal, the variance is 0 and p is that of the sign-flip test, 2^(1 − triples).
    The result is deterministic for a `seed`.

    Interval and p say whether the difference would hold for other *questions*, with these trained models. Welch's test
    says whether it would hold for other *seeds*, with these questions.

    >>> asked = np.array([[0, 0, 1, 0], [0, 0, 1, 1], [2, 0, 1, 0], [2, 0, 1, 1]])
    >>> paired(Answers(asked, np.array([1, 1, 0.5, 1])), Answers(asked, np.array([0.5, 1, 0.5, 0.5]))).difference
    0.25
    """
    return _tested(
        a, b, lambda values, _: np.quantile(_resampled_means(values, seed=seed, resamples=resamples), [0.025, 0.975])
    )


def paired_by_t(a: Answers, b: Answers) -> Paired | None:
    """Like `paired`, but with the interval of the t-test, which is faster for many tests."""
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
    """The mean difference of each triple, weighted so that their mean equals the mean over all questions.

    None with fewer than two triples, which have no variance.
    """
    if not np.array_equal(a.questions, b.questions):
        raise RunError(f"{OTHER_QUESTIONS}; the two models were ranked on different questions. Rank them again.")
    n = len(a.questions)
    next_triple = np.any(a.questions[1:, :3] != a.questions[:-1, :3], axis=1)
    triple = np.concatenate([[0], np.cumsum(next_triple)])
    sums = np.bincount(triple[:n], weights=a.reciprocal - b.reciprocal)
    return np.asarray(sums * (len(sums) / n), dtype=np.float64) if len(sums) > 1 else None


def within_half(value: float, *, unit: float) -> Interval:
    """The non-negative numbers that round to `value` in whole units."""
    return Interval(max(0.0, value - unit / 2), value + unit / 2)


def within_digit(value: float) -> Interval:
    """The positive numbers that round to `value` with one significant digit: 1e-3 is .00095 to .0015."""
    if value == 0:
        return Interval(0.0, 0.0)
    digit, _, exponent = f"{value:.0e}".partition("e")
    below = 0.05 if digit == "1" else 0.5
    return Interval(*(float(f"{int(digit) + half}e{exponent}") for half in (-below, 0.5)))


@dataclass(frozen=True)
class Printed:
    """A printed mean and standard deviation: each is known only to an interval."""

    mean: Interval
    sd: Interval
    n: int


def welch_interval(a: Printed, b: Printed) -> Interval:
    """The range of p in Welch's test over all means and deviations that round to the printed ones.

    p falls with the distance of the means. It is not monotonic in the deviations (a second deviation also adds degrees
    of freedom), so the function searches a grid over both.
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
