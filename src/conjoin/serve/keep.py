"""A model that did not come from a training here, kept as a run like any other."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import torch

from conjoin import __version__
from conjoin.device import describe
from conjoin.errors import RunError, UsageError
from conjoin.graph.files.source import AnyPath
from conjoin.graph.files.store import save_graph
from conjoin.graph.graph import HELD_OUT
from conjoin.learn.recipe import Recipe
from conjoin.learn.weights import save_tensors
from conjoin.progress import Track, silent
from conjoin.ranking.rank import rank
from conjoin.serve.predictor import Predictor
from conjoin.study.execute import finite
from conjoin.study.folder import RunFolder
from conjoin.study.run import Run


def keep_as_run(predictor: Predictor, out: AnyPath, *, origin: str, epochs: int, track: Track = silent) -> RunFolder:
    """Keep a model that was trained elsewhere, as by a loop of your own, so that every verb takes it as a run.

    `origin` says in words where its numbers come from: it stands for the settings, which nobody knows here.

    >>> import conjoin
    >>> graph = conjoin.Graph.from_triples([("a", "r", "b"), ("b", "r", "c")], None, [("c", "r", "a")])
    >>> mine = Predictor(conjoin.Model("complex", graph.n_entities, graph.n_relations, rank=4), graph)
    >>> kept = keep_as_run(mine, "runs/own-loss", origin="binary cross-entropy", epochs=5)
    >>> conjoin.open("runs/own-loss").ask("a", "r") == mine.ask("a", "r")
    True
    """
    kept, model = RunFolder(Path(out)), predictor.model
    refuse_taken(kept)
    if not origin.strip():
        raise UsageError("the origin of a model that was not trained here is told in words, such as 'margin loss'")
    if model.relations.dtype == torch.bfloat16:  # such a run is opened in float32, in which ranks are others
        model = deepcopy(model).float()
        predictor = Predictor(model, predictor.graph)
    run = Run.of(predictor.graph, model.form, rank=model.rank, recipe=Recipe(epochs=epochs), origin=origin)
    costs = {
        **dict.fromkeys(("seconds_per_epoch", "seconds_last_epoch", "seconds_total", "peak_bytes")),
        "epochs": epochs,
        "parameters": model.n_parameters,
        "relation_parameters": model.n_relation_parameters,
        "relation_bytes": model.n_relation_parameters * model.relations.element_size(),
    }
    return keep(predictor, kept, run=run, costs=costs, track=track)


def refuse_taken(kept: RunFolder) -> None:
    """Raise RunError where the folder holds a run; one that an earlier `keep` left without a result is no hindrance."""
    if kept.finished or kept.half_done or (kept.exists and kept.events_file.exists()):
        raise RunError(f"{kept.path} holds a run: choose another folder")


def keep(
    predictor: Predictor, kept: RunFolder, *, run: Run, costs: Mapping[str, Any], track: Track = silent
) -> RunFolder:
    """Write the folder of a run: the settings `run`, graph, weights, ranks on valid and test, and `costs`, among them
    the `epochs` that it was trained for."""
    model, graph = predictor.model, predictor.graph
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
