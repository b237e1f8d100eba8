"""Verbs about graphs: datasets, fetch, inspect, split, forms."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from conjoin.cli import options as opt
from conjoin.cli.screen import Watcher, emit, first_of, percent, say, show, show_table, shown
from conjoin.escapes import spelled

Found = TypeVar("Found")


def datasets(*, json: opt.Json = False) -> None:
    """List the datasets that have a name, and where they lie."""
    from conjoin.graph.named.catalogue import dataset, every_name
    from conjoin.graph.named.datasets import locate

    records = [(record, locate(record.name)) for record in usable(every_name(), dataset)]
    if json:
        emit(
            {
                "datasets": [
                    {
                        "name": record.name,
                        "title": record.title,
                        **vars(record.counts),
                        "licence": record.licence,
                        "sources": list(record.sources),
                        "folder": str(folder) if folder else None,
                    }
                    for record, folder in records
                ]
            }
        )
        return
    sizes = [(record.name, *(f"{count:,}" for count in vars(record.counts).values())) for record, _ in records]
    show_table("Datasets", ("name", "train", "valid", "test", "entities", "relations"), sizes)
    places = [
        (
            record.name,
            "embedded" if record.embedded else str(folder) if folder else "conjoin fetch " + record.name,
            record.licence,
        )
        for record, folder in records
    ]
    show_table("Where they lie", ("name", "where", "licence"), places, left=3)


def usable(names: Iterable[str], find: Callable[[str], Found]) -> list[Found]:
    """What is found under each name; what another package has broken is said and left out."""
    from conjoin.errors import BrokenPlugin

    found = []
    for name in names:
        try:
            found.append(find(name))
        except BrokenPlugin as error:
            say(f"left out: {error}")
    return found


def fetch(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A dataset's name.")], *, json: opt.Json = False
) -> None:
    """Download and verify a dataset.

    One that is already on this machine is only verified.

    \b
    conjoin fetch wn18rr
    """
    from conjoin.graph.named.datasets import fetch as fetch_dataset

    with Watcher().watching() as watcher:
        folder = fetch_dataset(name, track=watcher.track)
    if json:
        emit({"name": name, "folder": str(folder), "verified": True})
    else:
        show(f"{name} is in {folder}, verified")


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
    from conjoin.graph.survey import Measure, survey

    with Watcher().watching() as watcher:
        loaded = opt.load_graph(graph, options=reading, labels=labels, watcher=watcher)
    found = survey(loaded)
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


@opt.reading_options
def split(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A file of triples, or a folder whose splits are joined first.")
    ],
    *,
    out: Annotated[Path, typer.Option("-o", "--out", help="Folder for train, valid and test.")],
    valid: Annotated[str, typer.Option(help="Size of valid: 5% or 500.")] = "5%",
    test: Annotated[str, typer.Option(help="Size of test: 5% or 500.")] = "5%",
    seed: Annotated[int, typer.Option(help="Another seed, another split.")] = 0,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what is in the folder.")] = False,
    labels: opt.Labels = None,
    reading: opt.Reading,
    json: opt.Json = False,
) -> None:
    """Split a file of facts once and for all.

    Twins stay on one side, nothing in test is unseen. The result depends on the facts and the seed only, not on the
    order of the lines.

    \b
    conjoin split my-facts.tsv --valid 5% --test 5% -o my-graph
    """
    from conjoin.graph.files.folder import read_graph
    from conjoin.graph.split import parse_size, split_graph, write_split

    sizes = {"valid": parse_size(valid), "test": parse_size(test)}
    whole = read_graph(file, options=reading, labels=labels, split=lambda graph: graph)
    graph = split_graph(whole, valid=sizes["valid"], test=sizes["test"], seed=seed)
    written = write_split(graph, out, overwrite=overwrite)
    for note in (*graph.notes, *written.notes):
        say(note)
    counts = {"train": len(graph.train), "valid": len(graph.valid), "test": len(graph.test)}
    if json:
        emit({"folder": str(written.folder), **counts, "notes": [*graph.notes, *written.notes]})
    else:
        show(f"{written.folder}: " + ", ".join(f"{split} {count:,}" for split, count in counts.items()))


def forms(
    *,
    rank: Annotated[int, typer.Option(min=1, help="Rank to count parameters at.")] = 500,
    json: opt.Json = False,
) -> None:
    """List every named form: its ties and what a relation owns.

    Any other pattern of ties works too.

    \b
    conjoin train atlas --form "FiveStar(c=conj(b), d=-conj(a))"
    """
    from conjoin import plugins
    from conjoin.algebra.notation import FORMS, SYMBOLS, added

    others = [name for name in plugins.names("form") if name not in FORMS]
    listed_forms = {**FORMS, **dict(usable(others, lambda name: (name, added(name))))}
    if json:
        listed = [
            {
                "name": name,
                "paper": SYMBOLS.get(name),
                "package": plugins.origin("form", name) if name in others else None,
                "form": str(form),
                "slots": list(form.SLOTS),
                "stored": list(form.stored),
                "options": form.options,
                "parameters_per_relation": form.reals(rank),
            }
            for name, form in listed_forms.items()
        ]
        emit({"rank": rank, "forms": listed})
        return
    rows = [(name, SYMBOLS.get(name, ""), str(form), f"{form.reals(rank):,}") for name, form in listed_forms.items()]
    show_table(
        f"Forms, and the reals that a relation owns at rank {rank}", ("name", "paper", "form", "reals"), rows, left=3
    )
    show("Options: quotient = phase | mobius | aligned (FiveStar), layout = proper | published (ComplEx):")
    show('  conjoin train wn18rr --form "5star-conj(quotient=mobius)"')
