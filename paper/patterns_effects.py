"""The blocks of docs/patterns.md on where tied forms gain and lose; called by write_patterns_doc.py."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from pathlib import Path

from paper.patterns_shared import ALPHA, DATASETS, STUDIES, findings_of, half, seeds_of, table

from conjoin.report.collect import Findings
from conjoin.report.formatting import signed
from conjoin.report.pattern_effects import EVERYTHING, ByPattern, PatternEffect, pattern_effects
from conjoin.report.pattern_plot import plot_pattern_effects
from conjoin.report.pattern_text import agreement, consistency, form_effects, named, number_word

PLOT = STUDIES.parent / "docs" / "images" / "pattern-effects.svg"
BY_DAY = (
    "<style>svg{color:#1c1e21;background:#fff}"
    "@media (prefers-color-scheme:dark){svg{color:#e6e8eb;background:#15181c}}</style>"
)
"""An embedded image does not get the page's colours, so the file has colours for light and dark mode."""


def _tests(name: str) -> tuple[Findings, ByPattern]:
    findings = findings_of(name)
    return findings, pattern_effects(findings, findings.study.root, datasets=DATASETS)


def effects() -> str:
    """Equal settings: a list per form, a summary over datasets, and tables."""
    findings, found = _tests("pattern-effects")
    if not found.tests:
        return "Not run yet: `conjoin study run studies/pattern-effects.toml`."
    told = form_effects(found.tests, alpha=ALPHA)
    lines = [f"{seeds_of(findings)} per row."]
    for each in told:
        by_pattern, *_, agreed = each.sentences
        headline, _, numbers = each.headline.partition(": ")
        lines += ["", f"**{each.tied} against {each.original}:** {headline} ({numbers})."]
        lines += ["", "By pattern:", "", *_listed(by_pattern.removeprefix("By pattern – ")), "", agreed]
    heading, _, rest = consistency(told).partition(": ")
    lines += ["", f"{heading}:", "", *_listed(rest), "", _tables(found)]
    return "\n".join(lines + _missing(found))


def _listed(words: str) -> list[str]:
    """A Markdown list of the parts of a sentence."""
    return [f"- {part}" for part in words.removesuffix(".").split("; ")]


def gains() -> str:
    """The published settings, as far as they were run, compared with equal settings."""
    findings, found = _tests("paper")
    _, equal = _tests("pattern-effects")
    shared, same, opposite = agreement(equal.tests, found.tests, alpha=ALPHA)
    lines = []
    if shared:
        lines = [
            f"Both studies have {shared} tests in common: {same} have the same verdict in both,"
            f" {number_word(opposite) if opposite else 'none'} have opposite verdicts, and"
            f" {shared - same - opposite} are decided in only one study."
        ]
        lines += _opposites(equal.tests, found.tests)
    lines += ["", f"{seeds_of(findings)} per row that has been run.", "", _tables(found)]
    return "\n".join(lines + _missing(found)).strip()


def _opposites(first: Iterable[PatternEffect], second: Iterable[PatternEffect]) -> list[str]:
    before = {(t.dataset, t.group, t.tied.row.name): t for t in first}
    told = []
    for test in second:
        other = before.get((test.dataset, test.group, test.tied.row.name))
        verdicts = {test.verdict(ALPHA), other.verdict(ALPHA)} if other else set()
        if other and verdicts == {"gains", "loses"}:
            told.append(
                f"{test.tied.row.label} on {test.dataset}, {named(test.group)}:"
                f" {signed(other.paired.difference, decimals=3)} and {signed(test.paired.difference, decimals=3)}"
            )
    return ["", f"Opposite signs (equal settings first): {'; '.join(told)}."] if told else []


def _missing(found: ByPattern) -> list[str]:
    absent = [text for text in found.missing if text.startswith(DATASETS)]
    if unreadable := [text for text in absent if ": " in text]:
        raise SystemExit("\n".join(unreadable))
    return ["", f"Cells without runs: {', '.join(absent)}."] if absent else []


def _tables(found: ByPattern) -> str:
    lines = []
    for dataset in DATASETS:
        tests = [test for test in found.tests if test.dataset == dataset]
        words = _table(tests) if tests else "No tied form and its original have both been run yet."
        lines += ["", f"#### {dataset}", "", words]
    return "\n".join(lines).strip()


def _table(tests: list[PatternEffect]) -> str:
    groups = list(dict.fromkeys(test.group for test in tests))
    tied = {test.tied.row.name: test for test in tests if test.group == EVERYTHING}
    cells = {(test.group, test.tied.row.name): test for test in tests}
    rows = []
    for group in groups:
        size = next(test.paired.triples for test in tests if test.group == group)
        rows.append([named(group), f"{size:,}", *(_cell(cells.get((group, name))) for name in tied)])
    heads = [f"{test.tied.row.label} − {test.original.row.label}" for test in tied.values()]
    return table(["questions of", "triples", *heads], rows)


def _cell(test: PatternEffect | None) -> str:
    if test is None:
        return "-"
    text = f"{signed(test.paired.difference, decimals=3)} ± {half(test.paired.interval)}"
    return text if test.verdict(ALPHA) == "not told apart" else f"**{text}**"


def digest() -> str:
    """A short checksum of the plotted numbers; a test compares it with the one in the file."""
    told = [test.to_json() for test in _tests("pattern-effects")[1].tests]
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:16]


def draw(file: Path = PLOT) -> None:
    """Write the plot, unless the file shows these numbers already: other versions of matplotlib differ in bytes."""
    mark = f"<!-- numbers: {digest()} -->"
    if file.exists() and mark in file.read_text(encoding="utf-8"):
        return
    told = form_effects(_tests("pattern-effects")[1].tests, alpha=ALPHA)
    for figure in plot_pattern_effects(told):
        drawn = re.sub(r"(<svg [^>]*>)", rf"\1\n{mark}\n{BY_DAY}", figure.svg, count=1)
        file.write_text(drawn, encoding="utf-8")
