"""Save a model that Conjoin did not train as a run folder."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import torch

from conjoin import __version__
from conjoin.errors import RunError, UsageError
from conjoin.graph.graph import Graph
from conjoin.io.formats import AnyPath
from conjoin.io.graph_store import save_graph
from conjoin.model.model import Model
from conjoin.runs.folder import RunFolder
from conjoin.runs.measure import metrics_by_weights, parameter_counts, rank_held_out, write_ranks, write_weights
from conjoin.runs.run import Run
from conjoin.runtime.device import describe
from conjoin.runtime.progress import Track, silent
from conjoin.training.recipe import Recipe


def save_run(model: Model, graph: Graph, out: AnyPath, *, origin: str, epochs: int, track: Track = silent) -> RunFolder:
    """Save a model that was trained elsewhere, such as by your own loop, as a run that every verb accepts.

    `origin` is a text that says where the weights come from, for the settings of the training are unknown here.

    >>> import conjoin
    >>> graph = conjoin.Graph.from_triples([("a", "r", "b"), ("b", "r", "c")], None, [("c", "r", "a")])
    >>> model = conjoin.Model("complex", graph.n_entities, graph.n_relations, rank=4)
    >>> kept = save_run(model, graph, "runs/own-loss", origin="binary cross-entropy", epochs=5)
    >>> conjoin.open("runs/own-loss").ask("a", "r") == conjoin.Predictor(model, graph).ask("a", "r")
    True
    """
    kept = RunFolder(Path(out))
    refuse_taken(kept)
    if not origin.strip():
        raise UsageError("origin must not be empty. Say in words how the model was trained, such as 'margin loss'.")
    if model.relations.dtype == torch.bfloat16:  # the run will be opened in float32, which gives other ranks
        model = deepcopy(model).float()
    run = Run.of(graph, model.form, rank=model.rank, recipe=Recipe(epochs=epochs), origin=origin)
    costs = {
        **dict.fromkeys(("seconds_per_epoch", "seconds_last_epoch", "seconds_total", "peak_bytes")),
        "epochs": epochs,
        **parameter_counts(model),
    }
    return write_run(model, graph, kept, run=run, costs=costs, track=track)


def refuse_taken(kept: RunFolder) -> None:
    """Raise RunError if the folder contains a run; files of a `write_run` that was killed may be overwritten."""
    if kept.finished or kept.half_done or (kept.exists and kept.events_file.exists()):
        raise RunError(f"{kept.path} already contains a run. Choose another folder.")


def write_run(
    model: Model, graph: Graph, kept: RunFolder, *, run: Run, costs: Mapping[str, Any], track: Track = silent
) -> RunFolder:
    """Write the folder of a run: settings, graph, weights, ranks of valid and test, and the result with the `costs`.

    `costs` holds at least `epochs`, the number of epochs that the model was trained for.
    """
    ranks = rank_held_out(model, graph, track=track)  # before anything is written: a diverged model leaves no folder
    epochs = costs["epochs"]
    with kept.locked():
        refuse_taken(kept)
        if kept.exists and kept.run.id != run.id:
            raise RunError(f"{kept.path} contains a part of another run, {kept.run.id}. Choose another folder.")
        kept.tidy()
        kept.begin(run, {"conjoin": __version__, **describe(model.device)}, None)
        save_graph(graph, kept.graph_folder)
        write_weights(kept, "last", model, model.state_dict(), run=run, epoch=epochs)
        write_ranks(kept, ranks, run=run)
        kept.finish({**costs, **metrics_by_weights({"last": (epochs, ranks)}, reported="last")})
    return kept
