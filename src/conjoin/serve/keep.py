"""A model that did not come from a training here, kept as a run like any other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conjoin import __version__
from conjoin.device import describe
from conjoin.graph.files.store import save_graph
from conjoin.graph.graph import HELD_OUT
from conjoin.learn.weights import save_tensors
from conjoin.progress import Track, silent
from conjoin.ranking.rank import rank
from conjoin.serve.predictor import Predictor
from conjoin.study.execute import finite
from conjoin.study.folder import RunFolder
from conjoin.study.run import Run


def keep(
    predictor: Predictor, kept: RunFolder, *, run: Run, costs: Mapping[str, Any], track: Track = silent
) -> RunFolder:
    """Write the folder of a run: the settings `run`, graph, weights, ranks on valid and test, and `costs`, among them
    the `epochs` that it was trained for."""
    model, graph = predictor.model, predictor.graph
    with kept.locked():
        kept.begin(run, {"conjoin": __version__, **describe(model.device)}, None)
        save_graph(graph, kept.graph_folder)
        words = {"run": run.id, "form": run.form, "rank": run.rank, "epoch": costs["epochs"]}
        save_tensors(kept.weights_file("last"), model.state_dict(), words)
        measured: dict[str, Any] = {}
        for split in HELD_OUT:
            ranks = rank(model, graph, split, track=track)
            measured[split] = finite(ranks.metrics())
            ranks.write(kept.ranks_file(split))
        last = {"epoch": costs["epochs"], **measured}
        kept.finish({**costs, "weights": "last", **measured, "last": last, "best": None})
    return kept
