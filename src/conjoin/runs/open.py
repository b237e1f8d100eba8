"""Open a run folder: verify its graph and choose its weights."""

from __future__ import annotations

from conjoin.errors import RunError, unknown
from conjoin.graph.graph import Graph
from conjoin.io.graph_store import open_graph
from conjoin.model.model import Model
from conjoin.runs.folder import RunFolder
from conjoin.training.checkpoint import load_model, opened_dtype


def open_model(folder: RunFolder, weights: str | None, *, device: str = "cpu") -> tuple[Model, Graph, str]:
    """The model and graph of a finished run or an exported bundle, and which weights ("last" or "best") were opened."""
    reported, graph = verified_graph(folder, weights)
    settings = folder.run
    file = folder.weights_file(reported)
    if 4 * settings.rank * graph.n_entities > file.stat().st_size:  # two bytes a number: make no room in vain
        raise RunError(f"{file} does not fit its run: it is too small for rank {settings.rank}")
    dtype, sizes = opened_dtype(file), (graph.n_entities, graph.n_relations)
    model = Model(settings.form, *sizes, rank=settings.rank, seed=None, dtype=dtype, device=device)
    load_model(file, model)
    model.requires_grad_(requires_grad=False)
    return model, graph, reported


def verified_graph(folder: RunFolder, weights: str | None) -> tuple[str, Graph]:
    """Which weights of a folder are asked for, and its graph, once the files are shown to be those of the run."""
    if not folder.path.is_dir():
        raise RunError(f"there is no run folder {folder.path}: `conjoin train … -o {folder.path}` makes one")
    settings = folder.run
    reported = reported_weights(folder, weights)
    folder.verify(folder.weights_file(reported))
    graph = open_graph(folder.graph_folder)
    if graph.checksum != settings.checksum:
        raise RunError(f"the graph in {folder.graph_folder} is not the one that the run was trained on")
    return reported, graph


def reported_weights(folder: RunFolder, wanted: str | None) -> str:
    """Which weights to open: the wanted ones, those that the run reports, or, in a bundle, the only ones there."""
    choices = ("last", "best")
    if wanted is not None and wanted not in choices:
        raise unknown("weights", wanted, choices, way_out="Choose last or best.")
    there = [name for name in choices if folder.weights_file(name).exists()]
    if not folder.finished:
        raise folder.unfinished()
    if not there:
        raise RunError(f"{folder.path} holds no weights: they were not kept, or were removed; train in another folder")
    reported = wanted or folder.run.weights
    if reported in there:
        return reported
    if wanted is None and not folder.events_file.exists():  # a bundle
        return there[0]
    raise RunError(f"{folder.path} holds no {reported} weights: choose weights={there[0]!r} (--weights {there[0]})")
