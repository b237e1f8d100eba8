"""CPU seconds of a training step, ours and the plain statement in turn, one thread: python bench/cpu_step.py [CELL …]

Counts the processor's time instead of the clock's, so that it says something on a busy machine too. Prints one JSON
object per cell with the least and the median milliseconds of each.
"""

from __future__ import annotations

import json
import statistics
import sys
import time

import torch

from conjoin.bench.cells import Cell, graph_of
from conjoin.bench.plain import Plain, PlainTraining
from conjoin.bench.training import recipe_of
from conjoin.learn.step import Step
from conjoin.model.model import Model

CELLS = (
    "atlas/complex/32/200",
    "atlas/5star-conj/32/200",
    "atlas/complex/100/1000",
    "atlas/5star-conj/100/1000",
    "fb15k-237/complex/100/1000",
    "wn18rr/complex/100/1000",
)
BUDGET = 2e11
"""Floating-point operations to spend on a cell, about."""


def main() -> None:
    """Measure the cells in turn."""
    torch.set_num_threads(1)
    for word in sys.argv[1:] or CELLS:
        cell = Cell.parse(word)
        graph, recipe = graph_of(cell.dataset), recipe_of(cell)
        sizes = graph.n_entities, graph.n_relations
        step = Step(Model(cell.form, *sizes, rank=cell.rank), recipe)
        plain = PlainTraining(Plain(cell.form, *sizes, rank=cell.rank), lr=recipe.lr, n3=recipe.n3, batch=recipe.batch)
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
        print(json.dumps({"cell": str(cell), "steps": steps, "ms": shown}), flush=True)


if __name__ == "__main__":
    main()
