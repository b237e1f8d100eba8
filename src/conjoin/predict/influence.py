"""Estimate how much each training fact supports an answer, from inner products of gradients.

A fact that is taken away no longer pulls the parameters down its own loss. To first order the answer's loss then rises
by g · (F + λ)⁻¹ · g', where g and g' are the gradients of the two losses and F = Σ g' g'ᵀ over the facts nearby is what
the curvature of their joint loss is estimated by (empirical Fisher information). With all gradients as rows of G this
is (G Gᵀ + λ)⁻¹ G g: one small system of equations. Facts with the same content share the support.

A loss is the sum of the two softmax cross-entropies that training uses, (h, r, ?) and (?, r, t). Gradients are taken in
the answer's own rows: the row of its head, the row of its tail, and the rows of its relation in both directions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from conjoin.graph.adjacency import adjacency
from conjoin.graph.graph import Graph, Ids, reciprocal
from conjoin.model.model import Model

Reals = npt.NDArray[np.float64]
POOL = 128
"""The largest number of facts that get full gradients. They are chosen by the gradients of their scores alone."""
SAME_RELATION = 32
"""How many of these may have only the relation in common with the answer."""
DAMPING = 1.0
"""λ in units of the mean squared length of the gradients. A very large λ leaves the plain inner products."""
TINY = 1e-30


@dataclass(frozen=True)
class AnsweredFact:
    """The fact (h, r, t) by ids."""

    h: int
    r: int
    t: int

    @property
    def fact(self) -> Ids:
        return np.array([[self.h, self.r, self.t]])


def neighbourhood(graph: Graph, answer: AnsweredFact) -> tuple[Ids, Ids]:
    """Indices of the training facts with the answer's head or tail, and of facts with only its relation.

    The answer itself is left out. The indices refer to `adjacency(graph).facts`.
    """
    index = adjacency(graph)
    touching = np.unique(np.concatenate([index.edges_of(answer.h)[:, 3], index.edges_of(answer.t)[:, 3]]))
    itself = (index.facts[touching] == answer.fact).all(axis=1)
    sharing = np.setdiff1d(index.facts_with(answer.r), touching, assume_unique=True)
    return touching[~itself], sharing


def influences(model: Model, graph: Graph, answer: AnsweredFact, *, damping: float = DAMPING) -> tuple[Ids, Reals]:
    """Indices (n,) of training facts near the answer, and the influence (n,) of each: positive ones support it."""
    index = adjacency(graph)
    touching, sharing = neighbourhood(graph, answer)
    near = _closest(model, index.facts, sharing, answer, SAME_RELATION)
    pool = np.concatenate([_closest(model, index.facts, touching, answer, POOL - len(near)), near])
    if not len(pool):
        return pool, np.empty(0)
    with_relation = index.facts_with(answer.r)
    share = np.isin(pool, with_relation).sum() / max(len(with_relation), 1)
    rows = fact_gradients(model, np.concatenate([answer.fact, index.facts[pool]]), answer)
    products = rows.products(share).double()
    shared = products[1:, 1:]
    weight = damping * shared.diagonal().mean() + TINY
    return pool, torch.linalg.solve(shared + weight * torch.eye(len(pool)).to(shared), products[1:, 0]).cpu().numpy()


class Gradients(NamedTuple):
    """Gradients of n losses in the answer's rows, each (n, width of the row).

    Where a form derives reciprocals from relations, `reciprocal` is 0 and `relation` holds both directions.
    """

    head: Tensor
    tail: Tensor
    relation: Tensor
    reciprocal: Tensor

    def products(self, share: float) -> Tensor:
        """All inner products, (n, n). Those of relation rows are scaled by the `share` of the relation's facts here."""
        ends = self.head @ self.head.T + self.tail @ self.tail.T
        return ends + share * (self.relation @ self.relation.T + self.reciprocal @ self.reciprocal.T)


@torch.inference_mode(mode=False)
def fact_gradients(model: Model, facts: Ids, answer: AnsweredFact, *, competitors: bool = True) -> Gradients:
    """The gradients of the losses of facts (n, 3) in the answer's rows.

    Without `competitors` the losses are the negative scores of the facts, which needs no score of other entities.
    """
    n = len(facts)
    a, r, b = torch.from_numpy(reciprocal(facts, model.n_relations)).to(model.device).unbind(dim=1)
    table, link = model.entities, model.form.link
    heads = table.rows(a).requires_grad_()
    relations = model.relations.detach()[model.relation_places(r)].requires_grad_()
    query = model.form.query(heads, model.unfold(relations, r))
    q = query.detach()
    ends = torch.tensor([answer.h, answer.t], device=model.device)
    same_relation = r % model.n_relations == answer.r
    # The slopes of a loss by the scores of both ends, (2n, 2), and its gradient by the query.
    slopes = -(b[:, None] == ends).to(q.dtype)
    of_query = -link.pull_pairs(q.new_ones(len(q)), q, table.rows(b))[0]
    if competitors:
        likely, mean = _competitors(model, q, ends, (a[:, None] == ends).any(dim=1) | same_relation)
        slopes, of_query = slopes + likely, of_query + mean
    of_heads, of_relations = torch.autograd.grad(query, (heads, relations), of_query)
    of_tails = [
        link.pull_pairs(slopes[:, i], q, row.expand(len(q), -1))[1] for i, row in enumerate(table.rows(ends)[:, None])
    ]
    rows = (a[:, None] == ends)[:, :, None] * of_heads[:, None] + torch.stack(of_tails, dim=1)
    rows = rows[:n] + rows[n:]
    if answer.h == answer.t:
        rows[:, 1] = 0
    of_relations *= same_relation[:, None]
    forward, backward = of_relations[:n], of_relations[n:]
    if model.form.derives_reciprocals:  # both directions share one row
        forward, backward = forward + backward, torch.zeros_like(backward)
    return Gradients(rows[:, 0], rows[:, 1], forward, backward)


def _competitors(model: Model, q: Tensor, ends: Tensor, needed: Tensor) -> tuple[Tensor, Tensor]:
    """Per query the probabilities (B, 2) of both ends, and the gradient (B, query width) of log Σ exp of its scores.

    The gradient is computed for the queries that are `needed` (B,), and 0 for the others.
    """
    likely, gradient = q.new_empty(len(q), len(ends)), torch.zeros_like(q)
    size = max(1, model.questions_at_once() // 2)  # the graph of a link holds several buffers of scores
    for wanted in (True, False):
        for part in torch.split((needed == wanted).nonzero()[:, 0], size):
            leaf = q[part].requires_grad_(wanted)
            scores = model.entities.scores(leaf)
            p = torch.softmax(scores.detach(), dim=1)
            likely[part] = p[:, ends]
            if wanted:
                (gradient[part],) = torch.autograd.grad(scores, leaf, p)
    return likely, gradient


def _closest(model: Model, facts: Ids, numbers: Ids, answer: AnsweredFact, most: int) -> Ids:
    """At most `most` facts, those whose score gradients have the largest inner products with the answer's."""
    if len(numbers) <= most:
        return numbers
    rows = fact_gradients(model, np.concatenate([answer.fact, facts[numbers]]), answer, competitors=False)
    alike = torch.stack([part[1:] @ part[0] for part in rows]).sum(dim=0)
    best: Ids = torch.topk(alike, most).indices.cpu().numpy()
    return numbers[np.sort(best)]
