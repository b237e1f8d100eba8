"""The gradients of a batch for a table in one process: a general function, and a faster one for CPUs.

Both compute the gradients of `objective.loss`. On a CPU passes over rows cost as much as the products. So a query that
occurs twice in a large batch is scored once with twice the weight, and the penalty of entities is differentiated by
hand if the form reads heads and tails alike.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from conjoin.model.model import Model
from conjoin.model.padding import add_rows
from conjoin.model.softmax import averaged_sum
from conjoin.training.objective import Batch, Objective, buffer_of, gradient_of

GROUPED = 500
"""The smallest batch whose queries are grouped. Of 1,000 random examples 3 % (WN18RR), 7 % (FB15K-237) or 10 % (atlas)
repeat a query; in smaller batches grouping costs more than it saves."""


class GroupedQueries(NamedTuple):
    """The distinct queries of a batch: heads and relations (Q,), and the share of examples with each query, (Q,) or
    one number for all. If some queries repeat, `place` (B,) is the index of each example's query."""

    h: Tensor
    r: Tensor
    share: Tensor | float
    place: Tensor | None = None


def gradients(
    model: Model, h: Tensor, r: Tensor, t: Tensor, objective: Objective, *, weight: Tensor | None = None
) -> Tensor:
    """Leave the gradient of the objective in the parameters' .grad; return one number per term, without waiting for the
    device. `h`, `r`, `t` are (B,). `weight` (B,), with the sum 1, weighs the cross-entropy of the examples."""
    entities, batch = model.entities, Batch.of(model, h, r, t)
    entity_gradient = buffer_of(entities.weight)
    nll, dq = entities.softmax(batch.query.detach(), t, out=entity_gradient, weight=weight)
    costs = objective.backward(batch, averaged_sum(nll, weight), dq)
    if objective.sees_tails:
        entities.add_to(entity_gradient, t, gradient_of(batch.tails))
    entities.add_to(entity_gradient, h, gradient_of(batch.heads))
    return costs


def gradients_on_cpu(
    model: Model,
    h: Tensor,
    r: Tensor,
    t: Tensor,
    objective: Objective,
    *,
    group: bool = False,
    factors: torch.dtype | None = None,
    weight: Tensor | None = None,
) -> Tensor:
    """The same numbers as `gradients` up to rounding, with less work.

    `group` scores equal queries once in small batches too. `factors` is a shorter dtype for the factors of the two
    products that turn gradients of scores into gradients of rows.
    """
    entities, form, penalty = model.entities, model.form, objective.penalty
    if not form.heads_as_tails:
        return gradients(model, h, r, t, objective, weight=weight)
    queries = _once(h, r, model) if group or len(t) >= GROUPED else GroupedQueries(h, r, 1 / len(t))
    ids = torch.cat([queries.h, t]) if objective.sees_tails else queries.h
    count = len(queries.h)
    ends = entities.weight.detach().index_select(0, ids)
    heads = ends[:count].detach().requires_grad_()
    places = model.relation_places(queries.r)
    rows = model.relations.detach().index_select(0, places).requires_grad_()
    for parameter in model.shared.parameters() if model.shared is not None else ():
        buffer_of(parameter).zero_()
    unfolded = model.unfold(rows, queries.r)
    q = form.query(heads, unfolded)
    entity_gradient, relation_gradient = buffer_of(entities.weight), buffer_of(model.relations)
    nll, dq = entities.softmax(
        q.detach(),
        t,
        out=entity_gradient,
        place=queries.place,
        share=_weight_of(queries, weight),
        factors=factors,
        weight=weight,
    )
    relation_gradient.zero_()
    outputs, slopes, cost = [q], [dq], nll.new_zeros(())
    if penalty:
        squared = form.factor("relation", heads, unfolded, heads, q)
        cost, slope = penalty.of_shares(squared.detach(), queries.share)
        if squared.requires_grad:
            outputs.append(squared)
            slopes.append(slope)
    terms, tails, batch = [], ends[count:].detach(), None
    if objective.terms:
        tails = tails.clone().requires_grad_()
        batch = Batch(model, h, r, t, _per_example(heads, queries), _per_example(rows, queries), tails)
        terms = objective.term_costs(batch)
    torch.autograd.backward([*outputs, *terms], [*slopes, *map(torch.ones_like, terms)])
    if penalty:
        cost = cost + penalty.of_rows(ends, _share_of_ends(queries, len(t)), planes=form.planes)
    else:
        ends.zero_()
    ends[:count] += gradient_of(heads)
    if batch is not None:
        ends[count:] += gradient_of(tails)
    add_rows(entity_gradient, ids, ends)
    add_rows(relation_gradient, places, gradient_of(rows))
    if batch is not None:
        batch.add_table_gradient(relation_gradient)
    return torch.stack([averaged_sum(nll, weight), cost, *(term.detach() for term in terms)])


def _weight_of(queries: GroupedQueries, weight: Tensor | None) -> Tensor | float:
    """The share of the loss of each query: its share of the examples, or the sum of their weights."""
    if weight is None:
        return queries.share
    if queries.place is None:
        return weight
    return weight.new_zeros(len(queries.h)).index_add_(0, queries.place, weight)


def _per_example(rows: Tensor, queries: GroupedQueries) -> Tensor:
    """Rows (B, ·) of the examples from rows (Q, ·) of the queries; differentiable."""
    return rows if queries.place is None else rows.index_select(0, queries.place)


def _share_of_ends(queries: GroupedQueries, answers: int) -> Tensor | float:
    """The share of the batch of each row of heads, then of each row of tails."""
    share = queries.share
    return torch.cat([share, share.new_full((answers,), 1 / answers)]) if isinstance(share, Tensor) else share


def _once(h: Tensor, r: Tensor, model: Model) -> GroupedQueries:
    """The distinct queries of a batch."""
    relations = 2 * model.n_relations
    queries, place, count = torch.unique(h * relations + r, return_inverse=True, return_counts=True)
    share = count.to(model.relations.dtype).div_(len(h))
    return GroupedQueries(queries // relations, queries % relations, share, place)
