"""TransH: a relation is a plane and a move within it; head and tail are projected on the plane."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from conjoin.forms.base import Form
from conjoin.forms.link import HYPERPLANE, Link
from conjoin.forms.planar import TINY


@dataclass(frozen=True, kw_only=True)
class TransH(Form):
    """score = -|(h - (w·h) w) + d - (t - (w·t) w)|² with |w| = 1. A relation row holds d, then w of any length.

    The tail's side depends on the relation: a query row holds the moved head and w.
    """

    @property
    def link(self) -> Link:
        return HYPERPLANE

    def relation_width(self, rank: int) -> int:
        return 2 * rank

    def unfold(self, relations: Tensor, shared: object = None) -> tuple[Tensor, Tensor]:  # noqa: ARG002
        """The move d and the unit normal w, (B, rank) each."""
        move, normal = relations.chunk(2, dim=-1)
        return move, normal / torch.sqrt(normal.square().sum(dim=-1, keepdim=True) + TINY)

    def query(self, heads: Tensor, unfolded: tuple[Tensor, Tensor]) -> Tensor:
        move, normal = unfolded
        along = (normal * heads).sum(dim=-1, keepdim=True)
        return torch.cat([heads - along * normal + move, normal], dim=-1)

    def factor(self, name: str, heads: Tensor, unfolded: tuple[Tensor, Tensor], tails: Tensor, query: Tensor) -> Tensor:
        """The factor of a relation is its move; the normal has length 1."""
        return unfolded[0].square() if name == "relation" else super().factor(name, heads, unfolded, tails, query)

    @property
    def heads_as_tails(self) -> bool:
        return True
