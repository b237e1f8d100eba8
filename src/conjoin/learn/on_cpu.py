"""The gradients of a batch on a CPU, where the number of sweeps over rows counts as much as the products.

The same numbers as `objective.gradients` up to rounding, with less work: a question that is asked twice in a large
batch is scored once with twice the weight, in a large batch a relation's penalty is computed once per relation, and the
penalty of the answers, which no query depends on, needs no graph.
"""

from __future__ import annotations

import torch
from torch import Tensor

from conjoin.algebra.forms import Form
from conjoin.learn.objective import buffer_of
from conjoin.learn.recipe import Recipe
from conjoin.model.model import Model
from conjoin.model.rows import add_rows

GROUPED = 500
"""Batches from which on questions are grouped. Of 1,000 random examples 3 % (WN18RR), 7 % (FB15K-237) or 10 % (atlas)
ask a question again; of fewer examples too few do to pay for finding them."""


def gradients_on_cpu(model: Model, h: Tensor, r: Tensor, t: Tensor, recipe: Recipe) -> Tensor:
    """Leave the gradient of `objective.loss` in the parameters' .grad; return (mean nll, penalty)."""
    entities, form, batch = model.entities, model.form, len(t)
    repeated = recipe.together > 1 or batch >= GROUPED
    h, r_asked, place, weight = _questions(h, r, model) if repeated else (h, r, None, 1 / batch)
    heads = entities.weight.detach()[h].requires_grad_()
    rows = model.relations.detach()[r_asked].requires_grad_()
    slots = form.unfold(rows)
    q = form.query(heads, slots)
    entity_gradient, relation_gradient = buffer_of(entities.weight), buffer_of(model.relations)
    nll, dq = entities.softmax(q.detach(), t, out=entity_gradient, place=place)
    relation_gradient.zero_()
    cost = nll.new_zeros(())
    outputs, slopes = [q], [dq]
    if recipe.n3 or recipe.f2:
        penalised = [form.head(heads).squared()]
        if batch < GROUPED:
            penalised.append(form.squared_modulus(slots))
        else:
            cost = cost + _relations(model.relations.detach(), r, form, recipe, relation_gradient)
        for squared in penalised:
            part, slope = _penalty(squared.detach(), recipe, weight=weight)
            cost = cost + part
            if squared.requires_grad:
                outputs.append(squared)
                slopes.append(slope)
        cost = cost + _answers(entities.weight.detach()[t], recipe, entity_gradient, t)
    torch.autograd.backward(outputs, slopes)
    for table, ids, leaf in ((entity_gradient, h, heads), (relation_gradient, r_asked, rows)):
        assert leaf.grad is not None
        add_rows(table, ids, leaf.grad)
    return torch.stack([nll.mean(), cost])


def _questions(h: Tensor, r: Tensor, model: Model) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Heads and relations of the different questions, which one an example asks, and each one's share of the batch."""
    n_relations = len(model.relations)
    asked, place, count = torch.unique(h * n_relations + r, return_inverse=True, return_counts=True)
    return asked // n_relations, asked % n_relations, place, count.to(model.relations.dtype).div_(len(h))


def _penalty(squared: Tensor, recipe: Recipe, *, weight: Tensor | float) -> tuple[Tensor, Tensor]:
    """Σ weight (n3 m³ + f2 m²) of squared moduli (n, k), and its derivative by them."""
    modulus = squared.sqrt()
    scale = weight[:, None] if isinstance(weight, Tensor) else weight
    cost = (modulus * recipe.n3).add_(recipe.f2).mul_(squared).mul_(scale).sum()
    return cost, modulus.mul_(1.5 * recipe.n3).add_(recipe.f2).mul_(scale)


def _answers(tails: Tensor, recipe: Recipe, gradient: Tensor, t: Tensor) -> Tensor:
    """The penalty of the answers (B, w), its gradient added to the table's: d|z|² is 2 z."""
    planes = tails.view(len(t), 2, -1)
    cost, slope = _penalty(planes.square().sum(dim=1), recipe, weight=1 / len(t))
    add_rows(gradient, t, planes.mul_(slope.mul_(2)[:, None]).view(len(t), -1))
    return cost


def _relations(relations: Tensor, r: Tensor, form: Form, recipe: Recipe, gradient: Tensor) -> Tensor:
    """The penalty of the relations, each once with the weight of its questions."""
    present, count = torch.unique(r, return_counts=True)
    rows = relations[present].requires_grad_()
    squared = form.squared_modulus(form.unfold(rows))
    cost, slope = _penalty(squared.detach(), recipe, weight=count.to(rows.dtype).div_(len(r)))
    if squared.requires_grad:
        torch.autograd.backward(squared, slope)
        assert rows.grad is not None
        gradient[present] = rows.grad
    return cost
