"""`conjoin ingest`: store a graph from files of any size."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from conjoin.cli import options as opt
from conjoin.cli.output import ProgressDisplay, emit, say, show
from conjoin.runtime.process_memory import most_resident

SAMPLES = 5
"""Bad lines of each file that are printed."""
SPLIT = "Split"


@opt.reading_options
def ingest(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE", help="Files of facts, or one folder with train/valid/test files, whose split is kept."
        ),
    ],
    *,
    out: Annotated[Path, typer.Option("-o", "--out", metavar="GRAPH", help="Folder for the stored graph.")],
    valid: Annotated[
        str, typer.Option(rich_help_panel=SPLIT, help="Size of valid: a share such as 5%, or a number of facts.")
    ] = "5%",
    test: Annotated[
        str, typer.Option(rich_help_panel=SPLIT, help="Size of test: a share such as 5%, or a number of facts.")
    ] = "5%",
    seed: Annotated[int, typer.Option(rich_help_panel=SPLIT, help="Seed of the split.")] = 0,
    memory_limit: Annotated[
        str, typer.Option(rich_help_panel=opt.RUNNING, help="Most memory to use; the rest goes to disk.")
    ] = "2GB",
    threads: Annotated[
        int | None, typer.Option(min=1, rich_help_panel=opt.RUNNING, help="Number of threads.  [default: all cores]")
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace a graph that is already in the folder.")
    ] = False,
    labels: opt.Labels = None,
    reading: opt.Reading,
    json: opt.Json = False,
) -> None:
    """Store a graph from files that do not fit in memory.

    Removes repeated facts, numbers the names, and splits the facts into train, valid and test; a fact and its
    symmetric or inverse twin stay in the same split. The stored graph does not depend on the number of threads or the
    memory limit, and equals the graph that `conjoin train FILE` uses. Every verb takes its folder as GRAPH. An
    interrupted ingest leaves no files; repeat the command.

    \b
    conjoin ingest facts-*.tsv.gz -o my-graph --memory-limit 4GB
    conjoin ingest dump.nt -o my-graph --on-error skip --valid 2000 --test 2000
    conjoin train my-graph --rank 32
    """
    from conjoin.graph.split import parse_size
    from conjoin.io.ingest import ingest as ingest_files

    with ProgressDisplay().watching() as watcher:
        stored = ingest_files(
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
                "file": source.file,
                "lines": source.lines,
                "triples": source.triples,
                "problems": dict(source.problems),
                "samples": [str(sample) for sample in source.samples],
            }
            for source in stored.reports
        ]
        report = {"folder": str(stored.folder), **stored.counts, "sources": sources, "notes": list(stored.notes)}
        emit({**report, "seconds": dict(stored.seconds), "peak_bytes": peak})
        return
    for note in stored.notes:
        say(note)
    for source in stored.reports:
        for sample in source.samples[1:SAMPLES]:
            say(f"also {sample}")
    show(f"{stored.folder}: " + ", ".join(f"{name} {count:,}" for name, count in stored.counts.items()))
    steps = ", ".join(f"{step} {seconds:.1f}" for step, seconds in stored.seconds.items())
    show(f"{sum(stored.seconds.values()):.1f} s ({steps}); peak memory {peak / 1e9:.2f} GB")
