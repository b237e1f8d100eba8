"""TransE: a relation moves the head, and the score is the negative distance to the tail."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from conjoin.errors import FormError
from conjoin.forms.base import Form
from conjoin.forms.link import Link, LinkNames, link_named


@dataclass(frozen=True, kw_only=True)
class TransE(Form):
    """q = h + r. The rank counts real coordinates.

    distance    the link: l2 as published, l1, or squared. A squared distance under a softmax has no term that joins
                head, relation and tail, so that it is a baseline and not a model of relations; `squared-bias` adds a
                number for each tail.
    """

    distance: str = "l2"

    CHOICES: ClassVar = {"distance": LinkNames()}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.link.query_parts != 1:
            raise FormError(
                f"distance={self.distance} needs {self.link.query_parts} vectors in a query, but TransE has one. "
                "Choose another link."
            )

    @property
    def link(self) -> Link:
        return link_named(self.distance)

    def query(self, heads: Tensor, unfolded: Tensor) -> Tensor:
        return self.link.points(heads) + unfolded
