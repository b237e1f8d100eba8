"""Compares tied forms with their originals by relation pattern: paired tests on stored ranks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from conjoin.errors import ConjoinError, RunError
from conjoin.report.collect import Findings, RowResult
from conjoin.report.document import Entry, ReportTable, Section, TableColumn
from conjoin.report.formatting import NOTHING, signed, span
from conjoin.report.stats import Answers, Paired, holm, p_value, paired_by_t
from conjoin.report.tables import name_entry, place
from conjoin.runtime.progress import Track, silent
from conjoin.studies.pattern_groups import PatternGroups, pattern_groups

ORIGINALS = {
    "complex-conj": "complex",
    "5star-conj": "5star",
    "5star-neg": "5star",
    "5star-vert": "5star",
    "5star-horiz": "5star",
}
"""Each tied form of the paper, and its original without tied parameters."""
EVERYTHING = "all questions"
FEWEST = 20
"""A group with fewer triples is not tested."""
WORDS = (
    "These tests compare each tied form with its original, on the test triples of the relations that show a"
    " pattern or have a cardinality (`conjoin patterns`). A relation may show several patterns, so groups overlap."
    " Differences are tied − original, from the same questions: reciprocal ranks are averaged over seeds and over"
    " the two questions of a triple. The interval and p come from the t-test on triples; Holm's correction is over"
    " all tests of a dataset. Like every paired test here, these tests say something about other questions, not"
    " about other seeds."
)


@dataclass(frozen=True, kw_only=True)
class PatternEffect:
    """A tied row against its original on one group of a dataset's questions."""

    dataset: str
    group: str
    original: RowResult
    tied: RowResult
    before: float
    after: float
    paired: Paired
    holm: float | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "dataset": self.dataset,
            "questions_of": self.group,
            "original": self.original.row.name,
            "tied": self.tied.row.name,
            "triples": self.paired.triples,
            "mrr_original": self.before,
            "mrr_tied": self.after,
            "difference": self.paired.difference,
            "interval": [self.paired.interval.low, self.paired.interval.high],
            "p": self.paired.p,
            "holm": self.holm,
        }

    def verdict(self, alpha: float) -> str:
        """One of gains, loses and not told apart, after Holm's correction."""
        if self.holm is None or self.holm >= alpha:
            return "not told apart"
        return "gains" if self.paired.difference > 0 else "loses"


@dataclass(frozen=True, kw_only=True)
class ByPattern:
    """All tests, the groups of each dataset, and the reasons for missing tests."""

    tests: tuple[PatternEffect, ...]
    groups: Mapping[str, PatternGroups]
    missing: tuple[str, ...]

    @property
    def not_tested(self) -> str:
        """A sentence that names the missing tests; empty if there are none."""
        return f"Not tested, because runs are missing: {'; '.join(self.missing)}." if self.missing else ""


def pattern_effects(
    findings: Findings, root: Path, *, datasets: Iterable[str] | None = None, track: Track = silent
) -> ByPattern:
    """Test every pair of ORIGINALS in the study, on every dataset whose runs stored their ranks."""
    study = findings.study
    names = [name for name in study.datasets if datasets is None or name in datasets]
    tests: list[PatternEffect] = []
    groups: dict[str, PatternGroups] = {}
    missing: list[str] = []
    for name in track(names, "patterns", len(names)):
        pairs = [pair for pair in _pairs(findings, name) if _ready(pair, name, missing)]
        try:
            found = pattern_groups(study, name, root) if pairs or datasets is not None else None
        except ConjoinError as error:
            missing.append(f"{name}: {error}")
            continue
        if found is not None:
            groups[name] = found
        elif pairs:
            missing.append(f"{name}: neither its patterns nor its data are available")
        if found is not None and pairs:
            tests += _family(name, pairs, found, missing)
    return ByPattern(tests=tuple(tests), groups=groups, missing=tuple(missing))


