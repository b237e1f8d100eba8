"""Writes the report of a study as Markdown, LaTeX, HTML and JSON from its run folders. Does not import torch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

from conjoin.errors import NotInstalled
from conjoin.report import figures as plots
from conjoin.report.as_html import html
from conjoin.report.as_json import report_json
from conjoin.report.as_latex import latex
from conjoin.report.as_markdown import markdown
from conjoin.report.best import RULE, WITHIN, published_value, reproduced
from conjoin.report.collect import QUALITY, Findings, RowResult, collect
from conjoin.report.document import Document, Figure, ReportTable, Section
from conjoin.report.formatting import bare, listed
from conjoin.report.pattern_effects import ByPattern, pattern_effects, pattern_section
from conjoin.report.pattern_plot import plot_pattern_effects
from conjoin.report.pattern_text import consistency, form_effects
from conjoin.report.significance import PrintedCheck, QuestionTest, RunTest, printed_checks, question_tests, run_tests
from conjoin.report.significance_tables import control_tests_table, matrix_table, paired_table, printed_table
from conjoin.report.stats import RESAMPLES
from conjoin.report.tables import (
    TITLES,
    agreement_table,
    costs_table,
    datasets_table,
    origins_table,
    results_table,
)
from conjoin.runtime.atomic_files import make_folder, replacing_all, sealed
from conjoin.runtime.progress import Track, silent
from conjoin.studies.spec import GROUPS, MEASURES, Study

FIGURES = "figures"
Plot = Literal["curves", "frontier", "pvalues", "patterns"]
WEIGHTS = {"last": "the last epoch", "best": "the epoch with the best validation MRR"}
WELCH = (
    "Welch's t-test asks whether the mean over the seeds of two rows differs by more than chance; the variances"
    " may differ. Each entry is (h, p) as in the paper's appendix: h = 1 means that equal means are rejected. The"
    " second line has p after Holm's correction for all tests of that measure on that dataset, and the published"
    " test if there is one. A row with fewer than two seeds has no test. Italics mark tests across families. A"
    " test of times means nothing if the runs shared their machine with other programs."
)
PAIRED = (
    "Both models answered the same test questions, so a paired test compares them question by question. The reciprocal"
    " rank (1 / rank of the right answer) is averaged over a model's seeds, then over the two questions about each"
    " triple, (head, relation, ?) and (?, relation, tail)."
    f" The interval comes from resampling triples ({RESAMPLES:,} times), because the two questions about a triple are"
    " not independent. p is the t-test of the triples' differences against 0; Holm's correction is over the dataset's"
    " tests. The paired test says whether the difference would hold on other questions, for these trained models."
    " Welch's test above says whether it would hold for other seeds."
)
PRINTED = (
    "The printed means and deviations are rounded, so the paper's p-values can only be recomputed as intervals:"
    " over all means within half of the last printed digit and all deviations that round to the printed one (17"
    " runs; 5 for the half-regularised, vertical and horizontal forms). A printed p agrees if the interval"
    " contains a p that rounds to it. The last column says whether h follows from the printed numbers alone."
)
COSTS = (
    "Relation bytes count the numbers stored for relations and for their reciprocals (each relation read from tail to"
    " head). Seconds are the median epoch after warm-up; the next column has the last epoch, which the paper reports."
    " Peak memory is the memory of the graphics card, or of the whole process on a CPU."
)


@dataclass(frozen=True, kw_only=True)
class ReportTests:
    """All tests of a report."""

    runs: tuple[RunTest, ...]
    questions: tuple[QuestionTest, ...]
    printed: tuple[PrintedCheck, ...]
    patterns: ByPattern


def write_report(study: Study, root: Path, folder: Path, *, track: Track = silent) -> dict[str, Any]:
    """Write report.md, .tex, .html and .json from the runs under the results root into `folder`; returns the JSON.

    The HTML page contains its plots; the Markdown and LaTeX files refer to SVG and PDF files in the folder `figures`.
    """
    findings = collect(study, root)
    questions, unread = question_tests(findings, track=track)
    tests = ReportTests(
        runs=run_tests(findings),
        questions=questions,
        printed=printed_checks(study),
        patterns=pattern_effects(findings, root, track=track),
    )
    document = build(findings, tests, unread=unread)
    content = report_json(findings, runs=tests.runs, questions=tests.questions, printed=tests.printed, root=root)
    content["patterns"] = [test.to_json() for test in tests.patterns.tests]
    content["left_out"] += unread
    contents = {
        "report.md": markdown(document, figures=FIGURES).encode(),
        "report.tex": latex(document, figures=FIGURES).encode(),
        "report.html": html(document).encode(),
        **{f"{FIGURES}/{figure.name}.svg": figure.svg.encode() for figure in document.figures},
        **{f"{FIGURES}/{figure.name}.pdf": figure.pdf for figure in document.figures},
    }
    _write(folder, {**contents, "report.json": sealed(content)})
    return content


class WrittenReport(NamedTuple):
    """The files of a plot, and a sentence that names the comparisons without runs; empty if there are none."""

    files: tuple[Path, ...]
    lacking: str


def write_plot(findings: Findings, plot: Plot, folder: Path, *, root: Path, track: Track = silent) -> WrittenReport:
    """Write one of the report's plots into `folder` as SVG and PDF; no files if there is nothing to draw yet."""
    lacking = ""
    if plot == "pvalues":
        drawn = plots.pvalues(findings, run_tests(findings))
    elif plot == "patterns":
        made = pattern_effects(findings, root, track=track)
        drawn, lacking = _by_pattern(findings, made), made.not_tested
    else:
        drawn = (plots.curves if plot == "curves" else plots.frontier)(findings)
    contents = {f"{figure.name}.svg": figure.svg.encode() for figure in drawn}
    contents |= {f"{figure.name}.pdf": figure.pdf for figure in drawn}
    _write(folder, contents)
    return WrittenReport(tuple(folder / name for name in contents), lacking)


