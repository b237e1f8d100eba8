"""`conjoin import`: import a model from another library."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from conjoin.cli import options as opt
from conjoin.cli.output import ProgressDisplay, emit, number, say, show, show_table
from conjoin.cli.train import METRICS


@opt.reading_options
def import_model(
    source: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="The folder that PyKEEN's PipelineResult.save_to_directory wrote.")
    ],
    graph: opt.GraphArgument,
    *,
    out: Annotated[Path, typer.Option("-o", "--out", help="Folder of the new run.")],
    python: Annotated[
        Path, typer.Option("--pykeen", envvar="CONJOIN_PYKEEN_PYTHON", help="A Python interpreter with PyKEEN.")
    ],
    reading: opt.Reading,
    json: opt.Json = False,
) -> None:
    """Import a ComplEx model that PyKEEN trained.

    The result is a run for all verbs: rank, ask, mine, explain, calibrate, serve. GRAPH is the graph that the model was
    trained on. PyKEEN stores a pickle, which can run code when it is opened: import only models that you trust.

    \b
    conjoin import results/ my-facts/ --pykeen pykeen/bin/python -o runs/theirs
    """
    from conjoin.runs.import_pykeen import import_pykeen

    with ProgressDisplay().watching() as watcher:
        loaded = opt.load_graph(graph, options=reading, labels=None, watcher=watcher)
        folder = import_pykeen(source, loaded, out, python=python, track=watcher.track)
    if json:
        measured = {split: folder.result[split] for split in ("valid", "test")}
        emit({"run": str(folder.path), "origin": folder.run.origin, **measured})
        return
    say(f"ComplEx of rank {folder.run.rank} from {folder.run.origin} → {folder.path}")
    rows = [(split, *(number(folder.result[split][name]) for name in METRICS)) for split in ("valid", "test")]
    show_table(str(folder.path), ("split", *METRICS.values()), rows)
    show(f"Ask it: conjoin ask {folder.path} HEAD RELATION '?'")
