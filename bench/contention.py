"""Measure how other busy processes slow an epoch: GOMP_SPINCOUNT=5000 python -m bench.contention [--busy 1]

Prints seconds per epoch on UMLS-sized random facts with one thread and with all threads. Without
GOMP_SPINCOUNT, the OpenMP library uses its default.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import time

import numpy as np
import torch

from conjoin.graph.graph import Graph
from conjoin.model.model import Model
from conjoin.training.recipe import Recipe
from conjoin.training.steps.choose import TrainingStep


def spin() -> None:
    """Burn a core."""
    while True:
        pass


def seconds(graph: Graph, *, threads: int, epochs: int = 3) -> list[float]:
    """Seconds of each epoch, without the rule that small steps use one thread."""
    torch.set_num_threads(threads)
    recipe = Recipe(epochs=epochs, batch=100)
    model = Model("5star-conj", graph.n_entities, graph.n_relations, rank=64)
    step, queries = TrainingStep(model, recipe), torch.from_numpy(graph.queries("train"))
    taken = []
    for _ in range(epochs):
        start = time.perf_counter()
        for batch in torch.split(queries, recipe.batch):
            step(batch)
        taken.append(round(time.perf_counter() - start, 3))
    return taken


def main() -> None:
    """Measure and print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--busy", type=int, default=0, help="number of other processes that each keep a core busy")
    busy = [multiprocessing.Process(target=spin, daemon=True) for _ in range(parser.parse_args().busy)]
    for process in busy:
        process.start()
    chance = np.random.default_rng(0)
    graph = Graph.from_triples(np.stack([chance.integers(0, n, 5216) for n in (135, 46, 135)], axis=1))
    found = {str(threads): seconds(graph, threads=threads) for threads in (1, os.cpu_count() or 1)}
    for process in busy:
        process.kill()
    print(json.dumps({"spin": os.environ.get("GOMP_SPINCOUNT", "default"), "busy": len(busy), "seconds": found}))


if __name__ == "__main__":
    main()