def _write(folder: Path, contents: Mapping[str, bytes]) -> None:
    files = {folder / name: content for name, content in contents.items()}
    for file in files:
        make_folder(file.parent)
    with replacing_all([*files]) as asides:
        for aside, content in zip(asides, files.values(), strict=True):
            aside.write_bytes(content)


def build(findings: Findings, tests: ReportTests, *, unread: Sequence[str] = ()) -> Document:
    """The report as a value. A section without content (no paired test, no curve) is left out."""
    study = findings.study
    drawn, without = _draw(findings, tests)
    printed = [outcome for outcome in findings.outcomes.values() if outcome.published is not None]
    by_dataset = [
        Section(title="Datasets", tables=(datasets_table(findings),)),
        *(_results(findings, group, figures=drawn.get(group, ())) for group in GROUPS),
        Section(title="Against the printed numbers", tables=_filled([agreement_table(findings, printed)])),
        Section(
            title="t-tests between runs",
            words=(WELCH,),
            tables=_filled(table for name in study.datasets for table in _matrices(findings, tests, name)),
            figures=drawn.get("pvalues", ()),
        ),
        Section(
            title="Paired tests on the same questions",
            words=(PAIRED,),
            tables=_filled(paired_table(findings, tests.questions, name) for name in study.datasets),
        ),
        _patterns(findings, tests, figures=drawn.get("patterns", ())),
        Section(
            title="Costs",
            words=(COSTS,),
            tables=_filled(costs_table(findings, name) for name in study.datasets if _ran(findings, name)),
            figures=drawn.get("times", ()),
        ),
        Section(title="Learning curves", figures=drawn.get("curves", ())),
        Section(
            title="The printed p-values",
            words=(PRINTED, _agreeing(tests.printed)),
            tables=_filled([printed_table(findings, tests.printed)]),
        ),
        Section(title="Where each number comes from", tables=_filled([origins_table(findings.outcomes.values())])),
    ]
    flaws = (*findings.flaws, *unread)
    return Document(
        title=study.title or study.name,
        words=(*_summary(findings, printed), *without),
        sections=(
            *(section for section in by_dataset if section.tables or section.figures),
            Section(title="How values are judged", words=(RULE, _tolerance()) if printed else (RULE,)),
            *([Section(title="Left out", words=flaws)] if flaws else []),
        ),
    )


