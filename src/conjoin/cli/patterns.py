"""Verbs about relation patterns: patterns, synth."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from conjoin.cli import options as opt
from conjoin.cli.screen import Watcher, emit, first_of, number, percent, say, show, show_table

if TYPE_CHECKING:
    from conjoin.graph.portrait import Portrait


@opt.reading_options
def patterns(
    graph: opt.GraphArgument,
    *,
    confidence: Annotated[
        float, typer.Option(help="Of symmetric, antisymmetric, inverse, and tree-likeness of hierarchies.")
    ] = 0.8,
    composition: Annotated[float, typer.Option(help="Confidence of compositions.")] = 0.5,
    support: Annotated[int, typer.Option(help="Pairs that must support a pattern.")] = 10,
    relations: Annotated[int, typer.Option(min=0, help="How many lines of each table to show.")] = 15,
    labels: opt.Labels = None,
    reading: opt.Reading,
    json: opt.Json = False,
) -> None:
    """Find the patterns of every relation.

    With support and confidence: symmetric, antisymmetric, inverse pairs, compositions of two relations (also read
    backwards), hierarchies and cardinality. All splits are counted; self-loops are not.

    \b
    conjoin patterns wn18rr
    conjoin patterns my-facts.csv --confidence 0.9 --json
    """
    from conjoin.graph.portrait import NONE, Thresholds, portray

    asked = Thresholds(confidence=confidence, composition=composition, support=support)
    with Watcher().watching() as watcher:
        loaded = opt.load_graph(graph, options=reading, labels=labels, watcher=watcher)
    found = portray(loaded, asked)
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


def _show_relations(found: Portrait, lines: int) -> None:
    from conjoin.graph.patterns import CARDINALITIES

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


def _show_pairs(found: Portrait, lines: int) -> None:
    for title, pairs in (("Inverse pairs", found.inverses), ("Copies: the same pairs twice", found.copies)):
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


def _show_rules(found: Portrait, lines: int) -> None:
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


def synth(
    family: Annotated[str, typer.Argument(metavar="FAMILY", help="What to plant; `conjoin synth list` names all.")],
    *,
    out: Annotated[Path | None, typer.Option("-o", "--out", help="Folder for train, valid and test.")] = None,
    entities: Annotated[int, typer.Option(help="How many entities.")] = 120,
    noise: Annotated[float, typer.Option(help="Share of facts that are replaced by random ones.")] = 0.0,
    seed: Annotated[int, typer.Option(help="Another seed, another graph.")] = 0,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what is in the folder.")] = False,
    json: opt.Json = False,
) -> None:
    """Make a graph whose patterns are known exactly.

    To see whether `conjoin patterns` finds them and which forms learn them.

    The graph can also be used without a folder, by its name, wherever a graph is asked for.

    \b
    conjoin synth dihedral --noise 0.1 -o my-planted-graph
    conjoin train "synthetic:dihedral(entities=120, noise=0.1, seed=0)" --form 5star-conj --rank 8
    """
    from conjoin.graph.graph import SPLITS
    from conjoin.graph.split import write_split
    from conjoin.graph.synthetic import FAMILIES, Plan, plant
    from conjoin.graph.theory import recovery

    if family == "list":
        rows = [(name, (build.__doc__ or "").strip().partition("\n")[0]) for name, build in FAMILIES.items()]
        if json:
            emit({"families": dict(rows)})
        else:
            show_table("What can be planted", ("family", "what it is"), rows, left=2)
        return
    planted = plant(Plan(family=family, entities=entities, noise=noise, seed=seed))
    measured = recovery(planted.theory, planted.graph)
    written = write_split(planted.graph, out, overwrite=overwrite) if out else None
    counts = {split: len(planted.graph.triples(split)) for split in SPLITS}
    if json:
        emit(
            {
                "name": str(planted.plan),
                "folder": str(written.folder) if written else None,
                **counts,
                "patterns": sorted(map(str, measured.closure)),
                "missed": sorted(map(str, measured.missed)),
                "invented": sorted(map(str, measured.invented)),
                "precision": measured.precision,
                "recall": measured.recall,
            }
        )
        return
    show(f"{planted.plan}: " + ", ".join(f"{split} {count:,}" for split, count in counts.items()))
    rows = [(str(rule), "missed" if rule in measured.missed else "found") for rule in sorted(measured.closure)]
    rows += [(str(rule), "found, but does not follow") for rule in sorted(measured.invented)]
    show_table("Planted patterns and what follows from them", ("pattern", ""), rows, left=2)
    show(f"precision {number(measured.precision)}, recall {number(measured.recall)}")
    if written:
        say(f"written to {written.folder}")
