"""The objective of training: a sum of named terms, as a differentiable formula and as one backward pass.

"nll" is the mean cross-entropy of the tails over all entities. "n3" and "f2" are penalties that each step computes in
one sweep (`FactorPenalty`). Every other term is a function of the batch's rows: see `Term`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any, Protocol

import torch
from torch import Tensor

from conjoin.errors import UsageError
from conjoin.forms.base import Form
from conjoin.model.model import Model
from conjoin.model.padding import add_rows, pad_rows
from conjoin.training.penalties import FACTORS, FactorPenalty, Penalty
from conjoin.training.recipe import Recipe
from conjoin.training.terms import load_term


@dataclass(frozen=True)
class Batch:
    """Examples (h, r, t) and their rows, differentiable: `heads` and `tails` (B, entity width), `relations` (B,
    relation width). Reciprocal relations are those from n_relations on."""

    model: Model
    h: Tensor
    r: Tensor
    t: Tensor
    heads: Tensor
    relations: Tensor
    tails: Tensor

    @classmethod
    def of(cls, model: Model, h: Tensor, r: Tensor, t: Tensor) -> Batch:
        """A batch whose rows are leaves of a graph: `backward` leaves gradients in their .grad."""
        ends = model.entities.rows(torch.cat([h, t]))
        heads, tails = ends[: len(h)].requires_grad_(), ends[len(h) :].requires_grad_()
        for parameter in model.shared.parameters() if model.shared is not None else ():
            buffer_of(parameter).zero_()
        rows = model.relations.detach()[model.relation_places(r)].requires_grad_()
        return cls(model, h, r, t, heads, rows, tails)

    @property
    def form(self) -> Form:
        return self.model.form

    @cached_property
    def unfolded(self) -> Any:
        """The unfolded relations of the batch (`Form.unfold`)."""
        return self.model.unfold(self.relations, self.r)

    @cached_property
    def query(self) -> Tensor:
        """The queries (B, query width)."""
        return self.form.query(self.heads, self.unfolded)

    @cached_property
    def relation_table(self) -> Tensor:
        """The stored rows of all relations, (form.relation_rows, relation width), as a separate leaf."""
        return self.model.relations.detach().requires_grad_()

    @cached_property
    def every_relation(self) -> Any:
        """All relations and reciprocals unfolded (`Form.unfold`), from `relation_table`."""
        every = torch.arange(2 * self.model.n_relations, device=self.r.device)
        return self.model.unfold(self.relation_table[self.model.relation_places(every)], every)

    def add_table_gradient(self, gradient: Tensor) -> None:
        """Add the gradient of `relation_table` to `gradient`, if a term has used the table."""
        if "relation_table" in vars(self) and self.relation_table.grad is not None:
            gradient.add_(self.relation_table.grad)

    def squared_moduli(self, names: Sequence[str] = FACTORS) -> dict[str, Tensor]:
        """The squared moduli (B, k) of factors by name."""
        return self.form.factors(names, self.heads, self.unfolded, self.tails, self.query)


class Term(Protocol):
    """A summand of the objective. Its weight is that of the recipe.

    On a GPU a step is recorded once and replayed: a term must not read numbers of the batch back into Python.
    """

    def __call__(self, batch: Batch) -> Tensor:
        """The mean over the batch: a scalar, differentiable in the batch's rows and in its relation table."""

    def obstacle(self, form: Form, rank: int) -> str | None:
        """The reason why this term cannot be computed for a form, as a sentence; None if it can."""


