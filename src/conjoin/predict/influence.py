"""Estimate how much each training fact supports an answer, from inner products of gradients.

A fact that is taken away no longer pulls the parameters down its own loss. To first order the answer's loss then rises
by g · (F + λ)⁻¹ · g', where g and g' are the gradients of the two losses and F = Σ g' g'ᵀ over the facts nearby is what
the curvature of their joint loss is estimated by (empirical Fisher information). With all gradients as rows of G this
is (G Gᵀ + λ)⁻¹ G g: one small system of equations. Facts with the same content share the support.

A loss is the sum of the two softmax cross-entropies that training uses, (h, r, ?) and (?, r, t). Only rows that the
answer is made of count: those of its head, its tail, and its relation in both directions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from conjoin.errors import UsageError
from conjoin.forms.link import DOT
from conjoin.graph.adjacency import adjacency
from conjoin.graph.graph import Graph, Ids, reciprocal
from conjoin.model.model import Model

Reals = npt.NDArray[np.float64]
POOL = 128
"""At most so many facts get full gradients. They are chosen by gradients of their scores alone."""
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
    """Indices of the training facts with the answer's head or tail, and of those with only its relation.

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
    """Gradients of n losses in the answer's rows, each (n, width)."""

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
    """The gradient of each fact's loss in the answer's rows.

    Without `competitors` the losses are the negative scores of the facts, which needs no product with the table.
    """
    if model.form.link is not DOT or model.form.derives_reciprocals:
        raise UsageError(
            f"Influence needs dot products and a stored row for every reciprocal relation; {model.form} has the link "
            f"{model.form.link.name}. Use paths instead, or a form such as complex."
        )
    n = len(facts)
    a, r, b = torch.from_numpy(reciprocal(facts, model.n_relations)).to(model.device).unbind(dim=1)
    table = model.entities
    heads, relations = table.rows(a).requires_grad_(), model.relations.detach()[r].requires_grad_()
    q = model.form.query(heads, model.unfold(relations, r))
    ends = torch.tensor([answer.h, answer.t], device=model.device)
    same_relation = r % model.n_relations == answer.r
    of_tails, of_queries = -(b[:, None] == ends).to(heads.dtype), -table.rows(b)
    if competitors:
        likely, mean = _competitors(model, q.detach(), ends, (a[:, None] == ends).any(dim=1) | same_relation)
        of_tails, of_queries = of_tails + likely, of_queries + mean
    of_heads, of_relations = torch.autograd.grad(q, (heads, relations), of_queries)
    rows = (a[:, None] == ends)[:, :, None] * of_heads[:, None] + of_tails[:, :, None] * q.detach()[:, None]
    rows = rows[:n] + rows[n:]
    if answer.h == answer.t:
        rows[:, 1] = 0
    of_relations *= same_relation[:, None]
    return Gradients(rows[:, 0], rows[:, 1], of_relations[:n], of_relations[n:])


def _competitors(model: Model, q: Tensor, ends: Tensor, needed: Tensor) -> tuple[Tensor, Tensor]:
    """Per query the probabilities (B, 2) of head and tail, and the expected tail row (B, width), 0 if not needed."""
    table = model.entities.all_rows()
    size = model.questions_at_once()
    likely, mean = q.new_empty(len(q), len(ends)), torch.zeros_like(q)
    for part in torch.split(torch.arange(len(q), device=q.device), size):
        p = torch.softmax(q[part] @ table.T, dim=1)
        likely[part] = p[:, ends]
        chosen = needed[part]
        mean[part[chosen]] = p[chosen] @ table
    return likely, mean


def _closest(model: Model, facts: Ids, numbers: Ids, answer: AnsweredFact, most: int) -> Ids:
    """At most `most` facts, those whose score gradients have the largest inner products with the answer's."""
    if len(numbers) <= most:
        return numbers
    rows = fact_gradients(model, np.concatenate([answer.fact, facts[numbers]]), answer, competitors=False)
    alike = torch.stack([part[1:] @ part[0] for part in rows]).sum(dim=0)
    best: Ids = torch.topk(alike, most).indices.cpu().numpy()
    return numbers[np.sort(best)]
