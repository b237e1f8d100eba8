"""Weights of examples: how much the cross-entropy of each one counts."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from conjoin.errors import UsageError
from conjoin.graph.graph import Graph
from conjoin.training.recipe import Recipe

LEAST = 0.1
"""The weight of a target without facts, relative to that of the target with the most."""


class ExampleWeights:
    """The weight of an example is that of its fact times that of its target.

    `of_facts` (n_train,) weighs the training facts, both directions alike. With `target_weights` = "degree" a target
    has the weight .1 + .9 · degree / largest degree, where the degree of an entity is how often it is an end of a
    training fact. The loss of a batch is divided by the sum of its weights, so that a common factor changes nothing.

    >>> graph = Graph.from_triples([("a", "r", "b"), ("b", "r", "c")])
    >>> weights = ExampleWeights(graph, Recipe(target_weights="degree"), None, device=torch.device("cpu"))
    >>> weights.uniform, [round(weight, 2) for weight in weights.of_targets.tolist()]
    (False, [0.55, 1.0, 0.55])
    """

    def __init__(self, graph: Graph, recipe: Recipe, of_facts: npt.ArrayLike | None, *, device: torch.device) -> None:
        count = len(graph.train)
        facts = np.ones(count) if of_facts is None else np.asarray(of_facts, dtype=np.float64)
        if facts.shape != (count,):
            raise UsageError(
                f"fact_weights has the shape {facts.shape}. Give one number per training fact: ({count},)."
            )
        if not np.all((facts > 0) & np.isfinite(facts)):
            wrong = facts[~((facts > 0) & np.isfinite(facts))][0]
            raise UsageError(f"fact_weights contains {wrong}. Weights must be positive and finite.")
        degrees = graph.degrees()
        targets = np.ones(graph.n_entities)
        if recipe.target_weights == "degree":
            targets = LEAST + (1 - LEAST) * degrees / degrees.max()
        used = targets[degrees > 0]
        self.uniform = bool(np.ptp(facts) == 0 and np.ptp(used) == 0)
        self.of_facts, self.of_targets = (torch.from_numpy(each).to(device, torch.float32) for each in (facts, targets))

    def of(self, numbers: Tensor, targets: Tensor) -> Tensor:
        """The weights (m,) of examples, by their numbers in `Graph.queries("train")` and their targets."""
        facts = self.of_facts[numbers.to(self.of_facts.device) % len(self.of_facts)]
        return facts * self.of_targets[targets]


def parts_of(weights: Tensor, dtype: torch.dtype) -> Tensor:
    """The weights of a batch (B,) as parts of it: their sum is 1."""
    return (weights / weights.sum()).to(dtype)
