"""Negatives: the entities that a sampled softmax is computed over.

K entities are drawn for a batch and shared by its queries. The range 0 … N is cut into K strips of equal weight and
one entity is drawn from each strip. Entity e is then drawn K·Q(e) times on average, with less variance than K
independent draws. With K = N and a uniform Q every entity is drawn once, which is the full softmax.
Q is uniform or proportional to (1 + number of facts)^power.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from conjoin.errors import UsageError
from conjoin.graph.graph import Graph
from conjoin.model.softmax import NegativeSample
from conjoin.training.recipe import Recipe


def check_negatives(negatives: int, entities: int) -> None:
    """Raise UsageError if there are more negatives than entities."""
    if negatives > entities:
        raise UsageError(
            f"negatives = {negatives} is more than the {entities} entities. Choose fewer, or 0 to score all."
        )


class Negatives:
    """Draws `recipe.negatives` entities of a graph per batch."""

    def __init__(self, graph: Graph, recipe: Recipe, *, device: torch.device) -> None:
        check_negatives(recipe.negatives, graph.n_entities)
        self.count, self.entities, self.device = recipe.negatives, graph.n_entities, device
        self.cumulative: Tensor | None = None
        self.log_q: Tensor | None = None
        if recipe.negatives_power:
            facts = graph.degrees()
            log_weight = recipe.negatives_power * np.log1p(facts)
            self.cumulative = torch.from_numpy(np.exp(log_weight - log_weight.max()).cumsum())
            self.log_q = torch.from_numpy(log_weight).to(device, torch.float32)

    def draw(self, targets: Tensor, source: torch.Generator) -> NegativeSample:
        """A sample for a batch with these targets (B,): ids (K,) and the logarithms of Q of ids and targets."""
        strips = torch.arange(self.count, dtype=torch.float64, device="cpu")
        strips += torch.rand(self.count, dtype=torch.float64, generator=source, device="cpu")
        if self.cumulative is None:
            ids = (strips * (self.entities / self.count)).long()
        else:
            ids = torch.searchsorted(self.cumulative, strips * (self.cumulative[-1] / self.count), right=True)
        ids = ids.clamp_(max=self.entities - 1).to(self.device)
        if self.log_q is None:
            return NegativeSample(
                ids, *(torch.zeros(len(drawn), dtype=torch.float32, device=self.device) for drawn in (ids, targets))
            )
        return NegativeSample(ids, self.log_q[ids], self.log_q[targets])
