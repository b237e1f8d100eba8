"""Test whether a high MRR on train means that the penalty is too weak: python -m bench.by_heart

Trains with weaker and stronger penalties and ranks a sample of train and all of valid during training. For every epoch
at which a training could end, it prints how much an earlier end or a stronger penalty would improve the MRR on valid.
"""

from __future__ import annotations

import argparse
from dataclasses import replace

import numpy as np

import conjoin
from conjoin.graph.graph import Graph
from conjoin.training.presets import usual_batch
from conjoin.training.recipe import Recipe

SAMPLE = 500
"""Number of training facts in the ranked sample."""


def main() -> None:
    """Print one line for every final epoch of every training."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("graphs", nargs="*", default=["atlas", "umls", "kinship", "nations"])
    parser.add_argument("--forms", default="5star-conj,complex")
    parser.add_argument("--ranks", default="32")
    parser.add_argument("--n3", default="0.001,0.01,0.05,0.1,0.2")
    parser.add_argument("--ends", default="5,10,20,50", help="epochs after which train and valid are ranked")
    parser.add_argument("--negatives", type=int, default=0, help="as in conjoin train")
    chosen = parser.parse_args()
    penalties = [float(n3) for n3 in chosen.n3.split(",")]
    ends = [int(end) for end in chosen.ends.split(",")]
    print("graph form rank n3 epochs train valid earlier stronger", flush=True)
    for name in chosen.graphs:
        graph = conjoin.load(name)
        batch = usual_batch(2 * len(graph.train))
        for form in chosen.forms.split(","):
            for rank in map(int, chosen.ranks.split(",")):
                found = {}
                for n3 in penalties:
                    recipe = Recipe(epochs=max(ends), batch=batch, n3=n3, negatives=chosen.negatives)
                    found[n3] = followed(graph, form, rank, recipe, ends)
                for n3, followed_here in found.items():
                    for end, (train, valid) in followed_here.items():
                        earlier = max(other for at, (_, other) in followed_here.items() if at <= end) - valid
                        stronger = max(found[other][end][1] for other in penalties if other >= n3) - valid
                        numbers = f"{train:.3f} {valid:.3f} {earlier:.3f} {stronger:.3f}"
                        print(f"{name} {form} {rank} {n3} {end} {numbers}", flush=True)


def followed(graph: Graph, form: str, rank: int, recipe: Recipe, ends: list[int]) -> dict[int, tuple[float, float]]:
    """The MRR on a sample of train and on valid, by epoch, for the epochs in `ends`."""
    places = np.linspace(0, len(graph.train) - 1, min(SAMPLE, len(graph.train))).astype(int)
    sampled = replace(graph, valid=np.concatenate([graph.valid, graph.test]), test=graph.train[places])
    model = conjoin.Model(form, graph.n_entities, graph.n_relations, rank=rank, seed=0)
    return {
        epoch.number: (conjoin.rank(model, sampled, "test").mrr(), conjoin.rank(model, graph, "valid").mrr())
        for epoch in conjoin.train(model, graph, recipe)
        if epoch.number in ends
    }


if __name__ == "__main__":
    main()
