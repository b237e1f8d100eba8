"""5★E: the form whose relations are Möbius maps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from conjoin.errors import FormError
from conjoin.forms.base import sum_of
from conjoin.forms.planar import Z
from conjoin.forms.tied import Slots, TiedForm, normalised
from conjoin.forms.ties import Tie


@dataclass(frozen=True, kw_only=True)
class FiveStar(TiedForm):
    """top = a h + b, down = c h + d, and three readings of their quotient.

    phase    q = conj(top) · down / |down|, what the published experiments computed.
    aligned  q = top · conj(down) / |down|, the same without the conjugation.
    mobius   q = top / down as printed. Scaling a relation changes nothing, so the stored diagonal is the deviation
             from the identity, the matrix has Frobenius norm √2, the denominator is |down|² + 0.001, and the
             penalty sees the stored slots off the diagonal.
    """

    a: Tie | None = None
    b: Tie | None = None
    c: Tie | None = None
    d: Tie | None = None
    quotient: Literal["phase", "mobius", "aligned"] = "phase"
    penalty: Literal["full", "half"] = "full"

    SLOTS = ("a", "b", "c", "d")
    CHOICES: ClassVar = {"quotient": ("phase", "mobius", "aligned"), "penalty": ("full", "half")}
    HALVES = False
    DENOMINATOR = 1e-3

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.quotient == "mobius" and self.penalty == "half":
            raise FormError("penalty=half does not go with quotient=mobius. Use quotient=phase or aligned.")

    def _derive(self, stored: dict[str, Z]) -> Slots:
        if self.quotient != "mobius":
            return super()._derive(stored)
        shifted = {slot: Z(z.re + 1, z.im) if slot in ("a", "d") else z for slot, z in stored.items()}
        return normalised(super()._derive(shifted))

    def apply(self, h: Z, slots: Slots) -> Z:
        top = slots["a"] * h + slots["b"]
        down = slots["c"] * h + slots["d"]
        if self.quotient == "mobius":
            return (top * down.conj()).scaled(1 / (down.squared() + self.DENOMINATOR))
        turned = top.conj() * down if self.quotient == "phase" else top * down.conj()
        return turned.scaled(1 / down.modulus())

    def squared_modulus(self, slots: Slots) -> Tensor:
        if self.penalty == "half":
            return 4 * sum_of([z.re * z.re for z in slots.values()])
        if self.quotient == "mobius":
            free = [slots[slot].squared() for slot in ("b", "c") if slot in self.stored]
            return sum_of(free) if free else torch.zeros_like(slots["a"].re)
        return sum_of([z.squared() for z in slots.values()])
