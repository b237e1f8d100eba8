"""The order of an epoch and its queries, in spans."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from conjoin.graph.filter import Ids
from conjoin.graph.graph import reciprocal

CPU_SPAN, GPU_SPAN = 1 << 18, 1 << 22
"""Questions on the device at once, 24 bytes each. Where the graph has no more, they stay there. A CPU has the triples
at hand, and picks faster what fits into its caches."""


def epoch_order(queries: Tensor, group_queries: int, source: torch.Generator) -> Tensor:
    """A random order of the queries with their targets (M, 3), as their numbers (M,).

    With `group_queries` > 1 it is an order of groups: up to that many examples with one (head, relation) stand side by
    side. The examples of a group and the order of the groups are drawn anew each time.

    >>> queries = torch.tensor([[0, 0, 1], [2, 0, 1], [0, 0, 3], [2, 0, 3]])
    >>> queries[epoch_order(queries, 2, torch.Generator().manual_seed(0)), 0].tolist() in ([0, 0, 2, 2], [2, 2, 0, 0])
    True
    """
    order = torch.randperm(len(queries), generator=source, device="cpu")
    if group_queries == 1 or not len(order):
        return order
    asked = queries[:, 0].long() * (int(queries[:, 1].max()) + 1) + queries[:, 1].long()
    asked = asked.cpu()
    by_question = order[torch.argsort(asked[order], stable=True)]
    _, count = torch.unique_consecutive(asked[by_question], return_counts=True)
    first = torch.repeat_interleave(count.cumsum(0) - count, count)
    begins = (torch.arange(len(order), device="cpu") - first) % group_queries == 0
    group = begins.cumsum(0) - 1
    place = torch.randperm(int(group[-1]) + 1, generator=source, device="cpu")
    return by_question[torch.argsort(place[group], stable=True)]


class EpochQueries:
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

    def in_order(self, group_queries: int, source: torch.Generator) -> Tensor:
        """The order of an epoch (`epoch_order`), on the host. Groups of equal questions need all of them at once."""
        asked = torch.empty(len(self), 0)
        if group_queries > 1:
            asked = self._all if self._all is not None else torch.from_numpy(reciprocal(self.triples, self.relations))
        return epoch_order(asked, group_queries, source)

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
