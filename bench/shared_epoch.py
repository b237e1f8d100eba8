"""Measure one epoch of a graph with millions of entities, with sampled softmax on several processes:

    torchrun --nproc-per-node 2 bench/shared_epoch.py
    torchrun --nproc-per-node 2 bench/shared_epoch.py --graph GRAPH     (a folder that `conjoin ingest` wrote)

Without a graph, the script generates 20 million random facts over 2 million entities.
Writes bench/results/shared_epoch_<entities>_<processes>processes_<date>.json.
"""

from __future__ import annotations

import argparse
import json
import os
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import torch

import conjoin
from conjoin.graph.graph import Graph, Vocabulary
from conjoin.runtime.device import describe, peak_bytes
from conjoin.runtime.distributed import current, init_mesh, joined
from conjoin.training.recipe import Recipe

RESULTS = Path(__file__).resolve().parent / "results"


def random_graph(entities: int, triples: int, *, relations: int = 50, seed: int = 0) -> Graph:
    """Random facts; the popularity of tails is as uneven as in real graphs."""
    random = np.random.default_rng(seed)
    popular = (random.random(triples) ** 3 * entities).astype(np.int64)
    facts = np.stack([random.integers(0, entities, triples), random.integers(0, relations, triples), popular], axis=1)
    names = tuple(map(str, range(entities)))
    return Graph(
        Vocabulary("entity", names),
        Vocabulary("relation", tuple(map(str, range(relations)))),
        facts[100:],
        facts[:0],
        facts[:100],
        name=f"{triples:,} random facts",
    )


def main() -> None:
    """Measure one epoch; the first process writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graph", default=None)
    parser.add_argument("--entities", type=int, default=2_000_000)
    parser.add_argument("--triples", type=int, default=20_000_000)
    parser.add_argument("--rank", type=int, default=16)
    parser.add_argument("--batch", type=int, default=10_000)
    parser.add_argument("--negatives", type=int, default=1000)
    parser.add_argument("--replicas", type=int, default=1)
    parser.add_argument("--form", default="complex")
    parser.add_argument("--out", type=Path, default=None)
    chosen = parser.parse_args()
    with joined():
        mesh = init_mesh(chosen.replicas)
        graph = conjoin.load(chosen.graph) if chosen.graph else random_graph(chosen.entities, chosen.triples)
        model = conjoin.Model(chosen.form, graph.n_entities, graph.n_relations, rank=chosen.rank)
        recipe = Recipe(epochs=1, batch=chosen.batch, negatives=chosen.negatives)
        (epoch,) = conjoin.train(model, graph, recipe)
        steps = -(-2 * len(graph.train) // chosen.batch)
        report: dict[str, Any] = {
            "machine": {**describe(torch.device("cpu")), "cores": os.cpu_count()},
            "graph": graph.name,
            "entities": graph.n_entities,
            "triples": len(graph.train),
            "rank": chosen.rank,
            "batch": chosen.batch,
            "negatives": chosen.negatives,
            "processes": current().count,
            "replicas": mesh.replicas,
            "seconds": epoch.seconds,
            "seconds_per_step": epoch.seconds / steps,
            "loss": epoch.loss,
            "peak_bytes_of_the_largest_process": int(mesh.most(peak_bytes(model.device))),
        }
        if mesh.is_first:
            name = f"shared_epoch_{graph.n_entities}_{mesh.count}processes_{date.today().isoformat()}.json"
            (chosen.out or RESULTS / name).write_text(json.dumps(report, indent=2) + "\n")
            print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
