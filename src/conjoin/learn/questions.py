"""The questions of an epoch, a span at a time, so that what a device holds of them does not grow with the graph."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from conjoin.graph.graph import reciprocal
from conjoin.graph.known import Ids
from conjoin.learn.order import order_of

CPU_SPAN, GPU_SPAN = 1 << 18, 1 << 22
"""Questions on the device at once, 24 bytes each. Where the graph has no more, they stay there. A CPU has the triples
at hand, and picks faster what fits into its caches."""


class Questions:
    """Both directions of the training triples (n, 3) as tail questions, in the order of an epoch.

    More than a span of them stay where the triples are, on the host or in a memory-mapped file. Spans end where
    batches do, so that steps are the same whatever the size of a span.
    """

    def __init__(
        self, triples: Ids, relations: int, *, batch: int, device: torch.device, span: int | None = None
    ) -> None:
        self.triples, self.relations, self.device = triples, relations, device
        span = span or (CPU_SPAN if device.type == "cpu" else GPU_SPAN)
        self.span = max(1, span // batch) * batch
        self._all = torch.from_numpy(reciprocal(triples, relations)).to(device) if len(self) <= span else None

    def __len__(self) -> int:
        return 2 * len(self.triples)

    def in_order(self, together: int, source: torch.Generator) -> Tensor:
        """The order of an epoch (`order_of`), on the host. Groups of equal questions need all of them at once."""
        asked = torch.empty(len(self), 0)
        if together > 1:
            asked = self._all if self._all is not None else torch.from_numpy(reciprocal(self.triples, self.relations))
        return order_of(asked, together, source)

    def spans(self, order: Tensor, first: int = 0) -> Iterator[tuple[int, Tensor]]:
        """Where each span begins in the order, and its questions (m, 3) on the device; those before `first` are left
        out by whole spans."""
        if self._all is not None:
            yield 0, self._all[order.to(self.device)]
            return
        for start in range(first // self.span * self.span, len(order), self.span):
            yield start, torch.from_numpy(self._picked(order[start : start + self.span].numpy())).to(self.device)

    def _picked(self, numbers: Ids) -> Ids:
        """Rows of `reciprocal(triples)`, which is never made."""
        count = len(self.triples)
        picked = np.take(self.triples, numbers % count, axis=0)
        turned = np.flatnonzero(numbers >= count)
        picked[turned] = picked[turned, ::-1] + np.array([0, self.relations, 0])
        return picked
