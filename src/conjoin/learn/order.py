"""In which order an epoch goes through its questions."""

from __future__ import annotations

import torch
from torch import Tensor


def order_of(queries: Tensor, together: int, source: torch.Generator) -> Tensor:
    """A random order of the questions (M, 3), as their numbers (M,).

    With `together` > 1 it is an order of groups: up to so many examples that ask the same (head, relation) stand side
    by side. Which examples form a group, and where the groups stand, is drawn anew each time.

    >>> queries = torch.tensor([[0, 0, 1], [2, 0, 1], [0, 0, 3], [2, 0, 3]])
    >>> queries[order_of(queries, 2, torch.Generator().manual_seed(0)), 0].tolist() in ([0, 0, 2, 2], [2, 2, 0, 0])
    True
    """
    order = torch.randperm(len(queries), generator=source, device="cpu")
    if together == 1 or not len(order):
        return order
    asked = queries[:, 0].long() * (int(queries[:, 1].max()) + 1) + queries[:, 1].long()
    asked = asked.cpu()
    by_question = order[torch.argsort(asked[order], stable=True)]
    _, count = torch.unique_consecutive(asked[by_question], return_counts=True)
    first = torch.repeat_interleave(count.cumsum(0) - count, count)
    begins = (torch.arange(len(order), device="cpu") - first) % together == 0
    group = begins.cumsum(0) - 1
    place = torch.randperm(int(group[-1]) + 1, generator=source, device="cpu")
    return by_question[torch.argsort(place[group], stable=True)]
