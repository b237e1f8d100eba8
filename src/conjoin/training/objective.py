"""The loss of a batch, twice: as one differentiable formula, and as the gradients that training needs.

Both say the same: mean cross-entropy over all entities plus the penalty on the batch's own factors, divided by the
batch size. The second never builds a table-sized gradient more than once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from conjoin.model.model import Model
from conjoin.model.padding import add_rows, pad_rows
from conjoin.training.recipe import Recipe


def penalty(squared_moduli: Sequence[Tensor], recipe: Recipe) -> Tensor:
    """n3 · Σ m³ + f2 · Σ m² over all factors and coordinates of a question, the mean of a batch."""
    total = torch.zeros_like(squared_moduli[0][:, 0])
    for squared in squared_moduli:
        if recipe.n3:
            total = total + recipe.n3 * squared.pow(1.5).sum(dim=1)
        if recipe.f2:
            total = total + recipe.f2 * squared.sum(dim=1)
    return total.mean()


def loss(model: Model, h: Tensor, r: Tensor, t: Tensor, recipe: Recipe) -> Tensor:
    """The objective of a batch of questions (h, r, ?) with answers t, as a scalar for autograd."""
    squared = model.factors(("head", "relation", "tail"), h, r, t)
    return model.entities.nll(model.query(h, r), t) + penalty(tuple(squared.values()), recipe)


class Factors(NamedTuple):
    """What a batch is made of: rows of its heads, relations and tails as leaves, its queries, its squared moduli."""

    heads: Tensor
    relations: Tensor
    tails: Tensor
    q: Tensor
    moduli: tuple[Tensor, ...]

    def backward(self, dq: Tensor, recipe: Recipe) -> Tensor:
        """Leave the gradient of nll and penalty in the leaves, given that of the nll in q; return the penalty."""
        if not (recipe.n3 or recipe.f2):
            torch.autograd.backward(self.q, dq)
            return dq.new_zeros(())
        cost, slopes = _penalty_and_slopes([squared.detach() for squared in self.moduli], recipe)
        depends = [pair for pair in zip(self.moduli, slopes, strict=True) if pair[0].requires_grad]
        torch.autograd.backward((self.q, *(m for m, _ in depends)), (dq, *(slope for _, slope in depends)))
        return cost


def factors(model: Model, h: Tensor, r: Tensor, t: Tensor) -> Factors:
    """The rows of a batch and what follows from them alone."""
    ends = model.entities.rows(torch.cat([h, t]))
    heads, tails = ends[: len(h)].requires_grad_(), ends[len(h) :].requires_grad_()
    rows = model.relations.detach()[model.relation_places(r)].requires_grad_()
    unfolded = model.unfold(rows, r)
    q = model.form.query(heads, unfolded)
    squared = model.form.factors(("head", "relation", "tail"), heads, unfolded, tails, q)
    return Factors(heads, rows, tails, q, tuple(squared.values()))


def gradients(model: Model, h: Tensor, r: Tensor, t: Tensor, recipe: Recipe) -> Tensor:
    """Leave the gradient of `loss` in the parameters' .grad; return (mean nll, penalty), not waiting for the device."""
    entities, batch = model.entities, factors(model, h, r, t)
    entity_gradient = buffer_of(entities.weight)
    nll, dq = entities.softmax(batch.q.detach(), t, out=entity_gradient)
    cost = batch.backward(dq, recipe)
    if recipe.n3 or recipe.f2:
        entities.add_to(entity_gradient, t, gradient_of(batch.tails))
    entities.add_to(entity_gradient, h, gradient_of(batch.heads))
    relation_gradients(model, r, batch)
    return torch.stack([nll.mean(), cost])


def relation_gradients(model: Model, r: Tensor, batch: Factors) -> None:
    """Leave the relations' gradient in .grad."""
    gradient = buffer_of(model.relations)
    gradient.zero_()
    add_rows(gradient, model.relation_places(r), gradient_of(batch.relations))


def _penalty_and_slopes(squared_moduli: list[Tensor], recipe: Recipe) -> tuple[Tensor, list[Tensor]]:
    """`penalty` and its derivatives by the squared moduli, without a graph: d m³ / d m² = 1.5 m."""
    batch = len(squared_moduli[0])
    moduli = [squared.sqrt() for squared in squared_moduli]
    slopes = [modulus * (1.5 * recipe.n3 / batch) + recipe.f2 / batch for modulus in moduli]
    pairs = zip(squared_moduli, moduli, strict=True)
    cubes = [torch.dot(squared.reshape(-1), modulus.reshape(-1)) for squared, modulus in pairs]
    cost = torch.stack(cubes).sum() * (recipe.n3 / batch)
    if recipe.f2:
        cost = cost + torch.stack([squared.sum() for squared in squared_moduli]).sum() * (recipe.f2 / batch)
    return cost, slopes


def buffer_of(parameter: torch.nn.Parameter) -> Tensor:
    """The parameter's gradient, made where there is none yet."""
    if parameter.grad is None:
        parameter.grad = pad_rows(torch.zeros_like(parameter))
    return parameter.grad


def gradient_of(leaf: Tensor) -> Tensor:
    assert leaf.grad is not None
    return leaf.grad