def _draw(findings: Findings, tests: ReportTests) -> tuple[dict[str, tuple[Figure, ...]], tuple[str, ...]]:
    """The plots by section, or the reason why there are none."""
    try:
        drawn = {
            "main": plots.frontier(findings),
            "pvalues": plots.pvalues(findings, tests.runs),
            "times": plots.times(findings),
            "curves": plots.curves(findings),
            "patterns": _by_pattern(findings, tests.patterns),
        }
    except NotInstalled as error:
        return {}, (f"Plots are left out: {error}.",)
    return drawn, ()


def _by_pattern(findings: Findings, made: ByPattern) -> tuple[Figure, ...]:
    return plot_pattern_effects(form_effects(made.tests, alpha=findings.study.alpha))


def _results(findings: Findings, group: str, *, figures: tuple[Figure, ...]) -> Section:
    study = findings.study
    tables = _filled(results_table(findings, name, group) for name in study.datasets)
    missing = [name for name in study.datasets if any(not outcome.runs for outcome in findings.on(name))]
    words = [
        f"Values are mean ± standard deviation over seeds, on the test split, with the weights of"
        f" {WEIGHTS[study.weights]}."
    ]
    if missing and group == "main":
        file = study.file.name if study.file.is_absolute() else study.file.as_posix()
        commands = [f"`conjoin study run {file} --only dataset={name}`" for name in missing]
        words.append(f"To add the missing runs: {listed(commands)}.")
    return Section(title=TITLES[group], words=tuple(words), tables=tables, figures=figures)


def _patterns(findings: Findings, tests: ReportTests, *, figures: tuple[Figure, ...]) -> Section:
    """The tables by pattern, preceded by sentences that summarise them."""
    section = pattern_section(findings, tests.patterns)
    effects = form_effects(tests.patterns.tests, alpha=findings.study.alpha)
    summaries = [
        f"{each.tied} against {each.original}: {' '.join((f'{each.headline}.', *each.sentences))}" for each in effects
    ]
    return replace(
        section, words=(*section.words, *summaries, *([consistency(effects)] if effects else [])), figures=figures
    )


def _matrices(findings: Findings, tests: ReportTests, name: str) -> Iterator[ReportTable]:
    made = [test for test in tests.runs if test.dataset == name]
    for measure in MEASURES:
        if any(test.measure == measure for test in made):
            yield matrix_table(findings, made, name, measure=measure)
    yield control_tests_table(findings, made, name)


def _summary(findings: Findings, printed: Sequence[RowResult]) -> Iterator[str]:
    runs = sum(len(outcome.runs) for outcome in findings.outcomes.values())
    wanted = sum(len(outcome.seeds) for outcome in findings.outcomes.values())
    yield f"{runs:,} of {wanted:,} runs are finished."
    if stand_ins := [f"{each.graph} for {name}" for name, each in findings.study.datasets.items() if each.stand_in]:
        yield f"Other graphs replace the published ones ({', '.join(stand_ins)}); their numbers do not compare."
    judged = [outcome for outcome in printed if outcome.judged and published_value(outcome, "mrr") is not None]
    ran = [outcome for outcome in judged if outcome.runs]
    if not ran:
        return
    close = sum(bool(reproduced(outcome, "mrr")) for outcome in ran)
    hits = sum(all(reproduced(outcome, m) is not False for m in QUALITY if m != "mrr") for outcome in ran)
    yield (
        f"Of {len(judged)} published results {len(ran)} were run. Our mean MRR is within {bare(WITHIN['mrr'])} of the"
        f" printed one in {close} of them, Hits@1, 3 and 10 all within {bare(WITHIN['hits1'])} in {hits}."
    )


def _tolerance() -> str:
    return (
        f"A published result counts as reproduced when our mean MRR is within {bare(WITHIN['mrr'])} of the printed one;"
        f" Hits@n when within {bare(WITHIN['hits1'])}. Times come from different machines and are not judged."
    )


def _agreeing(checks: Sequence[PrintedCheck]) -> str:
    return f"{sum(check.agrees for check in checks)} of {len(checks)} printed p-values agree with the printed means."


def _ran(findings: Findings, name: str) -> bool:
    return any(outcome.runs for outcome in findings.on(name))


def _filled(tables: Iterable[ReportTable]) -> tuple[ReportTable, ...]:
    return tuple(table for table in tables if table.rows)