def pattern_section(findings: Findings, found: ByPattern) -> Section:
    """The tests as one table per dataset, with a sentence about missing tests."""
    alpha = findings.study.alpha
    tables = tuple(
        pattern_table(findings, [test for test in found.tests if test.dataset == name], name, alpha=alpha)
        for name in findings.study.datasets
        if any(test.dataset == name for test in found.tests)
    )
    words = (WORDS, *((found.not_tested,) if found.missing else ()))
    return Section(title="By relation pattern", words=words, tables=tables)


def pattern_table(findings: Findings, tests: Iterable[PatternEffect], dataset: str, *, alpha: float) -> ReportTable:
    """One line per tied form and group."""
    heads = ("Triples", "MRR, original", "MRR, tied", "Difference", "95 % interval", "p, Holm")
    rows = [
        (
            name_entry(test.tied.row),
            Entry(test.group),
            Entry(f"{test.paired.triples:,}"),
            Entry(f"{test.before:.3f}"),
            Entry(f"{test.after:.3f}"),
            Entry(signed(test.paired.difference), bold=test.verdict(alpha) != "not told apart"),
            Entry(span(test.paired.interval)),
            Entry(NOTHING if test.holm is None else p_value(test.holm)),
            Entry(test.verdict(alpha)),
        )
        for test in tests
    ]
    return ReportTable(
        title=f"Tied forms by relation pattern on {place(findings, dataset)}",
        columns=(
            TableColumn("Tied form", "left"),
            TableColumn("Questions of", "left"),
            *(TableColumn(head) for head in heads),
            TableColumn("Verdict", "left"),
        ),
        rows=tuple(rows),
    )


def _pairs(findings: Findings, dataset: str) -> list[tuple[RowResult, RowResult]]:
    """Pairs of original and tied rows with the same settings."""
    outcomes = findings.on(dataset)
    return [
        (original, tied)
        for tied in outcomes
        for original in outcomes
        if ORIGINALS.get(tied.row.form) == original.row.form
        and tied.row.settings == original.row.settings
        and tied.row.rank_factor == original.row.rank_factor
        and not tied.row.options
    ]


def _ready(pair: tuple[RowResult, RowResult], dataset: str, missing: list[str]) -> bool:
    lacking = [each.row.name for each in pair if not any(r.folder.holds_ranks("test") for r in each.runs)]
    for name in lacking:
        if (text := f"{dataset} {name}") not in missing:
            missing.append(text)
    return not lacking


def _family(
    dataset: str, pairs: list[tuple[RowResult, RowResult]], groups: PatternGroups, missing: list[str]
) -> list[PatternEffect]:
    answers: dict[str, Answers] = {}
    family: list[PatternEffect] = []
    for original, tied in pairs:
        try:
            before, after = (_answers(outcome, answers) for outcome in (original, tied))
        except RunError as error:
            missing.append(f"{dataset} {tied.row.name}: {error}")
            continue
        for group, relations in {EVERYTHING: None, **groups.relations}.items():
            chosen = np.ones(len(before.questions), dtype=bool)
            if relations is not None:
                chosen = np.isin(before.questions[:, 1], relations)
            one, other = (Answers(each.questions[chosen], each.reciprocal[chosen]) for each in (before, after))
            result = paired_by_t(other, one)
            if result is not None and result.triples >= FEWEST:
                means = (float(np.mean(each.reciprocal)) for each in (one, other))
                family.append(
                    PatternEffect(
                        dataset=dataset,
                        group=group,
                        original=original,
                        tied=tied,
                        before=next(means),
                        after=next(means),
                        paired=result,
                    )
                )
    corrected = holm([test.paired.p for test in family])
    return [replace(test, holm=p) for test, p in zip(family, corrected, strict=True)]


def _answers(outcome: RowResult, kept: dict[str, Answers]) -> Answers:
    if outcome.row.name not in kept:
        found = outcome.answers()
        assert found is not None, "_ready removes pairs without ranks"
        kept[outcome.row.name] = found
    return kept[outcome.row.name]
