"""Fill in the measured blocks of docs/patterns.md: python scripts/write_patterns_doc.py [--measure]

Blocks stand between `<!-- patterns: NAME -->` and `<!-- /patterns -->` and come from committed results: the runs under
studies/results, patterns.json of each dataset, and recovery.json. `--measure` first mines the planted graphs again and
finds the patterns of datasets that are on this machine.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import fmean

from conjoin.files import read_json, write_json
from conjoin.graph.portrait import NONE, PATTERNS
from conjoin.graph.synthetic import FAMILIES, Plan, plant
from conjoin.graph.theory import recovery
from conjoin.report.by_pattern import EVERYTHING, ByPattern, pattern_tests
from conjoin.report.collect import Findings, Outcome, collect
from conjoin.report.predictions import Predictions, tally
from conjoin.report.printing import signed, span
from conjoin.report.ranking import ranked
from conjoin.report.stats import one_digit
from conjoin.study.patterns import pattern_groups, patterns_file
from conjoin.study.study import Study

ROOT = Path(__file__).resolve().parents[1]
DOC = ROOT / "docs" / "patterns.md"
STUDIES = ROOT / "studies"
RECOVERY = STUDIES / "results" / "patterns" / "recovery.json"
BLOCK = re.compile(r"<!-- patterns: (?P<name>[\w-]+) -->\n.*?<!-- /patterns -->", re.DOTALL)
DATASETS = ("FB15K-237", "WN18RR", "FB15K", "WN18")
NOISE = (0.0, 0.05, 0.1, 0.2, 0.3)
SEEDS = range(3)
ALPHA = 0.05


def table(heads: list[str], rows: list[list[str]], *, left: int = 1) -> str:
    rule = ["---" if place < left else "---:" for place in range(len(heads))]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [heads, rule, *rows])


def findings_of(name: str) -> Findings:
    study = Study.read(STUDIES / f"{name}.toml")
    return collect(study, study.root)


def datasets() -> str:
    study = Study.read(STUDIES / "paper.toml")
    names = [*PATTERNS, NONE]
    rows = []
    for dataset in DATASETS:
        if not patterns_file(study, dataset, study.root).exists():
            rows.append([dataset, *["not measured"] * (len(names) + 2)])
            continue
        groups = pattern_groups(study, dataset, study.root)
        assert groups is not None
        counts = [f"{len(groups.relations[name])} ({groups.pairs[name]:,})" for name in names]
        rows.append([dataset, *counts, f"{groups.rules['inverse']:,}", f"{groups.rules['composition']:,}"])
    return table(["dataset", *names, "inverse pairs", "composition rules"], rows)


def planted() -> str:
    told = read_json(RECOVERY)
    rows = [
        [
            family,
            str(each["rules"]),
            *(f"{share(each['precision'][str(noise)])} / {share(each['recall'][str(noise)])}" for noise in NOISE),
        ]
        for family, each in told["families"].items()
    ]
    heads = ["family", "rules that follow", *(f"noise {noise:.0%}" for noise in NOISE)]
    return table(heads, rows) + f"\n\nMean precision / recall over {told['seeds']} seeds, {told['entities']} entities."


def share(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def predictions() -> str:
    findings = findings_of("patterns")
    asked = Predictions.read(STUDIES / "patterns-predictions.toml", findings.study)
    outcomes = asked.judge(findings)
    seeds = sorted({len(outcome.runs) for outcome in findings.outcomes.values()})
    lines = [f"{len(outcomes)} claims: {tally(outcomes)}. Margin {asked.margin}, {told(seeds)} seeds per row."]
    for prediction in asked.predictions:
        mine = [outcome for outcome in outcomes if outcome.prediction == prediction]
        lines += ["", f"**{prediction.title}.** Because {prediction.reason} *{tally(mine).capitalize()}.*", ""]
        rows = [
            [
                f"{outcome.claim.a} {'>' if outcome.claim.gain else '='} {outcome.claim.b}",
                outcome.claim.dataset,
                *(f"{value:.3f}" for value in outcome.mrr or ()),
                *([] if outcome.mrr else ["-", "-"]),
                signed(outcome.paired.difference, decimals=3) if outcome.paired else "-",
                span(outcome.paired.interval) if outcome.paired else "-",
                outcome.verdict,
            ]
            for outcome in mine
        ]
        lines.append(table(["claim", "graph", "first", "second", "difference", "95 % interval", ""], rows, left=2))
    return "\n".join(lines)


def told(seeds: list[int]) -> str:
    return str(seeds[0]) if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"


def learned() -> str:
    findings = findings_of("patterns")
    names = list(findings.study.datasets)
    rows = []
    for row in findings.study.rows.values():
        cells = []
        for dataset in names:
            outcome = findings.of(dataset, row.name)
            moments = outcome.moments("mrr") if outcome else None
            cells.append(f"{moments.mean:.3f}" if moments else "-")
        rows.append([row.name, *cells])
    return table(["test MRR", *names], rows)


def gains() -> str:
    findings = findings_of("paper")
    found = pattern_tests(findings, findings.study.root, datasets=DATASETS)
    lines = []
    for dataset in DATASETS:
        lines += ["", f"### {dataset}", "", _gains(found, dataset)]
    absent = [text for text in found.missing if text.startswith(DATASETS)]
    lines += ["", f"Cells without runs: {', '.join(absent) if absent else 'none'}."]
    return "\n".join(lines).strip()


def _gains(found: ByPattern, dataset: str) -> str:
    tests = [test for test in found.tests if test.dataset == dataset]
    if not tests:
        return "No tied form and its original have both been run yet."
    groups = list(dict.fromkeys(test.group for test in tests))
    tied = list(dict.fromkeys(test.tied.row.name for test in tests))
    lines = {(test.group, test.tied.row.name): test for test in tests}
    rows = []
    for group in groups:
        size = next(test.paired.triples for test in tests if test.group == group)
        cells = []
        for name in tied:
            test = lines.get((group, name))
            if test is None:
                cells.append("-")
                continue
            text = f"{signed(test.paired.difference, decimals=3)} ± {half(test.paired.interval)}"
            cells.append(text if test.verdict(ALPHA) == "no difference" else f"**{text}**")
        rows.append([group, f"{size:,}", *cells])
    originals = {
        test.tied.row.name: (test.original.row.name, test.before) for test in tests if test.group == EVERYTHING
    }
    heads = [f"{name} − {originals[name][0]}" for name in tied]
    return table(["questions of", "triples", *heads], rows)


def half(interval: object) -> str:
    return f"{(interval.high - interval.low) / 2:.3f}"  # type: ignore[attr-defined]


def ties() -> str:
    findings = findings_of("ties")
    lines = []
    for dataset in findings.study.datasets:
        run = [outcome for outcome in findings.on(dataset) if outcome.runs]
        absent = len(findings.on(dataset)) - len(run)
        lines += ["", f"### {dataset}", ""]
        if not run:
            lines.append(f"Not run yet: `conjoin study run studies/ties.toml --only dataset={dataset}`.")
            continue
        lines += [_verdict(findings, dataset), "", _ranking(findings, dataset)]
        if absent:
            lines += ["", f"{absent} of {absent + len(run)} rows have not been run."]
    return "\n".join(lines).strip()


def _tied(outcome: Outcome) -> bool:
    return outcome.row.group != "control"


def _verdict(findings: Findings, dataset: str) -> str:
    tied = ranked(findings, dataset, reference="5star-conj", competes=_tied)
    paper = next((each for each in tied if each.outcome.row.name == "5star-conj"), None)
    if paper is None:
        return "The paper's choice has not been run yet."
    better = [
        each
        for each in tied
        if each.against and each.against.difference > 0 and each.holm is not None and each.holm < ALPHA
    ]
    words = ", ".join(each.outcome.row.label for each in better)
    return f"The paper's choice, 5★ε, is number {paper.place} of {len(tied)} ways to tie; " + (
        f"better after Holm's correction: {words}." if better else "none is better after Holm's correction."
    )


def _ranking(findings: Findings, dataset: str) -> str:
    rows = []
    for each in ranked(findings, dataset, reference="5star-conj"):
        row = each.outcome.row
        rows.append(
            [
                row.label,
                {"main": "pairs", "ablation": "three share", "control": "not tied"}[row.group],
                f"{each.mrr:.3f}",
                signed(each.against.difference, decimals=3) if each.against else "",
                span(each.against.interval) if each.against else "",
                one_digit(each.holm) if each.holm is not None else "",
                str(each.seeds),
            ]
        )
    return table(["ties", "kind", "MRR", "less that of 5★ε", "95 % interval", "p, Holm", "seeds"], rows, left=2)


BLOCKS: dict[str, Callable[[], str]] = {
    "datasets": datasets,
    "planted": planted,
    "learned": learned,
    "predictions": predictions,
    "gains": gains,
    "ties": ties,
}


def filled(text: str) -> str:
    """The text with every block as the results are now."""

    def fill(block: re.Match[str]) -> str:
        return f"<!-- patterns: {block['name']} -->\n{BLOCKS[block['name']]()}\n<!-- /patterns -->"

    return BLOCK.sub(fill, text)


def measure(*, entities: int = 120) -> None:
    """Mine planted graphs at every noise level, and the datasets that are here."""
    families = {}
    for family in FAMILIES:
        precision, recall, rules = {}, {}, 0
        for noise in NOISE:
            plans = [Plan(family=family, entities=entities, noise=noise, seed=seed) for seed in SEEDS]
            found = [recovery(p.theory, p.graph) for p in map(plant, plans)]
            shares = [each.precision for each in found if each.precision is not None]
            precision[str(noise)] = fmean(shares) if shares else None
            recall[str(noise)] = fmean(each.recall or 0.0 for each in found)
            rules = len(found[0].closure)
        families[family] = {"rules": rules, "precision": precision, "recall": recall}
    RECOVERY.parent.mkdir(parents=True, exist_ok=True)
    write_json(RECOVERY, {"entities": entities, "seeds": len(SEEDS), "families": families})
    study = Study.read(STUDIES / "paper.toml")
    for dataset in DATASETS:
        pattern_groups(study, dataset, study.root)


def main() -> None:
    if "--measure" in sys.argv[1:]:
        measure()
    before = DOC.read_text(encoding="utf-8")
    after = filled(before)
    if after != before:
        DOC.write_text(after, encoding="utf-8")


if __name__ == "__main__":
    main()
