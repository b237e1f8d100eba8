"""The tables of tests as values: Welch's tests, paired tests, and the recomputed printed tests."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from conjoin.report.best import competing
from conjoin.report.collect import Findings
from conjoin.report.document import Entry, ReportTable, TableColumn
from conjoin.report.formatting import NOTHING, signed, span
from conjoin.report.significance import PrintedCheck, QuestionTest, RunTest
from conjoin.report.stats import h_p, one_digit, p_value
from conjoin.report.tables import name_entry, place
from conjoin.studies.spec import MeasureName


def matrix_table(findings: Findings, tests: Iterable[RunTest], dataset: str, *, measure: MeasureName) -> ReportTable:
    """Welch's tests on a dataset as the appendix prints them: (h, p) above the diagonal."""
    rows = [outcome.row for outcome in competing(findings, dataset)]
    made = {(t.a.row.name, t.b.row.name): t for t in tests if t.dataset == dataset and t.measure == measure}
    kind = "Time" if measure == "seconds" else "MRR"
    alpha = findings.study.alpha
    return ReportTable(
        title=f"{kind} t-test (h, p) on {place(findings, dataset)}",
        columns=(TableColumn("", "left"), *(TableColumn(row.label, "left", row.latex) for row in rows)),
        rows=tuple((name_entry(a), *(_test(made.get((a.name, b.name)), alpha) for b in rows)) for a in rows),
    )


def control_tests_table(findings: Findings, tests: Iterable[RunTest], dataset: str) -> ReportTable:
    """Welch's tests between a control and another row."""
    pairs: dict[tuple[str, str], dict[str, RunTest]] = {}
    for test in tests:
        if test.dataset == dataset and "control" in (test.a.row.group, test.b.row.group):
            pairs.setdefault((test.a.row.name, test.b.row.name), {})[test.measure] = test
    alpha = findings.study.alpha
    rows = findings.study.rows
    return ReportTable(
        title=f"t-tests with controls (h, p) on {place(findings, dataset)}",
        columns=(
            TableColumn("A", "left"),
            TableColumn("B", "left"),
            TableColumn("Time", "left"),
            TableColumn("MRR", "left"),
        ),
        rows=tuple(
            (name_entry(rows[a]), name_entry(rows[b]), _test(made.get("seconds"), alpha), _test(made.get("mrr"), alpha))
            for (a, b), made in pairs.items()
        ),
    )


def paired_table(findings: Findings, tests: Iterable[QuestionTest], dataset: str) -> ReportTable:
    """The paired tests of a dataset."""
    rows = [
        (
            name_entry(test.a.row),
            name_entry(test.b.row),
            Entry(signed(test.paired.difference), italic=test.supplementary),
            Entry(span(test.paired.interval), italic=test.supplementary),
            Entry(p_value(test.paired.p), italic=test.supplementary),
            Entry(NOTHING if test.holm is None else p_value(test.holm), italic=test.supplementary),
            Entry(f"{test.paired.triples:,}"),
            Entry(f"{len(test.a.runs)} and {len(test.b.runs)}"),
        )
        for test in tests
        if test.dataset == dataset
    ]
    heads = ("MRR of A − B", "95 % interval", "p", "p, Holm", "Triples", "Seeds")
    return ReportTable(
        title=f"Paired tests on the questions of {place(findings, dataset)}",
        columns=(TableColumn("A", "left"), TableColumn("B", "left"), *(TableColumn(head) for head in heads)),
        rows=tuple(rows),
    )


def printed_table(findings: Findings, checks: Sequence[PrintedCheck]) -> ReportTable:
    """The printed p-values, and the intervals of p that the printed means and deviations allow."""
    study = findings.study

    def named(name: str) -> Entry:
        return name_entry(study.rows[name]) if name in study.rows else Entry(name)

    rows = [
        (
            Entry(check.test.dataset),
            Entry("Time" if check.test.measure == "seconds" else "MRR"),
            named(check.test.a),
            named(check.test.b),
            Entry(f"({check.test.h}, {one_digit(check.test.p)})", italic=check.test.supplementary),
            Entry(f"{check.interval.low:.1e} to {check.interval.high:.1e}"),
            Entry("yes" if check.agrees else "no", bold=not check.agrees),
            Entry("yes" if check.decided(study.alpha) else "no"),
        )
        for check in checks
    ]
    heads = ("Printed (h, p)", "p allowed by print", "Agrees", "h follows")
    return ReportTable(
        title="The printed p-values, recomputed from the printed means and deviations",
        columns=(
            *(TableColumn(head, "left") for head in ("Dataset", "Measure", "A", "B")),
            *(TableColumn(h) for h in heads),
        ),
        rows=tuple(rows),
    )


def _test(test: RunTest | None, alpha: float) -> Entry:
    if test is None:
        return Entry()
    notes = []
    if test.holm is not None:
        notes.append(f"Holm {p_value(test.holm)}")
    if test.printed is not None:
        notes.append(f"paper ({test.printed.h}, {one_digit(test.printed.p)})")
    return Entry(h_p(test.p, alpha=alpha), italic=test.supplementary, note="; ".join(notes))
