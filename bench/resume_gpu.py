"""Check that resumed training on a GPU gives the same weights: python -m bench.resume_gpu [--dataset wn18rr]

Trains four epochs without interruption, and two epochs, a checkpoint, and two epochs after resuming. Prints the
largest difference of the weights.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import torch

import conjoin
from conjoin.training.checkpoint import load_checkpoint, save_checkpoint
from conjoin.training.loop import Training
from conjoin.training.recipe import Precision


def main() -> None:
    """Every precision, one line each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", default="wn18rr")
    parser.add_argument("--form", default="5star-conj")
    parser.add_argument("--rank", type=int, default=200)
    chosen = parser.parse_args()
    graph = conjoin.load(chosen.dataset)
    precisions: tuple[Precision, ...] = ("bf16", "tf32", "fp32")
    for precision in precisions:
        recipe = conjoin.Recipe(epochs=4, n3=0.1, precision=precision)

        def fresh(recipe: conjoin.Recipe = recipe) -> Training:
            sizes = graph.n_entities, graph.n_relations
            return Training(conjoin.Model(chosen.form, *sizes, rank=chosen.rank, device="cuda"), graph, recipe)

        alone, first, second, again = fresh(), fresh(), fresh(), fresh()
        list(alone)
        list(again)
        with tempfile.TemporaryDirectory() as folder:
            next(first), next(first)
            save_checkpoint(Path(folder) / "checkpoint.safetensors", first)
            load_checkpoint(Path(folder) / "checkpoint.safetensors", second)
        list(second)
        apart = [
            float((a.detach() - b.detach()).abs().max())
            for a, b in zip(alone.model.parameters(), second.model.parameters(), strict=True)
        ]
        same = all(map(torch.equal, alone.model.parameters(), again.model.parameters()))
        print(f"{precision}: run twice {'equal' if same else 'differs'}; resumed differs by at most {max(apart):.1e}")


if __name__ == "__main__":
    main()
