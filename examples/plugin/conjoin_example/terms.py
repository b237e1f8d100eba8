"""A penalty and a loss term, for --term small-tails=WEIGHT and --term neighbours=WEIGHT."""

from __future__ import annotations

from torch import Tensor

from conjoin.forms.base import Form
from conjoin.training.objective import Batch
from conjoin.training.penalties import Penalty

SMALL_TAILS = Penalty(power=4, factors={"tail": 1.0})


class Neighbours:
    """The squared distance of the two ends of a fact."""

    def __call__(self, batch: Batch) -> Tensor:
        return (batch.heads - batch.tails).square().sum(dim=1).mean()

    def obstacle(self, form: Form, rank: int) -> str | None:  # noqa: ARG002
        return None


NEIGHBOURS = Neighbours()
