"""The order of an epoch and its queries, in spans."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from conjoin.graph.filter import Ids
from conjoin.graph.graph import reciprocal

CPU_SPAN, GPU_SPAN = 1 << 18, 1 << 22
"""The most queries on the device at once, 24 bytes each. If the graph has fewer, all stay on the device. On a CPU
short spans are faster, because they fit into its caches."""


def epoch_order(queries: Tensor, group_queries: int, source: torch.Generator) -> Tensor:
    """A random permutation (M,) of the queries with their targets (M, 3).

    With `group_queries` = n > 1 groups are permuted: up to n examples with the same (head, relation) are next to each
    other. Each call draws the examples of a group and the order of the groups.

    >>> queries = torch.tensor([[0, 0, 1], [2, 0, 1], [0, 0, 3], [2, 0, 3]])
    >>> queries[epoch_order(queries, 2, torch.Generator().manual_seed(0)), 0].tolist() in ([0, 0, 2, 2], [2, 2, 0, 0])
    True
    """
    order = torch.randperm(len(queries), generator=source, device="cpu")
    if group_queries == 1 or not len(order):
        return order
    key = queries[:, 0].long() * (int(queries[:, 1].max()) + 1) + queries[:, 1].long()
    key = key.cpu()
    by_query = order[torch.argsort(key[order], stable=True)]
    _, count = torch.unique_consecutive(key[by_query], return_counts=True)
    first = torch.repeat_interleave(count.cumsum(0) - count, count)
    begins = (torch.arange(len(order), device="cpu") - first) % group_queries == 0
    group = begins.cumsum(0) - 1
    position = torch.randperm(int(group[-1]) + 1, generator=source, device="cpu")
    return by_query[torch.argsort(position[group], stable=True)]


class EpochQueries:
    """Both directions of the training triples (n, 3) as tail queries, in the order of an epoch.

    If they are more than a span, they stay on the host or in a memory-mapped file. Spans end at the ends of batches, so
    that steps do not depend on the size of a span.
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
        """The order of an epoch (`epoch_order`) as (M,) on the host. To group equal queries it reads all of them."""
        queries = torch.empty(len(self), 0)
        if group_queries > 1:
            queries = self._all if self._all is not None else torch.from_numpy(reciprocal(self.triples, self.relations))
        return epoch_order(queries, group_queries, source)

    def spans(self, order: Tensor, first: int = 0) -> Iterator[tuple[int, Tensor]]:
        """Pairs of a position in the order where a span begins and its queries (m, 3) on the device.

        Spans that end before position `first` are skipped.
        """
        if self._all is not None:
            yield 0, self._all[order.to(self.device)]
            return
        for start in range(first // self.span * self.span, len(order), self.span):
            yield start, torch.from_numpy(self._picked(order[start : start + self.span].numpy())).to(self.device)

    def _picked(self, numbers: Ids) -> Ids:
        """Rows (m, 3) of `reciprocal(triples)`, without computing all of it."""
        count = len(self.triples)
        picked = np.take(self.triples, numbers % count, axis=0)
        turned = np.flatnonzero(numbers >= count)
        picked[turned] = picked[turned, ::-1] + np.array([0, self.relations, 0])
        return picked
