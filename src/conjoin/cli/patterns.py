"""`conjoin patterns`: the patterns of every relation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from conjoin.cli import options as opt
from conjoin.cli.output import ProgressDisplay, emit, first_of, number, percent, show_table

if TYPE_CHECKING:
    from conjoin.graph.patterns.report import PatternReport


@opt.reading_options
def patterns(
    graph: opt.GraphArgument,
    *,
    confidence: Annotated[
        float, typer.Option(help="Least confidence of symmetric, antisymmetric, inverse and hierarchical.")
    ] = 0.8,
    composition: Annotated[float, typer.Option(help="Least confidence of compositions.")] = 0.5,
    support: Annotated[int, typer.Option(help="Least number of pairs that support a pattern.")] = 10,
    relations: Annotated[int, typer.Option(min=0, help="Number of lines of each table.")] = 15,
    labels: opt.Labels = None,
    reading: opt.Reading,
    json: opt.Json = False,
) -> None:
    """Find relation patterns: symmetric, inverse, composed and more.

    Counts symmetric and antisymmetric relations, inverse pairs, compositions of two relations (each in both
    directions), hierarchies and cardinality, with support and confidence. All splits count; self-loops do not.

    \b
    conjoin patterns wn18rr
    conjoin patterns my-facts.csv --confidence 0.9 --json
    """
    from conjoin.graph.patterns.report import NONE, Thresholds, find_patterns

    thresholds = Thresholds(confidence=confidence, composition=composition, support=support)
    with ProgressDisplay().watching() as watcher:
        loaded = opt.load_graph(graph, options=reading, labels=labels, watcher=watcher)
    report = find_patterns(loaded, thresholds)
    if json:
        emit(report.to_json())
        return
    everything = int(report.pairs.sum())
    rows = []
    for name, flags in {**report.has, NONE: report.plain}.items():
        pairs = int(report.pairs[flags].sum())
        share = percent(pairs / everything if everything else None)
        rows.append((name, f"{int(flags.sum()):,}", f"{pairs:,}", share))
    heads = ("pattern", "relations", "pairs", "share")
    show_table(f"{loaded.name}: patterns of {loaded.n_relations:,} relations (they overlap)", heads, rows)
    _show_relations(report, relations)
    _show_pairs(report, relations)
    _show_rules(report, relations)


def _show_relations(report: PatternReport, lines: int) -> None:
    from conjoin.graph.patterns.detect import CARDINALITIES

    often = sorted(range(report.graph.n_relations), key=lambda r: -int(report.pairs[r]))
    rows = [
        (
            report.label(r),
            ", ".join(report.patterns_of(r)) or "-",
            CARDINALITIES[kind] if (kind := int(report.cardinality.kind[r])) >= 0 else "-",
            f"{int(report.pairs[r]):,}",
            number(float(report.symmetric.confidence[r])),
            number(float(report.antisymmetric.confidence[r])) if report.antisymmetric.support[r] else "-",
            number(float(report.hierarchy.likeness[r])),
            str(int(report.hierarchy.depth[r])),
        )
        for r in often[:lines]
    ]
    heads = ("relation", "patterns", "kind", "pairs", "symmetric", "antisym.", "tree", "depth")
    show_table(f"Relations{first_of(lines, len(often))}: confidences", heads, rows, left=3)


def _show_pairs(report: PatternReport, lines: int) -> None:
    for title, pairs in (("Inverse pairs", report.inverses), ("Copies: relations with the same pairs", report.copies)):
        best = sorted(range(len(pairs)), key=lambda i: -int(pairs.support[i]))
        rows = [
            (
                report.label(int(pairs.relation[i])),
                report.label(int(pairs.other[i])),
                f"{int(pairs.support[i]):,}",
                number(float(pairs.confidence[i])),
            )
            for i in best[:lines]
        ]
        if rows:
            heads = ("relation", "other", "support", "confidence")
            show_table(title + first_of(lines, len(pairs)), heads, rows, left=2)


def _show_rules(report: PatternReport, lines: int) -> None:
    rules = report.compositions
    rows = [
        (
            report.label(int(rules.first[i])),
            report.label(int(rules.second[i])),
            report.label(int(rules.third[i])),
            f"{int(rules.support[i]):,}",
            number(float(rules.confidence[i])),
            number(float(rules.coverage[i])),
        )
        for i in range(min(lines, len(rules)))
    ]
    if rows:
        heads = ("first", "∘ second", "→ third", "support", "confidence", "coverage")
        show_table("Compositions" + first_of(lines, len(rules)), heads, rows, left=3)
