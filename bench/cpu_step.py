"""Measure the CPU time of a training step, ours and plain PyTorch in turn, with one thread:

    python -m bench.cpu_step [CELL …] [-o FILE.json]

Measures processor time instead of wall time, so that the result is meaningful on a busy machine too. Prints one JSON
object per cell with the minimum and the median milliseconds of both, and the load before. Without chosen cells, all are
measured and stored in bench/results/cpu_step_<cores>cores_<date>.json, the source of the table in docs/performance.md.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from datetime import date
from pathlib import Path
from typing import Any

import torch
from bench.compare.cells import BenchCell, graph_of
from bench.compare.plain_torch import PlainModel, PlainTraining
from bench.compare.training import recipe_of

from conjoin.model.model import Model
from conjoin.runtime.atomic_files import write_json
from conjoin.training.steps.choose import TrainingStep

RESULTS = Path(__file__).resolve().parent / "results"
CELLS = (
    "atlas/complex/32/200",
    "atlas/complex-conj/32/200",
    "atlas/5star/32/200",
    "atlas/5star-conj/32/200",
    "atlas/complex/100/1000",
    "atlas/5star-conj/100/1000",
    "fb15k-237/complex/100/1000",
    "fb15k-237/complex/100/1000/bf16",
    "wn18rr/complex/100/1000",
)
BUDGET = 1e12
"""Approximate number of floating-point operations to spend on a cell."""


def measured(cell: BenchCell) -> dict[str, Any]:
    """Minimum and median milliseconds of both programs; their steps alternate."""
    load = os.getloadavg()[0]
    graph, recipe = graph_of(cell.dataset), recipe_of(cell)
    sizes = graph.n_entities, graph.n_relations
    step = TrainingStep(Model(cell.form, *sizes, rank=cell.rank), recipe)
    plain = PlainTraining(PlainModel(cell.form, *sizes, rank=cell.rank), lr=recipe.lr, n3=recipe.n3, batch=recipe.batch)
    queries = torch.from_numpy(graph.queries("train"))
    shuffled = queries[torch.randperm(len(queries), generator=torch.Generator().manual_seed(0))]
    batches = [batch for batch in torch.split(shuffled, cell.batch) if len(batch) == cell.batch]
    taken: dict[str, list[float]] = {"ours": [], "plain": []}
    steps = max(4, min(200, int(BUDGET / (12 * cell.batch * sizes[0] * cell.rank))))
    for number in range(1 + steps):
        for name, work in (("ours", step), ("plain", plain.step)):
            start = time.process_time()
            work(batches[number % len(batches)])
            taken[name].append(time.process_time() - start)
    told = {name: [1e3 * min(s[1:]), 1e3 * statistics.median(s[1:])] for name, s in taken.items()}
    shown = {name: [round(value, 2) for value in pair] for name, pair in told.items()}
    return {"cell": str(cell), "steps": steps, "load_before": round(load, 1), "ms": shown}


def main() -> None:
    """Measure the cells one after the other."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cells", nargs="*")
    parser.add_argument("-o", "--out", type=Path)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    told = {"date": date.today().isoformat(), "cores": os.cpu_count(), "torch": torch.__version__}
    cells = []
    for word in chosen.cells or CELLS:
        cells.append(measured(BenchCell.parse(word)))
        print(json.dumps(cells[-1]), flush=True)
    if chosen.out or not chosen.cells:
        out = chosen.out or RESULTS / f"cpu_step_{told['cores']}cores_{told['date']}.json"
        write_json(out, {**told, "cells": cells})


if __name__ == "__main__":
    main()
