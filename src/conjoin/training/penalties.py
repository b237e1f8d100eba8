"""Penalties: the only place for formulas that keep the factors of a fact small.

A penalty sums powers of the moduli of factors over coordinates and takes the mean over a batch. A form gives the
factors by name (`Form.factors`): "head", "relation", "tail", and if the query is a product also "head_relation" and
"tail_relation". The fused kernels repeat n3 and f2 (kernels/query_kernels.py), because Triton cannot call Python.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from conjoin.errors import FormError, UsageError
from conjoin.forms.base import Form, sum_of

if TYPE_CHECKING:
    from conjoin.training.objective import Batch

FACTORS = ("head", "relation", "tail")
"""The factors that every form has."""


@dataclass(frozen=True)
class Penalty:
    """Σ scale · |factor|^power over the named factors and their coordinates; called with a batch, the mean of it.

    >>> cubic = Penalty(power=3, factors={"head": 1.0, "tail": 2.0})
    >>> cubic.per_example({"head": torch.full((5, 2), 4.0), "tail": torch.ones(5, 2)})[0].item()
    20.0
    """

    power: float
    factors: Mapping[str, float]

    def __post_init__(self) -> None:
        if not 2 <= self.power <= 8:
            raise UsageError(f"power = {self.power} is not possible for a penalty. Choose a power from 2 to 8.")

    def per_example(self, squared: Mapping[str, Tensor]) -> Tensor:
        """(B,) from the squared moduli (B, k) of the factors by name; differentiable."""
        return sum_of([scale * squared[name].pow(self.power / 2).sum(dim=1) for name, scale in self.factors.items()])

    def __call__(self, batch: Batch) -> Tensor:
        return self.per_example(batch.squared_moduli(tuple(self.factors))).mean()

    def obstacle(self, form: Form, rank: int) -> str | None:  # noqa: ARG002
        """The reason why the form cannot give a factor, or None."""
        try:
            form.check_factors(self.factors)
        except FormError as error:
            return str(error)
        return None


N3 = Penalty(power=3, factors={"head": 1.0, "relation": 1.0, "tail": 1.0})
F2 = Penalty(power=2, factors={"head": 1.0, "relation": 1.0, "tail": 1.0})
DURA = Penalty(power=2, factors={"head": 1.0, "tail": 1.0, "head_relation": 1.0, "tail_relation": 1.0})
DURA_W = Penalty(power=2, factors={"head": 0.5, "tail": 0.5, "head_relation": 1.5, "tail_relation": 1.5})

PENALTIES: Mapping[str, Penalty] = MappingProxyType({"n3": N3, "f2": F2, "dura": DURA, "dura-w": DURA_W})


@dataclass(frozen=True)
class FactorPenalty:
    """n3 · N3 + f2 · F2 with its slopes, without a graph: the two penalties that every step computes in one sweep.

    The slope of |z|³ by |z|² is 1.5 |z|, that of |z|² is 1. The methods differ in the order of their operations, which
    decides about the last bit: a step keeps the order that it had when the published runs were trained.
    """

    n3: float = 0.0
    f2: float = 0.0

    def __bool__(self) -> bool:
        return bool(self.n3 or self.f2)

    @property
    def name(self) -> str:
        return " + ".join(name for name, weight in self._weights.items() if weight) or "n3"

    @property
    def _weights(self) -> dict[str, float]:
        return {"n3": self.n3, "f2": self.f2}

    def per_example(self, squared: Mapping[str, Tensor]) -> Tensor:
        """(B,) from the squared moduli (B, k) of head, relation and tail; differentiable. The reference."""
        weighted = [weight * PENALTIES[name].per_example(squared) for name, weight in self._weights.items() if weight]
        return sum_of(weighted) if weighted else torch.zeros_like(squared["head"][:, 0])

    def of_batch(self, squared: Iterable[Tensor]) -> tuple[Tensor, list[Tensor]]:
        """The mean over a batch and its derivatives by the squared moduli, each (B, k)."""
        factors = list(squared)
        batch = len(factors[0])
        moduli = [factor.sqrt() for factor in factors]
        slopes = [modulus * (1.5 * self.n3 / batch) + self.f2 / batch for modulus in moduli]
        pairs = zip(factors, moduli, strict=True)
        cubes = [torch.dot(factor.reshape(-1), modulus.reshape(-1)) for factor, modulus in pairs]
        cost = torch.stack(cubes).sum() * (self.n3 / batch)
        if self.f2:
            cost = cost + torch.stack([factor.sum() for factor in factors]).sum() * (self.f2 / batch)
        return cost, slopes

    def of_shares(self, squared: Tensor, share: Tensor | float) -> tuple[Tensor, Tensor]:
        """Σ share · penalty over one factor (n, k), and its derivative by it. `share` is a part of the batch: one for
        each row (n,), or the same for all."""
        scale = share[:, None] if isinstance(share, Tensor) else share
        slope = squared.sqrt().mul_(scale)
        cost = torch.dot(slope.reshape(-1), squared.reshape(-1)) * self.n3
        slope.mul_(1.5 * self.n3)
        if self.f2:
            cost = cost + (squared * scale).sum() * self.f2
            slope.add_(scale, alpha=self.f2)
        return cost, slope

    def of_rows(self, rows: Tensor, share: Tensor | float, *, planes: int) -> Tensor:
        """The same for rows (n, planes · k), which become its gradient in place: d|z|² is 2 z. Complex rows have two
        planes, real ones one."""
        parts = rows.view(len(rows), planes, -1)
        cost, slope = self.of_shares(parts.square().sum(dim=1), share)
        parts.mul_(slope.mul_(2)[:, None])
        return cost
