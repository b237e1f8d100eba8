"""The optimiser's rule on whole tables: torch's own, with less around it."""

from __future__ import annotations

import pytest
import torch

from conjoin.learn.recipe import Recipe
from conjoin.learn.step import optimizer_for
from conjoin.learn.update import take_step
from conjoin.model.model import Model


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("optimizer", ["adagrad", "adam", "sgd"])
def test_a_step_is_the_optimizers_own(optimizer: str, dtype: torch.dtype) -> None:
    models = [Model("complex", 20, 3, rank=4, dtype=dtype) for _ in range(2)]
    optimizers = [optimizer_for(model, Recipe(optimizer=optimizer, lr=0.3)) for model in models]  # type: ignore[arg-type]
    source = torch.Generator().manual_seed(0)
    for _ in range(4):
        for pair in zip(*(model.parameters() for model in models), strict=True):
            gradient = torch.randn(pair[0].shape, generator=source, dtype=dtype)
            for weight in pair:
                weight.grad = gradient.clone()
        take_step(optimizers[0])
        optimizers[1].step()
        optimizers[0].load_state_dict(optimizers[0].state_dict())
    assert all(torch.equal(*pair) for pair in zip(*(model.parameters() for model in models), strict=True))
    states = [[state for entry in o.state.values() for state in entry.values()] for o in optimizers]
    assert all(torch.equal(*pair) for pair in zip(*states, strict=True))
    assert states[0] or optimizer == "sgd"
