"""`conjoin ingest`: read files of any size into a stored graph."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from conjoin.cli import options as opt
from conjoin.cli.output import ProgressDisplay, emit, say, show
from conjoin.runtime.process_memory import most_resident

if TYPE_CHECKING:
    pass


SAMPLES = 5


@opt.reading_options
def ingest(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILES...", help="Files of triples, or one folder whose train/valid/test are kept."),
    ],
    *,
    out: Annotated[Path, typer.Option("-o", "--out", metavar="GRAPH", help="Folder for the stored graph.")],
    valid: Annotated[str, typer.Option(help="Size of valid: 5% or 500.")] = "5%",
    test: Annotated[str, typer.Option(help="Size of test: 5% or 500.")] = "5%",
    seed: Annotated[int, typer.Option(help="Another seed, another split.")] = 0,
    memory_limit: Annotated[str, typer.Option(help="Memory to stay within; the rest goes to disk.")] = "2GB",
    threads: Annotated[int | None, typer.Option(min=1, help="By default all cores.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the graph in the folder.")] = False,
    labels: opt.Labels = None,
    reading: opt.Reading,
    json: opt.Json = False,
) -> None:
    """Make a stored graph of files too large to read at once.

    Repeated facts go, names get numbers, twins stay on one side of the split. The result is the same for any number of
    threads and any memory limit, and the same as `conjoin train FILE` makes of the file itself. It can be named
    wherever a graph is named. An ingest that was interrupted leaves nothing: run it again.

    \b
    conjoin ingest facts-*.tsv.gz -o my-graph --memory-limit 4GB
    conjoin ingest dump.nt -o my-graph --on-error skip --valid 2000 --test 2000
    conjoin train my-graph --rank 32
    """
    from conjoin.graph.split import parse_size
    from conjoin.io.ingest import ingest as ingest_files

    with ProgressDisplay().watching() as watcher:
        made = ingest_files(
            files,
            out,
            options=reading,
            valid=parse_size(valid),
            test=parse_size(test),
            seed=seed,
            labels=labels,
            memory=opt.bytes_of(memory_limit),
            threads=threads,
            overwrite=overwrite,
            track=watcher.track,
        )
    peak = most_resident()
    if json:
        sources: list[dict[str, Any]] = [
            {
                "file": report.file,
                "lines": report.lines,
                "triples": report.triples,
                "problems": dict(report.problems),
                "samples": [str(sample) for sample in report.samples],
            }
            for report in made.reports
        ]
        told = {"folder": str(made.folder), **made.counts, "sources": sources, "notes": list(made.notes)}
        emit({**told, "seconds": dict(made.seconds), "peak_bytes": peak})
        return
    for note in made.notes:
        say(note)
    for report in made.reports:
        for sample in report.samples[1:SAMPLES]:
            say(f"also {sample}")
    show(f"{made.folder}: " + ", ".join(f"{what} {count:,}" for what, count in made.counts.items()))
    steps = ", ".join(f"{step} {seconds:.1f}" for step, seconds in made.seconds.items())
    show(f"{sum(made.seconds.values()):.1f} s ({steps}); peak memory {peak / 1e9:.2f} GB")
