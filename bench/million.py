"""Train and rank a graph of a million entities on the CPU; print time and memory: python -m bench.million"""

from __future__ import annotations

import argparse
import json
import time

import numpy as np

import conjoin
from conjoin.graph.graph import Graph, Vocabulary
from conjoin.runtime.device import peak_bytes


def graph_of(entities: int, *, triples: int, seed: int = 0) -> Graph:
    """Random facts over many entities: every entity occurs, one in ten thousand facts is held out."""
    random = np.random.default_rng(seed)
    heads = random.permutation(np.arange(triples) % entities)
    facts = np.stack([heads, random.integers(0, 10, triples), random.integers(0, entities, triples)], axis=1)
    held_out = max(50, triples // 10_000)
    names = tuple(f"entity {i:07d}" for i in range(entities))
    relations = tuple(f"relation {i}" for i in range(10))
    return Graph(
        Vocabulary("entity", names),
        Vocabulary("relation", relations),
        facts[2 * held_out :],
        facts[:held_out],
        facts[held_out : 2 * held_out],
        name=f"{entities:,} entities",
    )


def main() -> None:
    """Measure and print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entities", type=int, default=1_000_000)
    parser.add_argument("--triples", type=int, default=3_000, help="training facts; some thousand are enough")
    parser.add_argument("--rank", type=int, default=16)
    parser.add_argument("--batch", type=int, default=500)
    parser.add_argument("--form", default="5star-conj")
    chosen = parser.parse_args()
    graph = graph_of(chosen.entities, triples=chosen.triples)
    model = conjoin.Model(chosen.form, graph.n_entities, graph.n_relations, rank=chosen.rank)
    recipe = conjoin.Recipe(epochs=1, batch=chosen.batch)
    (epoch,) = conjoin.train(model, graph, recipe)
    start = time.perf_counter()
    ranks = conjoin.rank(model, graph, "test")
    report = {
        "entities": graph.n_entities,
        "rank": chosen.rank,
        "batch": chosen.batch,
        "path": model.entities.path(chosen.batch),
        "seconds_per_step": epoch.seconds * chosen.batch / (2 * len(graph.train)),
        "questions": len(ranks),
        "seconds_to_rank": time.perf_counter() - start,
        "peak_bytes": peak_bytes(model.device),
    }
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
