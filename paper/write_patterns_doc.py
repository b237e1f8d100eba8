"""Fill in the measured blocks of docs/patterns.md and docs/ties.md: python -m paper.write_patterns_doc [--measure]

Blocks are between `<!-- patterns: NAME -->` and `<!-- /patterns -->` and come from committed results: the runs under
studies/results, patterns.json of each dataset, recovery.json and popularity.json. docs/images/pattern-effects.svg
shows the same numbers. `--measure` first mines the planted graphs again, finds the patterns of the datasets on this
machine, and computes the MRR of counting tails alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from statistics import fmean, median

from bench.compare.results import latest
from paper.patterns_shared import DATASETS, ROOT, STUDIES, findings_of, rule, stated, table
from paper.predictions import Predictions, tally
from scripts.script_words import parser

from conjoin.graph.patterns.report import NONE, PATTERNS
from conjoin.graph.patterns.rules import recovery
from conjoin.graph.synthetic import FAMILIES, SyntheticSpec, generate
from conjoin.report.formatting import signed, span
from conjoin.runtime.atomic_files import read_json, write_json
from conjoin.studies.archive import shared_file
from conjoin.studies.parse import read_study
from conjoin.studies.pattern_groups import pattern_groups, patterns_file
from paper import patterns_effects, patterns_ties

DOCS = (ROOT / "docs" / "patterns.md", ROOT / "docs" / "ties.md")
RECOVERY = STUDIES / "results" / "patterns" / "recovery.json"
BLOCK = re.compile(r"<!-- patterns: (?P<name>[\w-]+) -->\n.*?<!-- /patterns -->", re.DOTALL)
NOISE = (0.0, 0.05, 0.1, 0.2, 0.3)
SEEDS = range(3)


def datasets() -> str:
    study = read_study(STUDIES / "paper.toml")
    names = [*PATTERNS, NONE]
    rows = []
    for dataset in DATASETS:
        if shared_file(patterns_file(study, dataset, study.root)) is None:
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
    lines = [f"{len(outcomes)} claims: {tally(outcomes)}. {told(seeds)} seeds per row. {rule(asked.margin)}"]
    for prediction in asked.predictions:
        mine = [outcome for outcome in outcomes if outcome.prediction == prediction]
        lines += ["", stated(prediction, mine), ""]
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
        lines.append(
            table(["claim", "graph", "first", "second", "difference", "95 % interval", "verdict"], rows, left=2)
        )
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


def seconds() -> str:
    """Wall and processor time of `conjoin patterns`, from the newest file that bench/patterns.py wrote."""
    file = latest(ROOT / "bench" / "results", "patterns_2cores")
    told = read_json(file) if file else {"graphs": {}}
    rows = [
        [
            graph,
            *(f"{median(one[key] for one in runs):.1f}" for key in ("wall_seconds", "processor_seconds")),
            f"{min(one['load_before'] for one in runs):.1f} to {max(one['load_before'] for one in runs):.1f}",
            f"{max(one['peak_bytes'] for one in runs) / 2**20:.0f} MiB",
        ]
        for graph, runs in told["graphs"].items()
    ]
    times = sorted({len(runs) for runs in told["graphs"].values()})
    heads = ["graph", "wall seconds", "processor seconds", "load before", "peak memory"]
    return (
        f"{table(heads, rows)}\n\nMedians of {times[-1]} starts on two cores, {told['date']}."
        if rows
        else "Not measured."
    )


BLOCKS: dict[str, Callable[[], str]] = {
    "datasets": datasets,
    "seconds": seconds,
    "planted": planted,
    "learned": learned,
    "predictions": predictions,
    "effects": patterns_effects.effects,
    "gains": patterns_effects.gains,
    "ties-answer": patterns_ties.answer,
    "ties": patterns_ties.ties,
    "ties-algebra": patterns_ties.algebra,
    "ties-tested": patterns_ties.tested,
    "ties-turns": patterns_ties.turns,
    "ties-penalty": patterns_ties.penalty,
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
            plans = [SyntheticSpec(family=family, entities=entities, noise=noise, seed=seed) for seed in SEEDS]
            found = [recovery(p.theory, p.graph) for p in map(generate, plans)]
            shares = [each.precision for each in found if each.precision is not None]
            precision[str(noise)] = fmean(shares) if shares else None
            recall[str(noise)] = fmean(each.recall or 0.0 for each in found)
            rules = len(found[0].closure)
        families[family] = {"rules": rules, "precision": precision, "recall": recall}
    RECOVERY.parent.mkdir(parents=True, exist_ok=True)
    write_json(RECOVERY, {"entities": entities, "seeds": len(SEEDS), "families": families})
    study = read_study(STUDIES / "paper.toml")
    for dataset in DATASETS:
        pattern_groups(study, dataset, study.root)
    patterns_ties.measure()


def main() -> None:
    words = parser(__doc__)
    words.add_argument("--measure", action="store_true", help="first mine the planted graphs and datasets again")
    if words.parse_args().measure:
        measure()
    patterns_effects.draw()
    for doc in DOCS:
        before = doc.read_text(encoding="utf-8")
        after = filled(before)
        if after != before:
            doc.write_text(after, encoding="utf-8")


if __name__ == "__main__":
    main()
