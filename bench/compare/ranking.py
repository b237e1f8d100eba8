"""Measure ranking with Conjoin, plain PyTorch and PyKEEN in one run."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import torch
from bench.compare.cells import BenchCell, graph_of
from bench.compare.machine_rates import Rates
from bench.compare.plain_torch import PlainModel, can_be_plain, plain_ranks
from bench.compare.pykeen_runner import PykeenRunner
from bench.compare.training import Effort

from conjoin.evaluation.rank import rank
from conjoin.forms.notation import form as form_of
from conjoin.graph.graph import Graph
from conjoin.model.model import Model
from conjoin.runtime.device import matmul_precision, peak_bytes, reset_peak, synchronize

PROBE = 200
SCALE = 0.3
"""Standard deviation of the ranked model's weights, as in a trained model; the initial weights are smaller."""


def measure_ranking(
    cell: BenchCell, device: torch.device, *, effort: Effort, plain: bool = True, other: PykeenRunner | None = None
) -> dict[str, Any]:
    """The results of a cell: seconds to rank all test questions in both directions, filtered."""
    graph = graph_of(cell.dataset)
    questions = 2 * len(graph.test)
    model = Model(cell.form, graph.n_entities, graph.n_relations, rank=cell.rank, device=device, scale=SCALE)
    contestants = {"ours": _sized(lambda part: rank(model, part, "test"), graph, device, effort)}
    reset_peak(device)
    contestants["ours"]()
    peak = peak_bytes(device)
    if plain and can_be_plain(form_of(cell.form)):
        published = PlainModel(cell.form, graph.n_entities, graph.n_relations, rank=cell.rank, device=device)
        contestants["plain"] = _sized(
            lambda part: plain_ranks(published, part, batch=cell.batch), graph, device, effort
        )
    taken: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(effort.rounds):
        for name, contestant in contestants.items():
            taken[name].append(contestant() * questions)
    median = {name: statistics.median(seconds) for name, seconds in taken.items()}
    pykeen = other.rank(cell, graph, device=str(device)) if other else {}
    return {
        **asdict(cell),
        "entities": graph.n_entities,
        "questions": questions,
        "seconds": median["ours"],
        "plain_seconds": median.get("plain"),
        "pykeen_seconds": pykeen.get("seconds"),
        "questions_per_second": questions / median["ours"],
        "peak_bytes": peak,
        "spread": {name: (max(seconds) - min(seconds)) / median[name] for name, seconds in taken.items()},
        "rounds": effort.rounds,
    }


def against_floor(found: dict[str, Any], rates: Rates) -> dict[str, Any]:
    """The cell with the least time that its shape allows at these rates."""
    floor = rates.ranking_floor(**{key: found[key] for key in ("entities", "rank", "questions")})
    return {**found, "floor_seconds": floor, "fraction_of_floor": floor / found["seconds"]}


def _sized(work: Callable[[Graph], object], graph: Graph, device: torch.device, effort: Effort) -> Callable[[], float]:
    """A function that runs one round and returns seconds per question, on as many questions as the effort allows."""

    def seconds(part: Graph) -> float:
        synchronize(device)
        start = time.perf_counter()
        with matmul_precision("fp32"):
            work(part)
        synchronize(device)
        return (time.perf_counter() - start) / (2 * len(part.test))

    probe = asking(graph, PROBE)
    seconds(probe)
    wanted = math.ceil(effort.seconds / effort.rounds / seconds(probe))
    part = asking(graph, max(PROBE, wanted))
    assert len(part.known), "the filter is built before the clock starts"
    return lambda: seconds(part)


def asking(graph: Graph, questions: int) -> Graph:
    """The graph with a random part of its test triples. The known answers stay complete."""
    if questions >= 2 * len(graph.test):
        return graph
    chosen = np.random.default_rng(0).choice(len(graph.test), max(1, questions // 2), replace=False)
    rest = np.delete(graph.test, chosen, axis=0)
    return replace(graph, test=graph.test[np.sort(chosen)], valid=np.concatenate([graph.valid, rest]))
