"""The gradients of a batch on a CPU, where the number of sweeps over rows counts as much as the products.

The same numbers as `objective.gradients` up to rounding, with less work: a question that is asked twice in a large
batch is scored once with twice the weight, and the penalty of entities, where heads are read as tails, needs no graph.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from conjoin.model.model import Model
from conjoin.model.padding import add_rows
from conjoin.training.objective import buffer_of, gradient_of, gradients
from conjoin.training.recipe import Recipe

GROUPED = 500
"""Batches from which on questions are grouped. Of 1,000 random examples 3 % (WN18RR), 7 % (FB15K-237) or 10 % (atlas)
ask a question again; of fewer examples too few do to pay for finding them."""


class GroupedQueries(NamedTuple):
    """The questions of a batch: heads and relations (Q,), and the part of the examples that asks each one, (Q,) or the
    same for all. Where some are asked again, `place` (B,) says which one each example asks."""

    h: Tensor
    r: Tensor
    share: Tensor | float
    place: Tensor | None = None


def gradients_on_cpu(
    model: Model, h: Tensor, r: Tensor, t: Tensor, recipe: Recipe, *, factors: torch.dtype | None = None
) -> Tensor:
    """Leave the gradient of `objective.loss` in the parameters' .grad; return (mean nll, penalty).

    `factors`: a shorter type for the factors of the two products that make gradients of scores.
    """
    entities, form, penalised = model.entities, model.form, bool(recipe.n3 or recipe.f2)
    if not form.heads_as_tails:
        return gradients(model, h, r, t, recipe)
    asked = _once(h, r, model) if recipe.together > 1 or len(t) >= GROUPED else GroupedQueries(h, r, 1 / len(t))
    ids = torch.cat([asked.h, t]) if penalised else asked.h
    ends = entities.weight.detach().index_select(0, ids)
    heads = ends[: len(asked.h)].detach().requires_grad_()
    places = model.relation_places(asked.r)
    rows = model.relations.detach().index_select(0, places).requires_grad_()
    unfolded = model.unfold(rows, asked.r)
    q = form.query(heads, unfolded)
    entity_gradient, relation_gradient = buffer_of(entities.weight), buffer_of(model.relations)
    nll, dq = entities.softmax(
        q.detach(), t, out=entity_gradient, place=asked.place, share=asked.share, factors=factors
    )
    relation_gradient.zero_()
    outputs, slopes, cost = [q], [dq], nll.new_zeros(())
    if penalised:
        squared = form.factor("relation", heads, unfolded, heads, q)
        cost, slope = _penalty(squared.detach(), asked.share, recipe)
        if squared.requires_grad:
            outputs.append(squared)
            slopes.append(slope)
    torch.autograd.backward(outputs, slopes)
    if penalised:
        cost = cost + _entities(ends, asked.share, recipe, planes=form.planes)
    else:
        ends.zero_()
    ends[: len(asked.h)] += gradient_of(heads)
    add_rows(entity_gradient, ids, ends)
    add_rows(relation_gradient, places, gradient_of(rows))
    return torch.stack([nll.mean(), cost])


def _once(h: Tensor, r: Tensor, model: Model) -> GroupedQueries:
    """The different queries of a batch."""
    relations = 2 * model.n_relations
    asked, place, count = torch.unique(h * relations + r, return_inverse=True, return_counts=True)
    share = count.to(model.relations.dtype).div_(len(h))
    return GroupedQueries(asked // relations, asked % relations, share, place)


def _penalty(squared: Tensor, share: Tensor | float, recipe: Recipe) -> tuple[Tensor, Tensor]:
    """Σ share (n3 m³ + f2 m²) of squared moduli (n, k), and its derivative by them."""
    scale = share[:, None] if isinstance(share, Tensor) else share
    slope = squared.sqrt().mul_(scale)
    cost = torch.dot(slope.reshape(-1), squared.reshape(-1)) * recipe.n3
    slope.mul_(1.5 * recipe.n3)
    if recipe.f2:
        cost = cost + (squared * scale).sum() * recipe.f2
        slope.add_(scale, alpha=recipe.f2)
    return cost, slope


def _entities(ends: Tensor, share: Tensor | float, recipe: Recipe, *, planes: int) -> Tensor:
    """The penalty of heads and answers, whose rows become its gradient: d|z|² is 2 z."""
    if isinstance(share, Tensor):
        answers = len(ends) - len(share)
        share = torch.cat([share, share.new_full((answers,), 1 / answers)])
    parts = ends.view(len(ends), planes, -1)
    cost, slope = _penalty(parts.square().sum(dim=1), share, recipe)
    parts.mul_(slope.mul_(2)[:, None])
    return cost
