"""Models whose numbers are large enough to show mistakes, and their numbers as the oracles read them."""

from __future__ import annotations

import torch
from tests.oracle.specs import Spec
from torch import Tensor

from conjoin.forms.notation import parse
from conjoin.model.model import Model
from conjoin.training.objective import Objective
from conjoin.training.penalties import FACTORS
from conjoin.training.recipe import Recipe


def model_of(
    spec: Spec | str, *, entities: int = 7, relations: int = 2, rank: int = 4, seed: int = 0, budget: int | None = None
) -> Model:
    """A float64 model with N(0, 0.7²) everywhere."""
    form = parse(spec.text() if isinstance(spec, Spec) else spec)
    return Model(form, entities, relations, rank=rank, seed=seed, dtype=torch.float64, scale=0.7, budget=budget)


def rows(table: Tensor) -> list[list[float]]:
    return [[float(x) for x in row] for row in table.detach()]


def penalty_of(model: Model, h: Tensor, r: Tensor, t: Tensor, recipe: Recipe) -> Tensor:
    """The mean n3 and f2 penalty of a batch, differentiable in the model's parameters."""
    return Objective.of(recipe).penalty.per_example(model.factors(FACTORS, h, r, t)).mean()
