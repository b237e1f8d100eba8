"""The loss of a batch, twice: as one differentiable formula, and as the gradients that training needs.

Both say the same: mean cross-entropy over all entities plus the penalty on the batch's own factors, divided by the
batch size. The second never builds a table-sized gradient more than once.
"""

from __future__ import annotations

import torch
from torch import Tensor

from conjoin.learn.recipe import Recipe
from conjoin.model.model import Model
from conjoin.model.rows import add_rows, with_room


def penalties(squared_moduli: tuple[Tensor, Tensor, Tensor], recipe: Recipe) -> Tensor:
    """n3 · Σ m³ + f2 · Σ m² over all factors and coordinates of each question, (B,)."""
    total = torch.zeros_like(squared_moduli[0][:, 0])
    for squared in squared_moduli:
        if recipe.n3:
            total = total + recipe.n3 * squared.pow(1.5).sum(dim=1)
        if recipe.f2:
            total = total + recipe.f2 * squared.sum(dim=1)
    return total


def penalty(squared_moduli: tuple[Tensor, Tensor, Tensor], recipe: Recipe) -> Tensor:
    """The mean of the penalties of a batch."""
    return penalties(squared_moduli, recipe).mean()


def loss(model: Model, h: Tensor, r: Tensor, t: Tensor, recipe: Recipe) -> Tensor:
    """The objective of a batch of questions (h, r, ?) with answers t, as a scalar for autograd."""
    return model.entities.nll(model.query(h, r), t) + penalty(model.squared_moduli(h, r, t), recipe)


def gradients(model: Model, h: Tensor, r: Tensor, t: Tensor, recipe: Recipe) -> Tensor:
    """Leave the gradient of `loss` in the parameters' .grad; return (mean nll, penalty), not waiting for the device."""
    entities, form = model.entities, model.form
    heads, tails = (entities.weight.detach()[ids].requires_grad_() for ids in (h, t))
    rows = model.relations.detach()[r].requires_grad_()
    slots = form.unfold(rows)
    q = form.query(heads, slots)
    entity_gradient, relation_gradient = _buffer(entities.weight), _buffer(model.relations)
    nll, dq = entities.softmax(q.detach(), t, out=entity_gradient)
    cost = nll.new_zeros(())
    if recipe.n3 or recipe.f2:
        moduli = form.squared_moduli(heads, slots, tails)
        cost, slopes = _penalty_and_slopes([squared.detach() for squared in moduli], recipe)
        depends = [pair for pair in zip(moduli, slopes, strict=True) if pair[0].requires_grad]
        torch.autograd.backward((q, *(m for m, _ in depends)), (dq, *(slope for _, slope in depends)))
        add_rows(entity_gradient, t, _gradient(tails))
    else:
        torch.autograd.backward(q, dq)
    add_rows(entity_gradient, h, _gradient(heads))
    relation_gradient.zero_()
    add_rows(relation_gradient, r, _gradient(rows))
    return torch.stack([nll.mean(), cost])


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


def _buffer(parameter: torch.nn.Parameter) -> Tensor:
    if parameter.grad is None:
        parameter.grad = with_room(torch.zeros_like(parameter))
    return parameter.grad


def _gradient(leaf: Tensor) -> Tensor:
    assert leaf.grad is not None
    return leaf.grad
