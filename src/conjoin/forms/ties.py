"""A tie: how one slot of a relation is derived from another, so that it owns no numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch

from conjoin.forms.planar import Z


@dataclass(frozen=True)
class Tie:
    """`slot` copied, conjugated and/or negated; no slot means zero.

    >>> str(-conj("b")), str(Tie("a")), str(zero)
    ('-conj(b)', 'a', '0')
    """

    slot: str | None
    conjugated: bool = False
    negated: bool = False

    def __post_init__(self) -> None:
        if self.slot is None:
            object.__setattr__(self, "conjugated", False)
            object.__setattr__(self, "negated", False)

    def __neg__(self) -> Tie:
        return replace(self, negated=not self.negated)

    def __str__(self) -> str:
        if self.slot is None:
            return "0"
        inner = f"conj({self.slot})" if self.conjugated else self.slot
        return f"-{inner}" if self.negated else inner

    def derive(self, stored: Mapping[str, Z]) -> Z:
        """The derived slot's numbers."""
        if self.slot is None:
            pattern = next(iter(stored.values()))
            return Z(torch.zeros_like(pattern.re), torch.zeros_like(pattern.im))
        value = stored[self.slot]
        value = value.conj() if self.conjugated else value
        return -value if self.negated else value


zero = Tie(None)


def conj(slot: str) -> Tie:
    """The conjugate of another slot."""
    return Tie(slot, conjugated=True)
