"""ComplEx: the form whose query is the product of head and relation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import Tensor

from conjoin.forms.planar import Z
from conjoin.forms.tied import Slots, TiedForm
from conjoin.forms.ties import Tie


@dataclass(frozen=True, kw_only=True)
class ComplEx(TiedForm):
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

    def apply_backwards(self, t: Z, slots: Slots) -> Z:
        return Z.joined(slots["a1"], slots["a2"]).conj() * t

    def squared_modulus(self, slots: Slots) -> Tensor:
        return Z.joined(slots["a1"], slots["a2"]).squared()
