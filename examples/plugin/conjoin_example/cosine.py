"""A link: ten times the cosine of a query row and an entity row."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import normalize

from conjoin.forms.link import Link


class Cosine(Link):
    """The gradient comes from automatic differentiation."""

    name = "cosine"

    def scores(self, q: Tensor, rows: Tensor) -> Tensor:
        return 10 * normalize(q, dim=1) @ normalize(rows, dim=1).T

    def pairs(self, q: Tensor, rows: Tensor) -> Tensor:
        return 10 * torch.cosine_similarity(q, rows, dim=1)


COSINE = Cosine()
