"""The largest full-softmax training that fits one card: python -m bench.largest --entities 50000000 --rank 100

Measures steps on random facts over this number of entities. Only the table and its optimiser state grow with the
entities: the gradient is stored one tile at a time. Writes bench/results/largest_<hardware>_<date>.json.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from datetime import date
from pathlib import Path

import torch
from bench.compare.results import hardware_of

from conjoin.model.model import Model
from conjoin.runtime.device import choose_device, describe, matmul_precision, peak_bytes, reset_peak, synchronize
from conjoin.training.recipe import Recipe
from conjoin.training.steps.choose import TrainingStep

RESULTS = Path(__file__).resolve().parent / "results"


def main() -> None:
    """Measure and print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entities", type=int, default=50_000_000)
    parser.add_argument("--relations", type=int, default=1000)
    parser.add_argument("--rank", type=int, default=100)
    parser.add_argument("--batch", type=int, default=1000)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--form", default="complex")
    parser.add_argument("--precision", default="tf32")
    parser.add_argument("--fused", action="store_true", help="use fused kernels if available")
    parser.add_argument("--device", default=None)
    parser.add_argument("--out", type=Path, default=None)
    chosen = parser.parse_args()
    device = choose_device(chosen.device).device
    reset_peak(device)
    began = time.perf_counter()
    model = Model(chosen.form, chosen.entities, chosen.relations, rank=chosen.rank, device=str(device))
    recipe = Recipe(batch=chosen.batch, precision=chosen.precision)
    step = TrainingStep(model, recipe, fused=chosen.fused)
    synchronize(device)
    seconds_to_start = time.perf_counter() - began
    source = torch.Generator().manual_seed(0)
    highs = (chosen.entities, 2 * chosen.relations, chosen.entities)
    seconds, losses = [], []
    count = chosen.steps * chosen.batch
    examples = torch.stack([torch.randint(high, (count,), generator=source) for high in highs], dim=1).to(device)
    for batch in step.batches(examples):
        synchronize(device)
        start = time.perf_counter()
        with matmul_precision(recipe.precision):
            costs = step(batch)
        synchronize(device)
        seconds.append(time.perf_counter() - start)
        losses.append(float(costs[0]))
    table = model.entities.weight.nbytes
    machine = describe(device)
    report = {
        "machine": machine,
        "entities": chosen.entities,
        "rank": chosen.rank,
        "batch": chosen.batch,
        "form": chosen.form,
        "precision": chosen.precision,
        "path": step.path,
        "table_bytes": table,
        "table_and_optimizer_bytes": 2 * table,
        "peak_bytes": peak_bytes(device),
        "seconds_to_start": seconds_to_start,
        "seconds_per_step": statistics.median(seconds[1:] or seconds),
        "slowest_step": max(seconds),
        "losses": losses,
    }
    hardware = hardware_of(machine, os.cpu_count() or 1)
    out = chosen.out or RESULTS / f"largest_{hardware}_{date.today().isoformat()}.json"
    out.write_text(json.dumps(report, indent=2) + "\n")
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
