"""Measure how seconds and memory of a training step grow with entities, rank and batch, one varied at a time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from conjoin.model.model import Model
from conjoin.model.table import EntityTable
from conjoin.runtime.device import matmul_precision, peak_bytes, reset_peak, synchronize, threads_for
from conjoin.training.recipe import Recipe
from conjoin.training.steps.choose import TrainingStep

RELATIONS = 100
REHEARSED = 5
"""Warm-up steps before the clock starts; they include the recording of a CUDA graph."""


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """The sizes to measure, and the fixed sizes while another one is varied."""

    entities: tuple[int, ...]
    ranks: tuple[int, ...]
    batches: tuple[int, ...]
    at_entities: int
    at_rank: int
    at_batch: int
    form: str = "5star-conj"
    precision: str = "fp32"

    def sizes(self) -> Iterator[tuple[str, int, int, int]]:
        """(name of the varied size, entities, rank, batch)."""
        yield from (("entities", n, self.at_rank, self.at_batch) for n in self.entities)
        yield from (("rank", self.at_entities, k, self.at_batch) for k in self.ranks)
        yield from (("batch", self.at_entities, self.at_rank, b) for b in self.batches)


SWEEPS = {
    "cpu": Sweep(
        entities=(10_000, 30_000, 100_000, 300_000),
        ranks=(25, 50, 100, 200),
        batches=(100, 250, 500, 1000),
        at_entities=30_000,
        at_rank=50,
        at_batch=250,
    ),
    "cuda": Sweep(
        entities=(10_000, 30_000, 100_000, 300_000, 1_000_000, 2_000_000, 5_000_000),
        ranks=(50, 100, 200, 500, 1000),
        batches=(100, 300, 1000, 2000, 4000),
        at_entities=100_000,
        at_rank=200,
        at_batch=1000,
        precision="tf32",
    ),
}
"""Sizes that a small machine measures in two minutes, and sizes that an H200 measures in one minute."""


def grow(sweep: Sweep, device: torch.device, *, seconds: float = 1.0) -> Iterator[dict[str, Any]]:
    """One object per size: seconds of the median step and the most memory in use, after about `seconds` of steps."""
    done: dict[tuple[int, int, int], dict[str, Any]] = {}
    for moves, *size in sweep.sizes():
        entities, rank, batch = size
        if (entities, rank, batch) not in done:
            found = measure_step(sweep, device, entities=entities, rank=rank, batch=batch, seconds=seconds)
            done[entities, rank, batch] = {"entities": entities, "rank": rank, "batch": batch, **found}
        yield {"moves": moves, **done[entities, rank, batch]}


def measure_step(
    sweep: Sweep, device: torch.device, *, entities: int, rank: int, batch: int, seconds: float
) -> dict[str, Any]:
    """Seconds per step, bytes and path at one size."""
    reset_peak(device)
    model = model_of(sweep.form, entities, rank=rank, device=device)
    recipe = Recipe(batch=batch, n3=0.01, precision=sweep.precision)  # type: ignore[arg-type]
    step = TrainingStep(model, recipe)
    (examples,) = step.batches(_examples(entities, batch, device))
    taken: list[float] = []
    with matmul_precision(recipe.precision), threads_for(6 * batch * model.entities.weight.numel()):
        for _ in range(REHEARSED):
            step(examples)
        synchronize(device)
        while sum(taken) < seconds or len(taken) < 3:
            start = time.perf_counter()
            step(examples)
            synchronize(device)
            taken.append(time.perf_counter() - start)
    return {
        "seconds": sorted(taken)[len(taken) // 2],
        "peak_bytes": peak_bytes(device),
        "table_bytes": 4 * model.entities.weight.numel(),
        "steps": len(taken),
        "path": step.path,
    }


def model_of(form: str, entities: int, *, rank: int, device: torch.device) -> Model:
    """A model with entities drawn on the device; the host would need half a minute for five million rows."""
    model = Model(form, 1, RELATIONS, rank=rank, device=device)
    chance = torch.Generator(device).manual_seed(0)
    model.entities = EntityTable(torch.empty(entities, 2 * rank, device=device).normal_(0, 1e-3, generator=chance))
    return model


def _examples(entities: int, batch: int, device: torch.device) -> Tensor:
    chance = torch.Generator().manual_seed(0)
    drawn = [torch.randint(n, (batch,), generator=chance) for n in (entities, 2 * RELATIONS, entities)]
    return torch.stack(drawn, dim=1).to(device)
