"""A model that did not come from a training here, kept as a run like any other."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import torch

from conjoin import __version__
from conjoin.errors import RunError, UsageError
from conjoin.evaluation.rank import rank
from conjoin.graph.graph import HELD_OUT, Graph
from conjoin.io.formats import AnyPath
from conjoin.io.graph_store import save_graph
from conjoin.model.model import Model
from conjoin.runs.execute import finite
from conjoin.runs.folder import RunFolder
from conjoin.runs.run import Run
from conjoin.runtime.device import describe
from conjoin.runtime.progress import Track, silent
from conjoin.training.checkpoint import save_tensors
from conjoin.training.recipe import Recipe


def save_run(model: Model, graph: Graph, out: AnyPath, *, origin: str, epochs: int, track: Track = silent) -> RunFolder:
    """Keep a model that was trained elsewhere, as by a loop of your own, so that every verb takes it as a run.

    `origin` says in words where its numbers come from: it stands for the settings, which nobody knows here.

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
        raise UsageError("the origin of a model that was not trained here is told in words, such as 'margin loss'")
    if model.relations.dtype == torch.bfloat16:  # such a run is opened in float32, in which ranks are others
        model = deepcopy(model).float()
    run = Run.of(graph, model.form, rank=model.rank, recipe=Recipe(epochs=epochs), origin=origin)
    costs = {
        **dict.fromkeys(("seconds_per_epoch", "seconds_last_epoch", "seconds_total", "peak_bytes")),
        "epochs": epochs,
        "parameters": model.n_parameters,
        "relation_parameters": model.n_relation_parameters,
        "relation_bytes": model.n_relation_parameters * model.relations.element_size(),
    }
    return write_run(model, graph, kept, run=run, costs=costs, track=track)


def refuse_taken(kept: RunFolder) -> None:
    """Raise RunError if the folder holds a run; what a killed `write_run` left may be overwritten."""
    if kept.finished or kept.half_done or (kept.exists and kept.events_file.exists()):
        raise RunError(f"{kept.path} holds a run: choose another folder")


def write_run(
    model: Model, graph: Graph, kept: RunFolder, *, run: Run, costs: Mapping[str, Any], track: Track = silent
) -> RunFolder:
    """Write the folder of a run: the settings `run`, graph, weights, ranks on valid and test, and `costs`, among them
    the `epochs` that it was trained for."""
    ranks = {split: rank(model, graph, split, track=track) for split in HELD_OUT}  # a diverged model leaves no folder
    measured: dict[str, Any] = {split: finite(found.metrics()) for split, found in ranks.items()}
    with kept.locked():
        refuse_taken(kept)
        if kept.exists and kept.run.id != run.id:
            raise RunError(f"{kept.path} holds a part of another run: choose another folder")
        kept.tidy()
        kept.begin(run, {"conjoin": __version__, **describe(model.device)}, None)
        save_graph(graph, kept.graph_folder)
        words = {"run": run.id, "form": run.form, "rank": run.rank, "epoch": costs["epochs"]}
        save_tensors(kept.weights_file("last"), model.state_dict(), words)
        for split, found in ranks.items():
            found.write(kept.ranks_file(split))
        last = {"epoch": costs["epochs"], **measured}
        kept.finish({**costs, "weights": "last", **measured, "last": last, "best": None})
    return kept
