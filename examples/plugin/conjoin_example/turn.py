"""A family of forms: a relation rotates every coordinate of an entity and keeps its modulus."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from conjoin.forms.planar import Z
from conjoin.forms.tied import Slots, TiedForm
from conjoin.forms.ties import Tie


@dataclass(frozen=True, kw_only=True)
class Turn(TiedForm):
    """q = (a1 h1 / |a1| | a2 h2 / |a2|), h = (h1 | h2)."""

    a1: Tie | None = None
    a2: Tie | None = None

    SLOTS: ClassVar = ("a1", "a2")
    CHOICES: ClassVar = {}
    HALVES: ClassVar = True

    def apply(self, h: Z, slots: Slots) -> Z:
        h1, h2 = h.halves()
        a1, a2 = (slots[name].scaled(1 / slots[name].modulus()) for name in self.SLOTS)
        return Z.joined(a1 * h1, a2 * h2)

    def squared_modulus(self, slots: Slots) -> Tensor:
        return torch.cat([slots["a1"].squared(), slots["a2"].squared()], dim=-1)


TWIN = Turn(a2=Tie("a1"))
"""A form that rotates both halves by the same angle."""
