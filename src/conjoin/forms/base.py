"""Forms: what a relation is and does. A variant is a value.

A form has named slots, complex vectors that together make a relation. A slot is stored (it owns numbers) or tied
(derived from a stored slot). Parameter count, initialisation and regulariser follow from the value.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from functools import cached_property
from numbers import Integral
from typing import ClassVar, final

import torch
from torch import Tensor

from conjoin.errors import FormError, did_you_mean
from conjoin.forms.planar import TINY, Z
from conjoin.forms.ties import Tie

Slots = Mapping[str, Z]
MOST_COORDINATES = 2**31 - 1


@dataclass(frozen=True, kw_only=True)
class Form(ABC):
    """The base of the families. Subclasses declare slots as fields of type `Tie | None` and options as other fields.

    An entity is a complex vector of `rank` coordinates, 2·rank reals, for every form. Rows hold the real parts of all
    coordinates, then the imaginary ones.

    >>> from conjoin.forms.five_star import FiveStar
    >>> form = FiveStar(c=Tie("a"), d=Tie("b"))
    >>> isinstance(form, Form), form.family, form.stored, str(form.ties["c"]), form.options["quotient"]
    (True, 'FiveStar', ('a', 'b'), 'a', 'phase')
    >>> form.check_rank(3)
    >>> form.slot_width(3), form.reals(3), form.heads_as_tails
    (3, 12, True)
    >>> heads, tails, relations = torch.ones(5, 6), torch.ones(5, 6), torch.ones(5, form.reals(3))
    >>> slots = form.unfold(relations)
    >>> form.query(heads, slots).shape, form.apply(form.head(heads), slots).re.shape
    (torch.Size([5, 6]), torch.Size([5, 3]))
    >>> [m.shape for m in form.squared_moduli(heads, slots, tails)], form.squared_modulus(slots)[0, 0].item()
    ([torch.Size([5, 3]), torch.Size([5, 3]), torch.Size([5, 3])], 8.0)
    """

    SLOTS: ClassVar[tuple[str, ...]]
    CHOICES: ClassVar[Mapping[str, tuple[str, ...]]]
    HALVES: ClassVar[bool]

    def __post_init__(self) -> None:
        for slot, tie in self.ties.items():
            self._check_tie(slot, tie)
        if not self.stored:
            raise FormError(
                f"{self.family} needs at least one stored slot: leave one of {', '.join(self.SLOTS)} untied"
            )
        for option, value in self.options.items():
            if value not in self.CHOICES[option]:
                known = ", ".join(self.CHOICES[option])
                hint = did_you_mean(str(value), self.CHOICES[option])
                raise FormError(f"{option}={value} is not an option of {self.family}; choose from {known}.{hint}")

    def _check_tie(self, slot: str, tie: Tie) -> None:
        if tie.slot is None or tie.slot in self.stored:
            return
        if tie.slot == slot:
            raise FormError(f"slot {slot} is tied to itself: leave it out to store it")
        if tie.slot in self.ties:
            raise FormError(f"{slot}={tie} refers to {tie.slot}, which is tied too: tie {slot} to a stored slot")
        known = ", ".join(self.SLOTS)
        raise FormError(f"{slot}={tie} refers to an unknown slot; the slots of {self.family} are {known}")

    @property
    def family(self) -> str:
        """The name of the formula."""
        return type(self).__name__

    @cached_property
    def ties(self) -> dict[str, Tie]:
        """The derived slots and how."""
        return {slot: tie for slot in self.SLOTS if (tie := getattr(self, slot)) is not None}

    @cached_property
    def stored(self) -> tuple[str, ...]:
        """The slots that own numbers."""
        return tuple(slot for slot in self.SLOTS if getattr(self, slot) is None)

    @property
    def options(self) -> dict[str, str]:
        """The choices that are not ties, by name."""
        return {option: getattr(self, option) for option in self.CHOICES}

    def __str__(self) -> str:
        """`Family(slot=expr, …, option=value)` with the defaults left out; `parse` is its inverse."""
        defaults = {f.name: f.default for f in fields(self) if f.default is not MISSING}
        ties = [f"{slot}={tie}" for slot, tie in self.ties.items()]
        options = [f"{name}={value}" for name, value in self.options.items() if value != defaults[name]]
        return f"{self.family}({', '.join(ties + options)})"

    def check_rank(self, rank: int) -> None:
        """Refuse ranks that this form cannot have."""
        whole: type = Integral
        if not isinstance(rank, whole) or isinstance(rank, bool):
            raise FormError(f"rank = {rank!r} should be a whole number")
        if rank < 1:
            raise FormError(f"rank {rank} is too small: a rank is at least 1")
        if rank > MOST_COORDINATES:
            raise FormError(f"that rank is too large: a rank is at most {MOST_COORDINATES}")
        if self.HALVES and rank % 2:
            raise FormError(f"{self.family} splits an entity in halves: use an even rank, such as {rank + 1}")

    def slot_width(self, rank: int) -> int:
        """Complex coordinates of one slot."""
        return rank // 2 if self.HALVES else rank

    def reals(self, rank: int) -> int:
        """Numbers that one relation owns."""
        return 2 * len(self.stored) * self.slot_width(rank)

    def unfold(self, rows: Tensor) -> Slots:
        """All slots, as used in the query, from the stored rows of shape (B, reals)."""
        stored = Z.of_row(rows)
        parts = zip(
            self.stored,
            stored.re.chunk(len(self.stored), dim=-1),
            stored.im.chunk(len(self.stored), dim=-1),
            strict=True,
        )
        return self._derive({slot: Z(re, im) for slot, re, im in parts})

    def _derive(self, stored: dict[str, Z]) -> Slots:
        return {slot: self.ties[slot].derive(stored) if slot in self.ties else stored[slot] for slot in self.SLOTS}

    def query(self, heads: Tensor, slots: Slots) -> Tensor:
        """The query rows (B, 2·rank): the score of tail t is the dot product of the query with t's row."""
        return self.apply(self.head(heads), slots).row()

    @final
    def squared_moduli(self, heads: Tensor, slots: Slots, tails: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """|h|², m² and |t|² of every coordinate, each (B, rank): what a regulariser sees."""
        return self.head(heads).squared(), self.squared_modulus(slots), Z.of_row(tails).squared()

    def factors(
        self,
        names: Sequence[str],
        heads: Tensor,
        unfolded: Slots,
        tails: Tensor,
        query: Tensor,  # noqa: ARG002 (forms whose query is a product read it)
    ) -> dict[str, Tensor]:
        """The squared moduli (B, k) of factors by name; FormError for a factor that the form does not have."""
        known = {
            "head": lambda: self.head(heads).squared(),
            "relation": lambda: self.squared_modulus(unfolded),
            "tail": lambda: Z.of_row(tails).squared(),
        }
        for name in names:
            if name not in known:
                raise FormError(
                    f"{self.family} has no factor {name}: its query is not a product of a head and a relation. "
                    f"It has {', '.join(known)}."
                )
        return {name: known[name]() for name in names}

    def head(self, rows: Tensor) -> Z:
        """How entities' rows (B, 2·rank) are read when they stand at the head."""
        return Z.of_row(rows)

    @property
    def heads_as_tails(self) -> bool:
        """Are heads read as their rows are stored, as tails are? No for a form with a `head` of its own, unless it says
        otherwise."""
        return type(self).head is Form.head

    @abstractmethod
    def apply(self, h: Z, slots: Slots) -> Z:
        """The query q of head h: score(t) = Re Σ q_j conj(t_j)."""

    @abstractmethod
    def squared_modulus(self, slots: Slots) -> Tensor:
        """m² of the unfolded relation, (B, rank). A shared slot counts as often as it is used."""


def normalised(slots: Slots) -> Slots:
    """The 2 × 2 matrix of every coordinate scaled to Frobenius norm √2, the norm of the identity."""
    norm = torch.sqrt(sum_of([z.squared() for z in slots.values()]) + TINY)
    return {slot: z.scaled(math.sqrt(2) / norm) for slot, z in slots.items()}


def sum_of(terms: list[Tensor]) -> Tensor:
    """The sum of at least one tensor."""
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total
