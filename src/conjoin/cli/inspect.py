"""`conjoin inspect`: describe a graph before training."""

from __future__ import annotations

from typing import Annotated

import typer

from conjoin.cli import options as opt
from conjoin.cli.output import ProgressDisplay, emit, first_of, percent, show, show_table, shown
from conjoin.runtime.text_escaping import spelled


@opt.reading_options
def inspect(
    graph: opt.GraphArgument,
    *,
    relations: Annotated[int, typer.Option(min=0, help="How many relations to list.")] = 10,
    labels: opt.Labels = None,
    reading: opt.Reading,
    json: opt.Json = False,
) -> None:
    """Look at a graph before using it.

    How its files were read, sizes, degrees, cardinalities, duplicates, leakage from train to test, unseen entities.

    \b
    conjoin inspect wn18rr
    conjoin inspect my-facts.csv --columns subject,verb,object
    """
    from conjoin.graph.statistics import Measure, graph_statistics

    with ProgressDisplay().watching() as watcher:
        loaded = opt.load_graph(graph, options=reading, labels=labels, watcher=watcher)
    found = graph_statistics(loaded)
    if json:
        emit(found.to_json())
        return

    def label(relation: str) -> str:
        return loaded.relations.label(loaded.relations.index[relation])

    for file in found.read_as:
        show(spelled(file))
    sizes = vars(found.sizes)
    show_table("Dataset", ("name", *sizes), [(found.name, *(f"{count:,}" for count in sizes.values()))])
    degrees = found.degrees
    show(
        f"Degrees in train: {degrees.minimum} to {degrees.maximum:,}, mean {degrees.mean:.1f}, "
        f"median {degrees.median:g}; {percent(degrees.once.share)} of the entities occur once"
    )
    rows = [
        (r.cardinality or "not in train", f"{r.relations:,}", f"{r.train:,}", f"{r.test:,}")
        for r in found.cardinalities
    ]
    show_table("Cardinality", ("kind", "relations", "train triples", "test triples"), rows)
    groups = {"Repeats": found.repeats, "Leakage": found.leakage, "Unseen": found.unseen}
    measures = [
        (f"{group}: {name.replace('_', ' ')}", m.definition, f"{m.count:,}", f"{m.of:,}", percent(m.share))
        for group, part in groups.items()
        for name, m in vars(part).items()
        if isinstance(m, Measure)
    ]
    show_table("What a result could rest on", ("", "measured as", "count", "of", "share"), measures, left=2)
    if found.unseen.relations:
        show(f"Relations not in train: {', '.join(shown(label(r)) for r in found.unseen.relations[:20])}")
    mirrors = [
        (m.pattern, label(m.relation), label(m.other), f"{m.support:,}", percent(m.confidence)) for m in found.mirrors
    ]
    if mirrors:
        title = "Symmetric and inverse relations" + first_of(relations, len(mirrors))
        heads = ("pattern", "relation", "other", "support", "confidence")
        show_table(title, heads, mirrors[:relations], left=3)
    most = [
        (label(r.relation), r.cardinality or "-", f"{r.train:,}", f"{r.valid:,}", f"{r.test:,}")
        for r in found.relations[:relations]
    ]
    title = "Most frequent relations" + first_of(relations, len(found.relations))
    show_table(title, ("relation", "kind", "train", "valid", "test"), most, left=2)
