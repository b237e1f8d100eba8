"""Rank a run's weights and write them with their ranks: the end of every run folder, trained here or elsewhere."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from conjoin.evaluation.rank import rank
from conjoin.evaluation.ranks import Ranks
from conjoin.graph.graph import HELD_OUT, Graph, HeldOut
from conjoin.io.formats import AnyPath
from conjoin.model.model import Model
from conjoin.runs.folder import RunFolder
from conjoin.runs.run import Run
from conjoin.runtime.progress import Track
from conjoin.training.checkpoint import save_model

HeldOutRanks = Mapping[HeldOut, Ranks]


def write_weights(
    folder: RunFolder, name: str, model: Model, weights: Mapping[str, Tensor], *, run: Run, epoch: int
) -> None:
    """Write weights as the "last" or the "best" of a run; every process that holds a part of them calls this."""
    metadata = {"run": run.id, "form": run.form, "rank": run.rank, "epoch": epoch}
    save_model(folder.weights_file(name), model, weights, metadata)


def rank_held_out(model: Model, graph: Graph, *, track: Track) -> HeldOutRanks:
    """The ranks of valid and of test."""
    return {split: rank(model, graph, split, track=track) for split in HELD_OUT}


def write_ranks(folder: RunFolder, ranks: HeldOutRanks, *, run: Run, questions: AnyPath | None = None) -> None:
    """Write one file of ranks for each split. `questions` is a folder for columns that runs on one graph share."""
    for split, of_split in ranks.items():
        shared = questions and Path(questions) / f"questions-{split}-{run.checksum[:8]}.parquet"
        of_split.write(folder.ranks_file(split), questions=shared)


def metrics_by_weights(ranked: Mapping[str, tuple[int, HeldOutRanks]], *, reported: str) -> dict[str, Any]:
    """The metrics in result.json, from epoch and ranks of the last and, if there are any, the best weights."""
    measured = {
        name: {"epoch": epoch, **{split: finite(of_split.metrics()) for split, of_split in ranks.items()}}
        for name, (epoch, ranks) in ranked.items()
    }
    chosen = measured[reported]
    return {
        "weights": reported,
        "valid": chosen["valid"],
        "test": chosen["test"],
        "last": measured["last"],
        "best": measured.get("best"),
    }


def parameter_counts(model: Model) -> dict[str, int]:
    """The sizes of a model in result.json."""
    return {
        "parameters": model.n_parameters,
        "relation_parameters": model.n_relation_parameters,
        "relation_bytes": model.n_relation_parameters * model.relations.element_size(),
    }


def finite(metrics: Mapping[str, float]) -> dict[str, float | None]:
    """Metrics for JSON, with None instead of nan: an empty split has no mean."""
    return {name: value if math.isfinite(value) else None for name, value in metrics.items()}
