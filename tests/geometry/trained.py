"""Small models with numbers in them: what a figure is drawn from."""

from __future__ import annotations

import torch

from conjoin.graph.graph import Graph
from conjoin.model.model import Model

FACTS = [(f"e{i % 12}", "r" if i % 3 else "s", f"e{(5 * i + i // 12 + 1) % 12}") for i in range(36)]


def graph() -> Graph:
    return Graph.from_triples(FACTS)


def model(form: str, *, rank: int = 6, seed: int = 0) -> Model:
    """A model whose numbers are large enough to move things."""
    own = graph()
    made = Model(form, own.n_entities, own.n_relations, rank=rank, seed=seed, dtype=torch.float64, scale=0.7)
    return made.requires_grad_(requires_grad=False)
