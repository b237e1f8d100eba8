"""Which entities stand for all others when the softmax is sampled.

K entities are drawn for a batch, shared by its questions. The numbers 0 … N are cut into K strips of equal weight and
one entity is drawn from each, so that entity e is drawn K·Q(e) times on average, exactly, with little chance involved;
and where K = N, every entity once: the full softmax. Q is uniform, or proportional to (1 + number of facts)^power.
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
    """An error where more are wanted than there are."""
    if negatives > entities:
        raise UsageError(f"{negatives} negatives of {entities} entities: take fewer, or 0 for all of them")


class Negatives:
    """Draws samples of a graph's entities as a recipe wants them."""

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
        """A sample for a batch with these targets."""
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
