"""The tests of a study: Welch's between runs, paired tests on questions, and the recomputed printed tests."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from conjoin.errors import RunError
from conjoin.report.collect import Findings, RowResult
from conjoin.report.stats import (
    Answers,
    Interval,
    Paired,
    Printed,
    holm,
    paired,
    welch,
    welch_interval,
    within_digit,
    within_half,
)
from conjoin.runtime.progress import Track, silent
from conjoin.studies.spec import MEASURES, MeasureName, Published, PublishedTest, Study

UNIT = {"seconds": 1.0, "mrr": 0.001}
"""The last digit of a printed mean: whole seconds, three decimals of MRR."""


@dataclass(frozen=True, kw_only=True)
class RunTest:
    """Welch's test between the runs of two rows on a dataset, by a measure. p is None with fewer than two seeds.

    `holm` is p corrected over all tests of that measure on that dataset; `printed` is the paper's own test.
    """

    dataset: str
    measure: MeasureName
    a: RowResult
    b: RowResult
    supplementary: bool
    p: float | None
    holm: float | None = None
    printed: PublishedTest | None = None


@dataclass(frozen=True, kw_only=True)
class QuestionTest:
    """The paired test between two rows on the test questions of a dataset; `holm`: p corrected over the dataset."""

    dataset: str
    a: RowResult
    b: RowResult
    supplementary: bool
    paired: Paired
    holm: float | None = None


@dataclass(frozen=True, kw_only=True)
class PrintedCheck:
    """A printed p, and the interval of p that the printed means and deviations allow."""

    test: PublishedTest
    interval: Interval

    @property
    def agrees(self) -> bool:
        """Whether the interval contains a p that rounds to the printed one."""
        return self.interval.meets(within_digit(self.test.p))

    def decided(self, alpha: float) -> bool:
        """Whether h follows from the printed means and deviations alone."""
        return self.interval.high < alpha or self.interval.low >= alpha


def run_tests(findings: Findings) -> tuple[RunTest, ...]:
    """Welch's test for every comparison of the study: dataset by dataset, seconds before MRR."""
    tests: list[RunTest] = []
    for dataset in findings.study.datasets:
        for measure in MEASURES:
            family = [
                RunTest(
                    dataset=dataset,
                    measure=measure,
                    a=a,
                    b=b,
                    supplementary=supplementary,
                    p=welch(a.moments(measure), b.moments(measure)),
                    printed=_printed_test(findings.study, a, b, measure=measure),
                )
                for a, b, supplementary in _pairs(findings, dataset, measure)
            ]
            corrected = holm([test.p for test in family])
            tests += [replace(test, holm=p) for test, p in zip(family, corrected, strict=True)]
    return tuple(tests)


def question_tests(findings: Findings, *, track: Track = silent) -> tuple[tuple[QuestionTest, ...], tuple[str, ...]]:
    """The paired test for every comparison of MRRs with stored ranks, and messages about unreadable ranks."""
    tests: list[QuestionTest] = []
    flaws: list[str] = []
    for dataset in track(findings.study.datasets, "paired tests", len(findings.study.datasets)):
        pairs = list(_pairs(findings, dataset, "mrr"))
        compared = {outcome.row.name: outcome for a, b, _ in pairs for outcome in (a, b)}
        answers: dict[str, Answers] = {}
        for name, outcome in compared.items():
            try:
                if (kept := outcome.answers()) is not None:
                    answers[name] = kept
            except RunError as error:
                flaws.append(f"{dataset} {name} has no paired test: {error}")
        family = [
            QuestionTest(dataset=dataset, a=a, b=b, supplementary=supplementary, paired=found)
            for a, b, supplementary in pairs
            if a.row.name in answers and b.row.name in answers
            if (found := paired(answers[a.row.name], answers[b.row.name])) is not None
        ]
        corrected = holm([test.paired.p for test in family])
        tests += [replace(test, holm=p) for test, p in zip(family, corrected, strict=True)]
    return tuple(tests), tuple(flaws)


def printed_checks(study: Study) -> tuple[PrintedCheck, ...]:
    """Every printed test of two printed lines, with the interval of p that these lines allow."""
    checks = []
    for test in study.published_tests:
        lines = study.published.get(test.dataset, {})
        a, b = (_as_printed(lines.get(name), test.measure) for name in (test.a, test.b))
        if a is not None and b is not None:
            checks.append(PrintedCheck(test=test, interval=welch_interval(a, b)))
    return tuple(checks)


def _pairs(findings: Findings, dataset: str, measure: MeasureName) -> Iterator[tuple[RowResult, RowResult, bool]]:
    for each in findings.study.comparisons:
        a, b = findings.of(dataset, each.a), findings.of(dataset, each.b)
        if a and b and dataset in each.datasets and measure in each.measures:
            yield a, b, each.supplementary


def _printed_test(study: Study, a: RowResult, b: RowResult, *, measure: MeasureName) -> PublishedTest | None:
    """The paper's test between the published lines of two rows."""
    if a.benchmark.stand_in:
        return None
    names = {outcome.row.reproduces or outcome.row.name for outcome in (a, b)}
    return next(
        (
            test
            for test in study.published_tests
            if test.dataset == a.benchmark.name and test.measure == measure and {test.a, test.b} == names
        ),
        None,
    )


def _as_printed(line: Published | None, measure: MeasureName) -> Printed | None:
    if line is None or line.runs is None:
        return None
    mean, sd = getattr(line, measure), getattr(line, f"{measure}_pm")
    if mean is None or sd is None:
        return None
    deviation = within_half(sd, unit=UNIT["seconds"]) if measure == "seconds" else within_digit(sd)
    return Printed(within_half(mean, unit=UNIT[measure]), deviation, line.runs)
