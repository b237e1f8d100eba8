"""`conjoin split`: hold out facts for validation and test."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from conjoin.cli import options as opt
from conjoin.cli.output import emit, say, show


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
    from conjoin.graph.split import parse_size, split_graph
    from conjoin.io.read_graph import read_graph
    from conjoin.io.write_split import write_split

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
