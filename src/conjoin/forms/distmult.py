"""DistMult: the query is the product of head and relation, coordinate by coordinate, in real numbers."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from conjoin.forms.base import Form


@dataclass(frozen=True, kw_only=True)
class DistMult(Form):
    """q = r h. The rank counts real coordinates."""

    def query(self, heads: Tensor, unfolded: Tensor) -> Tensor:
        return heads * unfolded

    @property
    def factor_names(self) -> tuple[str, ...]:
        return (*super().factor_names, "head_relation", "tail_relation")

    def factor(self, name: str, heads: Tensor, unfolded: Tensor, tails: Tensor, query: Tensor) -> Tensor:
        products = {"head_relation": query, "tail_relation": tails * unfolded}
        return products[name].square() if name in products else super().factor(name, heads, unfolded, tails, query)

    @property
    def heads_as_tails(self) -> bool:
        return True
