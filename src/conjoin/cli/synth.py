"""`conjoin synth`: generate a graph with known patterns."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from conjoin.cli import options as opt
from conjoin.cli.output import emit, number, say, show, show_table


def synth(
    family: Annotated[
        str, typer.Argument(metavar="FAMILY", help="The pattern family to generate; `conjoin synth list` prints all.")
    ],
    *,
    out: Annotated[Path | None, typer.Option("-o", "--out", help="Folder for the train, valid and test files.")] = None,
    entities: Annotated[int, typer.Option(help="Number of entities.")] = 120,
    noise: Annotated[float, typer.Option(help="Share of facts to replace by random facts.")] = 0.0,
    seed: Annotated[int, typer.Option(help="Seed of the graph.")] = 0,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace a graph that is already in the folder.")
    ] = False,
    json: opt.Json = False,
) -> None:
    """Generate a graph with known relation patterns.

    Use it to check that `conjoin patterns` finds the patterns, and which forms learn them. Every verb also takes the
    name of such a graph as GRAPH, without a folder.

    \b
    conjoin synth list
    conjoin synth dihedral --noise 0.1 -o my-planted-graph
    conjoin train "synthetic:dihedral(entities=120, noise=0.1, seed=0)" --form 5star-conj --rank 8
    """
    from conjoin.graph.graph import SPLITS
    from conjoin.graph.patterns.rules import recovery
    from conjoin.graph.synthetic import FAMILIES, SyntheticSpec, generate
    from conjoin.io.write_split import write_split

    if family == "list":
        rows = [(name, (build.__doc__ or "").strip().partition("\n")[0]) for name, build in FAMILIES.items()]
        if json:
            emit({"families": dict(rows)})
        else:
            show_table("Families", ("family", "description"), rows, left=2)
        return
    planted = generate(SyntheticSpec(family=family, entities=entities, noise=noise, seed=seed))
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
    rows += [(str(rule), "found, but not planted") for rule in sorted(measured.invented)]
    show_table("Planted patterns and their consequences", ("pattern", ""), rows, left=2)
    show(f"precision {number(measured.precision)}, recall {number(measured.recall)}")
    if written:
        say(f"Wrote {written.folder}")