@dataclass(frozen=True)
class Objective:
    """What training lowers: cross-entropy + `penalty` + the other terms, each with its weight.

    A step returns one number for each of `names`, weighted as in the sum.

    >>> objective = Objective.of(Recipe(n3=0.05))
    >>> objective.names, dict(objective.weights)
    (('nll', 'n3'), {'nll': 1.0, 'n3': 0.05})
    """

    penalty: FactorPenalty = field(default_factory=FactorPenalty)
    terms: Mapping[str, tuple[float, Term]] = field(default_factory=lambda: MappingProxyType({}))

    @classmethod
    def of(cls, recipe: Recipe) -> Objective:
        """The objective of a recipe."""
        terms = {name: (weight, load_term(name)) for name, weight in recipe.terms.items()}
        return cls(FactorPenalty(recipe.n3, recipe.f2), MappingProxyType(terms))

    def check(self, form: Form, rank: int) -> None:
        """Raise UsageError if a term cannot be computed for the form."""
        for name, (_, term) in self.terms.items():
            if reason := term.obstacle(form, rank):
                raise UsageError(
                    f"The term {name} cannot be used with {form}: {reason} Leave the term out (--term {name})."
                )

    @property
    def names(self) -> tuple[str, ...]:
        """The names of a step's numbers. n3 and f2 are one number, which is 0 without them."""
        return "nll", self.penalty.name, *self.terms

    @property
    def weights(self) -> Mapping[str, float]:
        """The weight of every term."""
        own = {"nll": 1.0, "n3": self.penalty.n3, "f2": self.penalty.f2}
        others = {name: weight for name, (weight, _) in self.terms.items()}
        return {name: weight for name, weight in {**own, **others}.items() if weight}

    def by_name(self, costs: Sequence[float]) -> dict[str, float]:
        """The numbers of a step or an epoch by the names of their terms. Without a penalty its zero is left out."""
        named = dict(zip(self.names, costs, strict=True))
        return named if self.penalty else {name: cost for name, cost in named.items() if name != self.penalty.name}

    def penalties(self, costs: Sequence[float]) -> float:
        """The sum of the terms that are penalties, from the numbers of a step or an epoch."""
        extra = zip(costs[2:], self.terms.values(), strict=True)
        return sum((cost for cost, (_, term) in extra if isinstance(term, Penalty)), start=costs[1])

    @property
    def sees_tails(self) -> bool:
        """Do terms other than the cross-entropy depend on the rows of the tails?"""
        return bool(self.penalty or self.terms)

    def term_costs(self, batch: Batch) -> list[Tensor]:
        """The terms beside cross-entropy, n3 and f2, weighted, as scalars for autograd."""
        return [weight * term(batch) for weight, term in self.terms.values()]

    def backward(self, batch: Batch, nll: Tensor, dq: Tensor) -> Tensor:
        """Leave the gradient of all terms in the batch's leaves and in the relations' .grad, given the mean loss and
        its gradient by the queries; return one number per term."""
        outputs, slopes, cost = [batch.query], [dq], dq.new_zeros(())
        if self.penalty:
            squared = list(batch.squared_moduli().values())
            cost, gradients = self.penalty.of_batch([factor.detach() for factor in squared])
            pairs = [pair for pair in zip(squared, gradients, strict=True) if pair[0].requires_grad]
            outputs += [factor for factor, _ in pairs]
            slopes += [gradient for _, gradient in pairs]
        terms = self.term_costs(batch)
        torch.autograd.backward([*outputs, *terms], [*slopes, *map(torch.ones_like, terms)])
        relation_gradient(batch.model, batch)
        return torch.stack([nll, cost, *(term.detach() for term in terms)])


def relation_gradient(model: Model, batch: Batch) -> None:
    """Leave the relations' gradient in .grad, from the leaves of a batch."""
    gradient = buffer_of(model.relations)
    gradient.zero_()
    add_rows(gradient, model.relation_places(batch.r), gradient_of(batch.relations))
    batch.add_table_gradient(gradient)


def loss(model: Model, h: Tensor, r: Tensor, t: Tensor, recipe: Recipe, *, weight: Tensor | None = None) -> Tensor:
    """The objective of a batch of queries (h, r, ?) with targets t, as a scalar for autograd. `weight` (B,), with the
    sum 1, weighs the cross-entropy of the examples."""
    objective, entities = Objective.of(recipe), model.entities
    batch = Batch(model, h, r, t, entities(h), model.relations[model.relation_places(r)], entities(t))
    vars(batch)["relation_table"] = model.relations
    nll = entities.nll(batch.query, t, weight)
    penalty = objective.penalty.per_example(batch.squared_moduli()).mean()
    return sum(objective.term_costs(batch), start=nll + penalty)


def buffer_of(parameter: torch.nn.Parameter) -> Tensor:
    """The parameter's gradient, created as zeros if it is None."""
    if parameter.grad is None:
        parameter.grad = pad_rows(torch.zeros_like(parameter))
    return parameter.grad


def gradient_of(leaf: Tensor) -> Tensor:
    """The gradient of a leaf after a backward pass; zeros if nothing depends on it."""
    return torch.zeros_like(leaf) if leaf.grad is None else leaf.grad
