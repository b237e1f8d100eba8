"""Pair: the form whose relations act on pairs of complex numbers; quaternions are a special case."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from conjoin.forms.planar import Z
from conjoin.forms.tied import Slots, TiedForm, normalised
from conjoin.forms.ties import Tie


@dataclass(frozen=True, kw_only=True)
class Pair(TiedForm):
    """Entities in pairs of complex coordinates: q = (a h1 + b h2 | c h1 + d h2).

    With c = -conj(b), d = conj(a) this is the Hamilton product of QuatE; `unit=true` divides the block by its norm.
    """

    a: Tie | None = None
    b: Tie | None = None
    c: Tie | None = None
    d: Tie | None = None
    unit: Literal["false", "true"] = "false"

    SLOTS = ("a", "b", "c", "d")
    CHOICES: ClassVar = {"unit": ("false", "true")}
    HALVES = True

    def _derive(self, stored: dict[str, Z]) -> Slots:
        slots = super()._derive(stored)
        return normalised(slots) if self.unit == "true" else slots

    def apply(self, h: Z, slots: Slots) -> Z:
        h1, h2 = h.halves()
        return Z.joined(slots["a"] * h1 + slots["b"] * h2, slots["c"] * h1 + slots["d"] * h2)

    def apply_backwards(self, t: Z, slots: Slots) -> Z:
        t1, t2 = t.halves()
        a, b, c, d = (slots[slot].conj() for slot in self.SLOTS)
        return Z.joined(a * t1 + c * t2, b * t1 + d * t2)

    def squared_modulus(self, slots: Slots) -> Tensor:
        squared = {slot: z.squared() for slot, z in slots.items()}
        return torch.cat([squared["a"] + squared["b"], squared["c"] + squared["d"]], dim=-1)
