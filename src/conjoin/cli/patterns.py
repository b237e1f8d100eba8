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
    found = find_patterns(loaded, thresholds)
    if json:
        emit(found.to_json())
        return
    everything = int(found.pairs.sum())
    rows = []
    for name, flags in {**found.has, NONE: found.plain}.items():
        pairs = int(found.pairs[flags].sum())
        share = percent(pairs / everything if everything else None)
        rows.append((name, f"{int(flags.sum()):,}", f"{pairs:,}", share))
    heads = ("pattern", "relations", "pairs", "share")
    show_table(f"{loaded.name}: patterns of {loaded.n_relations:,} relations (they overlap)", heads, rows)
    _show_relations(found, relations)
    _show_pairs(found, relations)
    _show_rules(found, relations)


def _show_relations(found: PatternReport, lines: int) -> None:
    from conjoin.graph.patterns.detect import CARDINALITIES

    often = sorted(range(found.graph.n_relations), key=lambda r: -int(found.pairs[r]))
    rows = [
        (
            found.label(r),
            ", ".join(found.patterns_of(r)) or "-",
            CARDINALITIES[kind] if (kind := int(found.cardinality.kind[r])) >= 0 else "-",
            f"{int(found.pairs[r]):,}",
            number(float(found.symmetric.confidence[r])),
            number(float(found.antisymmetric.confidence[r])) if found.antisymmetric.support[r] else "-",
            number(float(found.hierarchy.likeness[r])),
            str(int(found.hierarchy.depth[r])),
        )
        for r in often[:lines]
    ]
    heads = ("relation", "patterns", "kind", "pairs", "symmetric", "antisym.", "tree", "depth")
    show_table(f"Relations{first_of(lines, len(often))}: confidences", heads, rows, left=3)


def _show_pairs(found: PatternReport, lines: int) -> None:
    for title, pairs in (("Inverse pairs", found.inverses), ("Copies: relations with the same pairs", found.copies)):
        best = sorted(range(len(pairs)), key=lambda i: -int(pairs.support[i]))
        rows = [
            (
                found.label(int(pairs.relation[i])),
                found.label(int(pairs.other[i])),
                f"{int(pairs.support[i]):,}",
                number(float(pairs.confidence[i])),
            )
            for i in best[:lines]
        ]
        if rows:
            heads = ("relation", "other", "support", "confidence")
            show_table(title + first_of(lines, len(pairs)), heads, rows, left=2)


def _show_rules(found: PatternReport, lines: int) -> None:
    rules = found.compositions
    rows = [
        (
            found.label(int(rules.first[i])),
            found.label(int(rules.second[i])),
            found.label(int(rules.third[i])),
            f"{int(rules.support[i]):,}",
            number(float(rules.confidence[i])),
            number(float(rules.coverage[i])),
        )
        for i in range(min(lines, len(rules)))
    ]
    if rows:
        heads = ("first", "∘ second", "→ third", "support", "confidence", "coverage")
        show_table("Compositions" + first_of(lines, len(rules)), heads, rows, left=3)
