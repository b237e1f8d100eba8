"""Measure training in one run: Conjoin, plain PyTorch with equal and with published widths, and PyKEEN.

All times are taken through the public class `Training`, so they include the path that the library chooses. For a long
epoch, a random part of the training set is measured and the time is scaled by the number of steps.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from itertools import cycle, islice
from typing import Any

import numpy as np
import torch
from bench.compare.cells import BenchCell, graph_of
from bench.compare.machine_rates import Rates
from bench.compare.plain_torch import PlainModel, PlainTraining, can_be_plain, seconds_alone
from bench.compare.pykeen_runner import PykeenRunner

from conjoin.errors import UnknownName
from conjoin.evaluation.rank import rank
from conjoin.forms.notation import form as form_of
from conjoin.graph.graph import Graph
from conjoin.model.init import generator
from conjoin.model.model import Model
from conjoin.runtime.device import matmul_precision, peak_bytes, reset_peak, synchronize
from conjoin.training.batches import epoch_order
from conjoin.training.loop import Training
from conjoin.training.presets import preset
from conjoin.training.recipe import Recipe

FOREVER = 1_000_000
PROBE = 6
"""Steps of the first probe: more than the warm-up steps before a CUDA graph is recorded."""
FEWEST = 3
TOGETHER = 16
"""The value of `--together` for the column `together`, on a CPU."""


@dataclass(frozen=True, kw_only=True)
class Effort:
    """How long to measure: about `seconds` per program and cell, in `rounds` alternating rounds."""

    seconds: float = 5.0
    rounds: int = 5


def recipe_of(cell: BenchCell, *, epochs: int = FOREVER) -> Recipe:
    """The published settings if they exist. The time does not depend on the values of lr and n3."""
    try:
        settings = preset("paper", cell.dataset, form_of(cell.form))
    except UnknownName:
        settings = {"lr": 0.1, "n3": 0.05}
    return Recipe(
        epochs=epochs,
        batch=cell.batch,
        lr=settings["lr"],
        n3=settings["n3"],
        precision=cell.precision,  # type: ignore[arg-type]
    )


def measure_training(
    cell: BenchCell, device: torch.device, *, effort: Effort, plain: bool = True, other: PykeenRunner | None = None
) -> dict[str, Any]:
    """The results of a cell: seconds per epoch of every program, peak memory, and the path of our step."""
    graph = graph_of(cell.dataset)
    examples = 2 * len(graph.train)
    contestants: dict[str, Callable[[], float]] = {}
    reset_peak(device)
    path, contestants["ours"] = _ours(cell, graph, device, effort)
    contestants["ours"]()
    peak = peak_bytes(device)
    if device.type == "cpu":
        contestants["together"] = _together(cell, graph, device, effort)
    if plain and can_be_plain(form_of(cell.form)):
        contestants["plain"] = _plain(cell, graph, device, effort, wide=False)
        contestants["wide"] = _plain(cell, graph, device, effort, wide=True)
    taken: dict[str, list[float]] = {name: [] for name in contestants}
    for measuring in range(-1, effort.rounds):
        for name, contestant in contestants.items():
            seconds = contestant()
            if measuring >= 0:
                taken[name].append(seconds * examples)
        if measuring >= 0 and device.type == "cpu" and "plain" in contestants:
            part, passes = _extent(taken["plain"][0] / examples, cell, graph, effort)
            seconds = seconds_alone(cell, steps=-(-part // cell.batch), rounds=passes)
            taken.setdefault("alone", []).append(seconds)
    median = {name: statistics.median(seconds) for name, seconds in taken.items()}
    del contestants
    pykeen = other.train(cell, graph, device=str(device), effort=effort) if other else {}
    return {
        **asdict(cell),
        "entities": graph.n_entities,
        "examples": examples,
        "seconds_per_epoch": median["ours"],
        "together_seconds": median.get("together"),
        "plain_seconds": median.get("plain"),
        "plain_alone_seconds": median.get("alone"),
        "wide_seconds": median.get("wide"),
        "pykeen_seconds": pykeen.get("seconds"),
        "examples_per_second": examples / median["ours"],
        "peak_bytes": peak,
        "path": path,
        "fast_part": _fast_part(cell, device),
        "spread": {name: (max(seconds) - min(seconds)) / median[name] for name, seconds in taken.items()},
        "rounds": effort.rounds,
    }


def against_floor(found: dict[str, Any], rates: Rates) -> dict[str, Any]:
    """The cell with the least time that its shape allows at these rates."""
    keys = ("entities", "rank", "batch", "examples", "fast_part")
    floor = rates.training_floor(**{key: found[key] for key in keys})
    return {**found, "floor_seconds": floor, "fraction_of_floor": floor / found["seconds_per_epoch"]}


def _fast_part(cell: BenchCell, device: torch.device) -> float:
    """The share of the products in the fast precision: all on a GPU; with bf16 on a CPU, all except the scores."""
    if device.type != "cpu":
        return 1.0
    return 2 / 3 if cell.precision == "bf16" else 0.0


def _ours(cell: BenchCell, graph: Graph, device: torch.device, effort: Effort) -> tuple[str, Callable[[], float]]:
    """The path of a step, and a function that trains one round and returns seconds per example."""
    model = Model(cell.form, graph.n_entities, graph.n_relations, rank=cell.rank, device=device)
    probe = Training(model, part_of(graph, PROBE * cell.batch), recipe_of(cell))
    next(probe)
    examples, passes = _extent(next(probe).seconds / len(probe.graph.train) / 2, cell, graph, effort)
    part = part_of(graph, examples)
    training = Training(model, part, recipe_of(cell), step=probe.step)
    return (
        training.step.path,
        lambda: sum(epoch.seconds for epoch in islice(training, passes)) / (2 * len(part.train) * passes),
    )


def _together(cell: BenchCell, graph: Graph, device: torch.device, effort: Effort) -> Callable[[], float]:
    """Seconds per example of an epoch with groups: the first steps of a whole epoch, which has whole groups."""
    recipe = replace(recipe_of(cell), group_queries=TOGETHER)
    model = Model(cell.form, graph.n_entities, graph.n_relations, rank=cell.rank, device=device)
    training = Training(model, graph, recipe)
    queries = torch.from_numpy(graph.queries("train"))
    ordered = queries[epoch_order(queries, TOGETHER, generator(0, "order", 1))]
    steps = cycle(torch.split(ordered, cell.batch)[: len(ordered) // cell.batch or 1])

    def seconds(count: int) -> float:
        start, examples = time.perf_counter(), 0
        with training.threads():
            for batch in islice(steps, count):
                training.step(batch)
                examples += len(batch)
        return (time.perf_counter() - start) / examples

    seconds(PROBE)
    examples, passes = _extent(seconds(PROBE), cell, graph, effort)
    return lambda: seconds(-(-examples // cell.batch) * passes)


def _plain(cell: BenchCell, graph: Graph, device: torch.device, effort: Effort, *, wide: bool) -> Callable[[], float]:
    recipe = recipe_of(cell)
    model = PlainModel(cell.form, graph.n_entities, graph.n_relations, rank=cell.rank, wide=wide, device=device)
    training = PlainTraining(model, lr=recipe.lr, n3=recipe.n3, batch=cell.batch)

    def seconds(part: Graph, passes: int = 1) -> float:
        queries = torch.from_numpy(part.queries("train"))
        synchronize(device)
        start = time.perf_counter()
        with matmul_precision("fp32"):
            for _ in range(passes):
                training.epoch(queries)
        synchronize(device)
        return (time.perf_counter() - start) / (len(queries) * passes)

    probe = part_of(graph, PROBE * cell.batch)
    seconds(probe)
    examples, passes = _extent(seconds(probe), cell, graph, effort)
    part = part_of(graph, examples)
    return lambda: seconds(part, passes)


def _extent(seconds_each: float, cell: BenchCell, graph: Graph, effort: Effort) -> tuple[int, int]:
    """The number of examples of a round, in whole steps, and the number of repeats; a short epoch is taken whole."""
    steps = max(FEWEST, math.ceil(effort.seconds / effort.rounds / (seconds_each * cell.batch)))
    whole = 2 * len(graph.train)
    return min(steps * cell.batch, whole), max(1, round(steps * cell.batch / whole))


def part_of(graph: Graph, examples: int) -> Graph:
    """The graph with a random part of its training triples: about `examples` in both directions."""
    if examples >= 2 * len(graph.train):
        return graph
    chosen = np.random.default_rng(0).choice(len(graph.train), max(1, examples // 2), replace=False)
    return replace(graph, train=graph.train[np.sort(chosen)])


def time_to(
    cell: BenchCell, device: torch.device, *, mrr: float, every: int, epochs: int
) -> Iterator[dict[str, float]]:
    """Train a new model until the test MRR reaches `mrr`; measure MRR at regular intervals.

    `training_seconds` is the time of all epochs, including compilation in the first one; `first_epoch_seconds` is the
    first epoch alone; `seconds` is the wall time since the model was created, including ranking.
    """
    graph = graph_of(cell.dataset)
    synchronize(device)
    start = time.perf_counter()
    model = Model(cell.form, graph.n_entities, graph.n_relations, rank=cell.rank, device=device)
    spent, first = 0.0, 0.0
    for epoch in Training(model, graph, recipe_of(cell, epochs=epochs)):
        spent += epoch.seconds
        first = first or epoch.seconds
        if epoch.number % every and epoch.number < epochs:
            continue
        reached = rank(model, graph, "test").mrr()
        yield {
            "wanted_mrr": mrr,
            "mrr": reached,
            "epochs": epoch.number,
            "training_seconds": spent,
            "first_epoch_seconds": first,
            "seconds": time.perf_counter() - start,
        }
        if reached >= mrr:
            return
