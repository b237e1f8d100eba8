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
    relations: Annotated[int, typer.Option(min=0, help="Number of relations to list.")] = 10,
    labels: opt.Labels = None,
    reading: opt.Reading,
    json: opt.Json = False,
) -> None:
    """Describe a graph: sizes, duplicates, leakage, unseen entities.

    Also prints how the files were read, the degrees of entities and the cardinality of relations (1-1, 1-n, n-1, n-n).
    Leakage means test facts that can be read off the training facts.

    \b
    conjoin inspect wn18rr
    conjoin inspect my-facts.csv --columns subject,verb,object
    """
    from conjoin.graph.statistics import Measure, graph_statistics

    with ProgressDisplay().watching() as watcher:
        loaded = opt.load_graph(graph, options=reading, labels=labels, watcher=watcher)
    statistics = graph_statistics(loaded)
    if json:
        emit(statistics.to_json())
        return

    def label(relation: str) -> str:
        return loaded.relations.label(loaded.relations.index[relation])

    for file in statistics.read_as:
        show(spelled(file))
    sizes = vars(statistics.sizes)
    show_table("Dataset", ("name", *sizes), [(statistics.name, *(f"{count:,}" for count in sizes.values()))])
    degrees = statistics.degrees
    show(
        f"Degrees in train: {degrees.minimum} to {degrees.maximum:,}, mean {degrees.mean:.1f}, "
        f"median {degrees.median:g}; {percent(degrees.once.share)} of the entities occur once"
    )
    rows = [
        (r.cardinality or "not in train", f"{r.relations:,}", f"{r.train:,}", f"{r.test:,}")
        for r in statistics.cardinalities
    ]
    show_table("Cardinality", ("kind", "relations", "train triples", "test triples"), rows)
    groups = {"Repeats": statistics.repeats, "Leakage": statistics.leakage, "Unseen": statistics.unseen}
    measures = [
        (f"{group}: {name.replace('_', ' ')}", m.definition, f"{m.count:,}", f"{m.of:,}", percent(m.share))
        for group, part in groups.items()
        for name, m in vars(part).items()
        if isinstance(m, Measure)
    ]
    show_table("Repeats, leakage and unseen names", ("", "measured as", "count", "of", "share"), measures, left=2)
    if statistics.unseen.relations:
        show(f"Relations not in train: {', '.join(shown(label(r)) for r in statistics.unseen.relations[:20])}")
    mirrors = [
        (m.pattern, label(m.relation), label(m.other), f"{m.support:,}", percent(m.confidence))
        for m in statistics.mirrors
    ]
    if mirrors:
        title = "Symmetric and inverse relations" + first_of(relations, len(mirrors))
        heads = ("pattern", "relation", "other", "support", "confidence")
        show_table(title, heads, mirrors[:relations], left=3)
    most = [
        (label(r.relation), r.cardinality or "-", f"{r.train:,}", f"{r.valid:,}", f"{r.test:,}")
        for r in statistics.relations[:relations]
    ]
    title = "Most frequent relations" + first_of(relations, len(statistics.relations))
    show_table(title, ("relation", "kind", "train", "valid", "test"), most, left=2)
