"""One optimiser step, in the way that suits the device."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from conjoin.device import recorded
from conjoin.learn.objective import gradients
from conjoin.learn.recipe import Recipe
from conjoin.model.model import Model

REHEARSALS = 3
"""Plain steps before recording: they create gradient buffers, optimiser state and library handles."""


class Step:
    """Examples (B, 3) in, (mean nll, penalty) out, weights changed.

    A step is some eighty small kernels beside three large products; on a GPU, launching them takes longer than running
    them. There the step of a full batch is recorded once and replayed.
    """

    def __init__(self, model: Model, recipe: Recipe) -> None:
        self.model, self.recipe = model, recipe
        self.optimizer = optimizer_for(model, recipe)
        self._rehearsed = 0
        self._replay: Callable[[Tensor], Tensor] | None = None

    def __call__(self, examples: Tensor) -> Tensor:
        if self.model.device.type != "cuda" or len(examples) != self.recipe.batch:
            return self._plain(examples)
        if self._rehearsed < REHEARSALS:
            self._rehearsed += 1
            return self._plain(examples)
        if self._replay is None:
            self._replay = recorded(self._plain, examples)
        return self._replay(examples)

    def _plain(self, examples: Tensor) -> Tensor:
        h, r, t = examples.unbind(dim=1)
        costs = gradients(self.model, h, r, t, self.recipe)
        self.optimizer.step()
        return costs


def optimizer_for(model: Model, recipe: Recipe) -> torch.optim.Optimizer:
    """The recipe's optimiser over both tables, as one kernel where every supported torch has it."""
    parameters = list(model.parameters())
    on_gpu = model.device.type == "cuda"
    if recipe.optimizer == "adagrad":
        return torch.optim.Adagrad(parameters, lr=recipe.lr, fused=None if on_gpu else True)
    if recipe.optimizer == "adam":
        return torch.optim.Adam(parameters, lr=recipe.lr, fused=True, capturable=on_gpu)
    return torch.optim.SGD(parameters, lr=recipe.lr, fused=True)
