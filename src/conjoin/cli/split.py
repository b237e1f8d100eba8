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
        Path, typer.Argument(metavar="FILE", help="A file of facts, or a folder whose splits are first joined.")
    ],
    *,
    out: Annotated[Path, typer.Option("-o", "--out", help="Folder for the train, valid and test files.")],
    valid: Annotated[str, typer.Option(help="Size of valid: a share such as 5%, or a number of facts.")] = "5%",
    test: Annotated[str, typer.Option(help="Size of test: a share such as 5%, or a number of facts.")] = "5%",
    seed: Annotated[int, typer.Option(help="Seed of the split.")] = 0,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace a split that is already in the folder.")
    ] = False,
    labels: opt.Labels = None,
    reading: opt.Reading,
    json: opt.Json = False,
) -> None:
    """Split facts into train, valid and test, and store the files.

    A fact and its symmetric or inverse twin stay in the same split, and every entity and relation of valid and test
    occurs in train. The split depends only on the facts and the seed, not on the order of the lines.

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
