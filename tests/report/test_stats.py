"""Statistics: against SciPy, against hand-made numbers, and against what rounding may hide."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
import scipy.stats
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.report.fabricated import ranks_of

from conjoin.errors import NotInstalled, RunError
from conjoin.evaluation.ranks import Ranks
from conjoin.report.stats import (
    Answers,
    Interval,
    Moments,
    Paired,
    Printed,
    h_p,
    holm,
    one_digit,
    paired,
    paired_by_t,
    welch,
    welch_interval,
    within_digit,
    within_half,
)

samples = st.lists(st.floats(0.01, 1.0).map(lambda value: round(value, 4)), min_size=2, max_size=17)


def test_moments_divide_by_one_less_than_n() -> None:
    found = Moments.of([0.1, 0.2, 0.6])
    assert (found.mean, found.sd, found.n) == pytest.approx((0.3, math.sqrt(0.07), 3))
    assert Moments.of([0.1, 0.1, 0.1]).sd == 0
    assert Moments.of([0.25]) == Moments(0.25, None, 1)


@pytest.mark.filterwarnings("ignore:Precision loss")
@given(samples, samples)
def test_welch_is_that_of_scipy(a: list[float], b: list[float]) -> None:
    assume(len(set(a)) > 1 or len(set(b)) > 1)
    expected = scipy.stats.ttest_ind(a, b, equal_var=False).pvalue
    assert welch(Moments.of(a), Moments.of(b)) == pytest.approx(expected, rel=1e-6, abs=1e-300)


def test_welch_by_hand() -> None:
    """Means 2 and 4, variances 1 and 4, n = 3: t = −2/√(5/3), 2.94 degrees of freedom."""
    p = welch(Moments(2, 1, 3), Moments(4, 2, 3))
    freedom = (5 / 3) ** 2 / ((1 / 3) ** 2 / 2 + (4 / 3) ** 2 / 2)
    assert freedom == pytest.approx(50 / 17)
    assert p == pytest.approx(2 * scipy.stats.t.sf(2 / math.sqrt(5 / 3), freedom))


@pytest.mark.filterwarnings("ignore:Precision loss")
def test_welch_without_variance_or_without_values() -> None:
    still, moved, once = Moments(0.5, 0.0, 3), Moments(0.6, 0.0, 3), Moments(0.5, None, 1)
    assert welch(still, still) == 1
    assert welch(still, moved) == 0
    assert welch(once, still) is None
    assert welch(None, still) is None
    one_side = welch(Moments.of([0.5, 0.5, 0.5]), Moments.of([0.4, 0.5, 0.7]))
    assert one_side == pytest.approx(scipy.stats.ttest_ind([0.5] * 3, [0.4, 0.5, 0.7], equal_var=False).pvalue)


def test_a_test_is_printed_as_in_the_appendix() -> None:
    assert h_p(8.4e-17) == "(1, 8e-17)"
    assert h_p(0.2) == "(0, 2e-1)"
    assert h_p(0.0499) == "(1, 5e-2)"
    assert h_p(0.05) == "(0, 5e-2)"
    assert h_p(0.02, alpha=0.01) == "(0, 2e-2)"
    assert h_p(1.0) == "(0, 1)"
    assert h_p(0.0) == "(1, 0)"
    assert h_p(None) == "-"
    assert [one_digit(value) for value in (4e-4, 0.00096, 0.97, 1.2)] == ["4e-4", "1e-3", "1", "1"]


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([None, 0.02, None]) == [None, 0.02, None]
    assert holm([]) == []


@given(st.lists(st.floats(0, 1) | st.none(), max_size=12))
def test_holm_keeps_order_and_bounds(ps: list[float | None]) -> None:
    corrected = holm(ps)
    pairs = sorted((p, c) for p, c in zip(ps, corrected, strict=True) if p is not None and c is not None)
    assert [p is None for p in ps] == [c is None for c in corrected]
    assert all(p <= c <= 1 for p, c in pairs)
    assert [c for _, c in pairs] == sorted(c for _, c in pairs)


def test_the_paired_difference_is_that_of_the_mrrs() -> None:
    a = [ranks_of([1, 2, 1, 4, 10, 1]), ranks_of([1, 1, 1, 4, 10, 2])]
    b = [ranks_of([2, 2, 1, 5, 10, 1])]
    found = paired(Answers.of(a), Answers.of(b))
    assert found is not None
    assert found.difference == pytest.approx((a[0].mrr() + a[1].mrr()) / 2 - b[0].mrr())
    assert (found.questions, found.triples) == (6, 3)
    assert found.interval.low <= found.difference <= found.interval.high
    back = paired(Answers.of(b), Answers.of(a))
    assert back is not None
    assert back.difference == pytest.approx(-found.difference)
    assert back.p == pytest.approx(found.p)


def test_paired_tests_repeat_themselves_and_do_not_mind_the_order_of_questions() -> None:
    generator = np.random.default_rng(3)
    places = [generator.integers(1, 9, 400).tolist() for _ in range(2)]
    a, b = map(ranks_of, places)
    order = generator.permutation(len(b))
    shuffled = Ranks(*(getattr(b, column)[order] for column in vars(b)))
    one, again = paired(Answers.of([a]), Answers.of([b])), paired(Answers.of([a]), Answers.of([shuffled]))
    assert one == again
    other = paired(Answers.of([a]), Answers.of([b]), seed=1)
    assert one is not None
    assert other is not None
    assert one.interval != other.interval


def test_questions_about_one_triple_are_kept_together() -> None:
    """Where both questions of a triple err alike, the interval is √2 wider than that of as many independent ones."""
    generator = np.random.default_rng(0)
    one_each = generator.integers(1, 6, 500)
    together = ranks_of(np.repeat(one_each, 2).tolist())
    independent = ranks_of(np.repeat(one_each, 2).tolist())
    asked_apart = Ranks(**{**vars(independent), "head": np.arange(1_000), "direction": np.zeros(1_000, dtype=np.int64)})
    flat = ranks_of([3] * 1_000)
    flat_apart = Ranks(**{**vars(flat), "head": np.arange(1_000), "direction": np.zeros(1_000, dtype=np.int64)})
    tied = paired(Answers.of([together]), Answers.of([flat]))
    loose = paired(Answers.of([asked_apart]), Answers.of([flat_apart]))
    assert tied is not None
    assert loose is not None
    width = (tied.interval.high - tied.interval.low) / (loose.interval.high - loose.interval.low)
    assert width == pytest.approx(math.sqrt(2), rel=0.1)
    assert tied.p > loose.p


def test_paired_p_agrees_with_flipping_signs() -> None:
    generator = np.random.default_rng(7)
    a, b = generator.integers(1, 12, 300), generator.integers(1, 13, 300)
    found = paired(Answers.of([ranks_of(a.tolist())]), Answers.of([ranks_of(b.tolist())]))
    differences = (1 / a - 1 / b).reshape(-1, 2).mean(1)
    signs = generator.choice([-1, 1], size=(20_000, len(differences)))
    flipped = np.abs((signs * differences).mean(1))
    assert found is not None
    assert found.p == pytest.approx(np.mean(flipped >= abs(differences.mean())), abs=0.015)


def test_intervals_leave_out_a_fortieth_on_either_side() -> None:
    generator = np.random.default_rng(5)
    a, b = (generator.integers(1, 9, 600) for _ in range(2))
    differences = (1 / a - 1 / b).reshape(-1, 2).mean(1)
    half = scipy.stats.t.ppf(0.975, 299) * differences.std(ddof=1) / math.sqrt(300)
    answers = [Answers.of([ranks_of(places.tolist())]) for places in (a, b)]
    by_t, drawn = paired_by_t(*answers), paired(*answers)
    assert by_t is not None
    assert drawn is not None
    assert (by_t.interval.low, by_t.interval.high) == pytest.approx(differences.mean() + np.array([-half, half]))
    assert by_t.p == drawn.p
    assert drawn.interval.high - drawn.interval.low == pytest.approx(2 * half, rel=0.08)


def test_equal_answers_do_not_differ() -> None:
    same = Answers.of([ranks_of([1, 2, 3, 4])])
    found = paired(same, same)
    assert found is not None
    assert (found.difference, found.p, found.interval) == (0.0, 1.0, Interval(0.0, 0.0))


@pytest.mark.parametrize("test", [paired, paired_by_t])
def test_few_triples_and_equal_differences_prove_little(test: Callable[[Answers, Answers], Paired | None]) -> None:
    """A t-test without variance would be certain after two triples, and after one."""

    def found(triples: int) -> Paired | None:
        return test(*(Answers.of([ranks_of([rank] * 2 * triples)]) for rank in (1, 2)))

    assert found(0) is None
    assert found(1) is None
    two, ten = found(2), found(10)
    assert two is not None
    assert ten is not None
    assert (two.difference, two.p, ten.p) == (0.5, 0.5, 2**-9)


@pytest.mark.parametrize("test", [paired, paired_by_t])
def test_one_triple_decides_nothing(test: Callable[[Answers, Answers], Paired | None]) -> None:
    better, worse = (Answers.of([ranks_of(places)]) for places in ([1, 1], [9, 9]))
    assert test(better, worse) is None
    again = test(*(Answers.of([ranks_of(places)]) for places in ([1, 1, 1, 1], [9, 9, 9, 8])))
    assert again is not None
    assert 0 < again.p < 1e-2


def test_different_questions_raise() -> None:
    with pytest.raises(RunError, match="same questions"):
        paired(Answers.of([ranks_of([1, 2])]), Answers.of([ranks_of([1, 2, 3, 4])]))
    with pytest.raises(RunError, match="same questions"):
        Answers.of([ranks_of([1, 2]), ranks_of([1, 2, 3, 4])])
    with pytest.raises(RunError, match="at least one"):
        Answers.of([])


def test_intervals_of_rounded_numbers() -> None:
    assert within_half(26, unit=1) == Interval(25.5, 26.5)
    assert within_half(0, unit=1) == Interval(0, 0.5)
    assert within_digit(4e-4) == Interval(3.5e-4, 4.5e-4)
    assert within_digit(1e-3) == Interval(9.5e-4, 1.5e-3)
    assert within_digit(0) == Interval(0, 0)
    assert Interval(0, 1).meets(Interval(1, 2))
    assert not Interval(0, 1).meets(Interval(1.1, 2))


@given(st.floats(1e-30, 1))
def test_a_p_lies_within_its_own_print(p: float) -> None:
    shown = within_digit(float(one_digit(p)))
    assert shown.low * (1 - 1e-12) <= p <= shown.high * (1 + 1e-12)


@settings(max_examples=50)
@given(
    st.tuples(st.floats(0.34, 0.36), st.floats(0.34, 0.36)),
    st.tuples(st.floats(2e-4, 3e-3), st.floats(2e-4, 3e-3)),
    st.sampled_from([5, 17]),
)
def test_the_interval_of_p_holds_the_p_of_the_numbers_before_rounding(
    means: tuple[float, float], sds: tuple[float, float], n: int
) -> None:
    unrounded = welch(Moments(means[0], sds[0], 17), Moments(means[1], sds[1], n))
    a, b = (
        Printed(within_half(float(f"{mean:.3f}"), unit=0.001), within_digit(float(one_digit(sd))), runs)
        for mean, sd, runs in zip(means, sds, (17, n), strict=True)
    )
    interval = welch_interval(a, b)
    assert unrounded is not None
    assert interval.low * 0.999 <= unrounded <= interval.high * 1.001


def test_deviations_printed_as_zero() -> None:
    still = within_half(0, unit=1)
    apart = welch_interval(Printed(within_half(26, unit=1), still, 17), Printed(within_half(30, unit=1), still, 17))
    assert apart.low == 0
    assert 0 < apart.high < 1e-10
    close = welch_interval(Printed(within_half(26, unit=1), still, 17), Printed(within_half(26, unit=1), still, 17))
    assert (close.low, close.high) == (0, 1)


def test_half_a_unit_is_exact_for_the_printed_decimals() -> None:
    for thousandths in range(1, 1000):
        interval = within_half(thousandths / 1000, unit=0.001)
        assert interval.low == pytest.approx(float(Fraction(2 * thousandths - 1, 2000)), abs=1e-15)


def test_without_scipy_the_way_out_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy.stats", None)
    monkeypatch.setitem(sys.modules, "scipy", None)
    with pytest.raises(NotInstalled, match=r"conjoin\[study\]"):
        welch(Moments(1, 1, 3), Moments(2, 1, 3))
