"""ComplEx: the form whose query is the product of head and relation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import Tensor

from conjoin.forms.base import Form, Slots
from conjoin.forms.planar import Z
from conjoin.forms.ties import Tie


@dataclass(frozen=True, kw_only=True)
class ComplEx(Form):
    """q = (a1 | a2) h. `layout=published` reads heads as the paper's code does, tails as everyone does."""

    a1: Tie | None = None
    a2: Tie | None = None
    layout: Literal["proper", "published"] = "proper"

    SLOTS = ("a1", "a2")
    CHOICES: ClassVar = {"layout": ("proper", "published")}
    HALVES = True

    def head(self, rows: Tensor) -> Z:
        if self.layout == "proper":
            return Z.of_row(rows)
        re1, im1, re2, im2 = rows.chunk(4, dim=-1)
        return Z.joined(Z(re1, im1), Z(re2, im2))

    @property
    def heads_as_tails(self) -> bool:
        return self.layout == "proper" and type(self).head is ComplEx.head

    def apply(self, h: Z, slots: Slots) -> Z:
        return Z.joined(slots["a1"], slots["a2"]) * h

    def squared_modulus(self, slots: Slots) -> Tensor:
        return Z.joined(slots["a1"], slots["a2"]).squared()

    def factors(
        self, names: Sequence[str], heads: Tensor, unfolded: Slots, tails: Tensor, query: Tensor
    ) -> dict[str, Tensor]:
        products = {
            "head_relation": lambda: Z.of_row(query).squared(),
            "tail_relation": lambda: Z.of_row(tails).squared() * self.squared_modulus(unfolded),
        }
        usual = super().factors([name for name in names if name not in products], heads, unfolded, tails, query)
        return {name: usual[name] if name in usual else products[name]() for name in names}
