"""The verb that takes models from other libraries."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from conjoin.cli import options as opt
from conjoin.cli.output import ProgressDisplay, emit, number, say, show, show_table
from conjoin.cli.train import METRICS


@opt.reading_options
def import_model(
    source: Annotated[Path, typer.Argument(metavar="FOLDER", help="What PipelineResult.save_to_directory wrote.")],
    graph: opt.GraphArgument,
    *,
    out: Annotated[Path, typer.Option("-o", "--out", help="The new run folder.")],
    python: Annotated[
        Path, typer.Option("--pykeen", envvar="CONJOIN_PYKEEN_PYTHON", help="A Python interpreter that has PyKEEN.")
    ],
    reading: opt.Reading,
    json: opt.Json = False,
) -> None:
    """Import a ComplEx model that PyKEEN has trained.

    It becomes a run like any other: rank, ask, mine, explain, calibrate, serve. The interpreter with PyKEEN unpickles
    the model, so import only models that you trust. GRAPH is the graph it was trained on.

    \b
    conjoin import results/ my-facts/ --pykeen pykeen/bin/python -o runs/theirs
    """
    from conjoin.runs.import_pykeen import import_pykeen

    with ProgressDisplay().watching() as watcher:
        loaded = opt.load_graph(graph, options=reading, labels=None, watcher=watcher)
        kept = import_pykeen(source, loaded, out, python=python, track=watcher.track)
    if json:
        measured = {split: kept.result[split] for split in ("valid", "test")}
        emit({"run": str(kept.path), "origin": kept.run.origin, **measured})
        return
    say(f"ComplEx of rank {kept.run.rank} from {kept.run.origin} → {kept.path}")
    rows = [(split, *(number(kept.result[split][name]) for name in METRICS)) for split in ("valid", "test")]
    show_table(str(kept.path), ("split", *METRICS.values()), rows)
    show(f"Ask it: conjoin ask {kept.path} HEAD RELATION '?'")
