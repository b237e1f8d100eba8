"""Open a run folder: verify its graph and choose its weights."""

from __future__ import annotations

from conjoin.errors import RunError, unknown
from conjoin.forms.notation import form
from conjoin.graph.graph import Graph
from conjoin.io.graph_store import open_graph
from conjoin.model.model import Model
from conjoin.runs.folder import RunFolder
from conjoin.training.checkpoint import load_model, opened_dtype

BYTES = 2
"""Bytes of a number in the shortest type, bfloat16."""


def open_model(folder: RunFolder, weights: str | None, *, device: str = "cpu") -> tuple[Model, Graph, str]:
    """The model and graph of a finished run or an exported bundle, and which weights ("last" or "best") were opened."""
    reported, graph = verified_graph(folder, weights)
    settings = folder.run
    file = folder.weights_file(reported)
    size, width = file.stat().st_size, form(settings.form).entity_width(settings.rank)
    if BYTES * width * graph.n_entities > size:  # do not allocate memory for a wrong rank
        raise RunError(
            f"{file} has {size} bytes, too few for {graph.n_entities} entities at rank {settings.rank}. "
            "Restore the folder, or train again."
        )
    dtype, sizes = opened_dtype(file), (graph.n_entities, graph.n_relations)
    model = Model(settings.form, *sizes, rank=settings.rank, seed=None, dtype=dtype, device=device)
    load_model(file, model)
    model.requires_grad_(requires_grad=False)
    return model, graph, reported


def verified_graph(folder: RunFolder, weights: str | None) -> tuple[str, Graph]:
    """The weights ("last" or "best") to open and the graph; raises RunError unless their checksums are the run's."""
    if not folder.path.is_dir():
        raise RunError(
            f"There is no run folder {folder.path}. Check the path, or make one: conjoin train GRAPH -o {folder.path}."
        )
    settings = folder.run
    reported = reported_weights(folder, weights)
    folder.verify(folder.weights_file(reported))
    graph = open_graph(folder.graph_folder)
    if graph.checksum != settings.checksum:
        raise RunError(
            f"The graph in {folder.graph_folder} is not the graph that the run was trained on: checksum "
            f"{graph.checksum[:8]}, expected {settings.checksum[:8]}. Restore the folder, or train again."
        )
    return reported, graph


def reported_weights(folder: RunFolder, wanted: str | None) -> str:
    """Which weights to open: `wanted`, else the weights that the run reports, else in a bundle the only weights."""
    choices = ("last", "best")
    if wanted is not None and wanted not in choices:
        raise unknown("weights", wanted, choices, way_out="Choose last or best.")
    there = [name for name in choices if folder.weights_file(name).exists()]
    if not folder.finished:
        raise folder.unfinished()
    if not there:
        raise RunError(
            f"{folder.path} contains no weights: they were not kept, or were removed. Train again in another folder."
        )
    reported = wanted or folder.run.weights
    if reported in there:
        return reported
    if wanted is None and not folder.events_file.exists():  # a bundle
        return there[0]
    raise RunError(f"{folder.path} has no {reported} weights. Use weights={there[0]!r} (--weights {there[0]}).")
