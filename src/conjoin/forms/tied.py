"""TiedForm: forms whose relations have slots, complex vectors that are stored or tied to a stored one.

Parameter count, initialisation and regulariser follow from the value.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import torch
from torch import Tensor

from conjoin.errors import FormError
from conjoin.forms.base import Form, sum_of
from conjoin.forms.planar import TINY, Z
from conjoin.forms.ties import Tie

Slots = Mapping[str, Z]


@dataclass(frozen=True, kw_only=True)
class TiedForm(Form):
    """The base of the families with ties. Subclasses declare slots as fields of type `Tie | None`, options as others.

    An entity is a complex vector of `rank` coordinates, 2·rank reals. Rows hold the real parts of all coordinates,
    then the imaginary parts.

    >>> from conjoin.forms.five_star import FiveStar
    >>> form = FiveStar(c=Tie("a"), d=Tie("b"))
    >>> form.family, form.stored, str(form.ties["c"]), form.options["quotient"]
    ('FiveStar', ('a', 'b'), 'a', 'phase')
    >>> form.slot_width(3), form.relation_width(3), form.entity_width(3), form.heads_as_tails, form.planes
    (3, 12, 6, True, 2)
    >>> heads, relations = torch.ones(5, 6), torch.ones(5, form.relation_width(3))
    >>> slots = form.unfold(relations)
    >>> form.query(heads, slots).shape, form.apply(form.head(heads), slots).re.shape
    (torch.Size([5, 6]), torch.Size([5, 3]))
    >>> form.squared_modulus(slots)[0, 0].item(), form.factor_names
    (8.0, ('head', 'relation', 'tail'))
    """

    HALVES: ClassVar[bool]

    def __post_init__(self) -> None:
        for slot, tie in self.ties.items():
            self._check_tie(slot, tie)
        if not self.stored:
            raise FormError(
                f"{self.family} needs at least one stored slot. Leave one of {', '.join(self.SLOTS)} untied."
            )
        super().__post_init__()

    def _check_tie(self, slot: str, tie: Tie) -> None:
        if tie.slot is None or tie.slot in self.stored:
            return
        if tie.slot == slot:
            raise FormError(f"The slot {slot} is tied to itself. Leave its tie out to store it.")
        if tie.slot in self.ties:
            raise FormError(f"{slot}={tie} refers to {tie.slot}, which is tied too. Tie {slot} to a stored slot.")
        known = ", ".join(self.SLOTS)
        raise FormError(f"{slot}={tie} refers to an unknown slot. The slots of {self.family} are {known}.")

    @cached_property
    def ties(self) -> dict[str, Tie]:
        """The derived slots and how."""
        return {slot: tie for slot in self.SLOTS if (tie := getattr(self, slot)) is not None}

    @cached_property
    def stored(self) -> tuple[str, ...]:
        """The slots that own numbers."""
        return tuple(slot for slot in self.SLOTS if getattr(self, slot) is None)

    def _items(self) -> list[str]:
        return [f"{slot}={tie}" for slot, tie in self.ties.items()] + super()._items()

    def check_rank(self, rank: int) -> None:
        super().check_rank(rank)
        if self.HALVES and rank % 2:
            raise FormError(f"{self.family} needs an even rank, got {rank}. Use {rank + 1}, for example.")

    def slot_width(self, rank: int) -> int:
        """Complex coordinates of one slot."""
        return rank // 2 if self.HALVES else rank

    def entity_width(self, rank: int) -> int:
        return 2 * rank

    def relation_width(self, rank: int) -> int:
        return 2 * len(self.stored) * self.slot_width(rank)

    def unfold(self, relations: Tensor, shared: Any = None) -> Slots:  # noqa: ARG002
        """All slots, as the query uses them, from the stored rows (B, relation_width)."""
        stored = Z.of_row(relations)
        parts = zip(
            self.stored,
            stored.re.chunk(len(self.stored), dim=-1),
            stored.im.chunk(len(self.stored), dim=-1),
            strict=True,
        )
        return self._derive({slot: Z(re, im) for slot, re, im in parts})

    def _derive(self, stored: dict[str, Z]) -> Slots:
        return {slot: self.ties[slot].derive(stored) if slot in self.ties else stored[slot] for slot in self.SLOTS}

    def query(self, heads: Tensor, unfolded: Slots) -> Tensor:
        """The query rows (B, 2·rank): the score of tail t is the dot product of the query with t's row."""
        return self.apply(self.head(heads), unfolded).row()

    def head(self, rows: Tensor) -> Z:
        """How entities' rows (B, 2·rank) are read at the head."""
        return Z.of_row(rows)

    @property
    def heads_as_tails(self) -> bool:
        """Are heads read as their rows are stored, as tails are? No for a form that overrides `head`, unless it also
        overrides this property."""
        return type(self).head is TiedForm.head

    @property
    def planes(self) -> int:
        return 2

    @property
    def factor_names(self) -> tuple[str, ...]:
        product = type(self).apply_backwards is not TiedForm.apply_backwards
        return ("head", "relation", "tail", "head_relation", "tail_relation")[: 5 if product else 3]

    def factor(self, name: str, heads: Tensor, unfolded: Slots, tails: Tensor, query: Tensor) -> Tensor:
        match name:
            case "head":
                return self.head(heads).squared()
            case "relation":
                return self.squared_modulus(unfolded)
            case "tail":
                return Z.of_row(tails).squared()
            case "head_relation":
                return Z.of_row(query).squared()
            case _:
                return self.apply_backwards(Z.of_row(tails), unfolded).squared()

    @abstractmethod
    def apply(self, h: Z, slots: Slots) -> Z:
        """The query q of head h: score(t) = Re Σ q_j conj(t_j)."""

    def apply_backwards(self, t: Z, slots: Slots) -> Z:  # noqa: ARG002
        """The query asked backwards: score(h) = Re Σ h_j conj(q_j). Only families that are linear in the head have it.

        >>> from conjoin.forms.complex import ComplEx
        >>> one = Z(torch.ones(1, 2), torch.ones(1, 2))
        >>> slots = {"a1": Z(torch.ones(1, 1), torch.zeros(1, 1)), "a2": Z(torch.zeros(1, 1), torch.ones(1, 1))}
        >>> ComplEx().apply_backwards(one, slots).re.tolist()
        [[1.0, 1.0]]
        """
        raise FormError(f"{self.family} is not linear in the head, so that its query cannot be asked backwards.")

    @abstractmethod
    def squared_modulus(self, slots: Slots) -> Tensor:
        """m² of the unfolded relation, (B, rank). A shared slot counts as often as it is used."""


def normalised(slots: Slots) -> Slots:
    """The 2 × 2 matrix of every coordinate scaled to Frobenius norm √2, the norm of the identity."""
    norm = torch.sqrt(sum_of([z.squared() for z in slots.values()]) + TINY)
    return {slot: z.scaled(math.sqrt(2) / norm) for slot, z in slots.items()}
