"""Read scores block by block: the scores of targets, how many entities score higher, and the k best.

A block is the number of its first entity and scores (B, n) of the n entities from there on. Blocks come in order and
cover all entities once. Every scorer counts and chooses with these functions, so that ties mean the same everywhere.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from conjoin.model.softmax import inside

Blocks = Iterable[tuple[int, Tensor]]


def without_targets(hidden: tuple[Tensor, Tensor], t: Tensor) -> tuple[Tensor, Tensor]:
    """The hidden (query, entity) pairs without each query's own target, because the target always competes."""
    query, entity = hidden
    competes = entity != t[query]
    return query[competes], entity[competes]


def read_targets(blocks: Blocks, t: Tensor, out: Tensor) -> Tensor:
    """Fill `out` (B,) with the score of target t (B,) of each query; entries without a block stay as they are."""
    for first, scores in blocks:
        queries, columns = inside(t, first, scores.shape[1])
        out[queries] = scores[queries, columns]
    return out


def count_competitors(blocks: Blocks, target: Tensor, hidden: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """How many entities score higher than `target` (B,), and how many the same, itself included: each (B,), int64.

    Hidden pairs do not count; the blocks are overwritten.
    """
    query, entity = hidden
    better, tied = (torch.zeros_like(target, dtype=torch.long) for _ in range(2))
    exact = torch.promote_types(target.dtype, torch.float32)
    for first, scores in blocks:
        hidden_rows, columns = inside(entity, first, scores.shape[1])
        scores[query[hidden_rows], columns] = -torch.inf
        sign = (scores - target[:, None]).sign_()
        surplus = sign.sum(dim=1, dtype=exact).long()
        unequal = sign.abs_().sum(dim=1, dtype=exact).long()
        better += (surplus + unequal) // 2
        tied += scores.shape[1] - unequal
    return better, tied


def best_of(blocks: Blocks, k: int, hidden: tuple[Tensor, Tensor] | None, like: Tensor) -> tuple[Tensor, Tensor]:
    """The k highest scores of every query and their entities, (B, k), best first, of equal ones the first entity first.

    Hidden pairs score -inf; the blocks are overwritten. `like` (B, …) has the type and device of the scores.
    """
    values, ids = like.new_empty(len(like), 0), torch.empty(len(like), 0, dtype=torch.long, device=like.device)
    for first, scores in blocks:
        if hidden is not None:
            hidden_rows, columns = inside(hidden[1], first, scores.shape[1])
            scores[hidden[0][hidden_rows], columns] = -torch.inf
        top = torch.topk(scores.contiguous(), min(k, scores.shape[1]), dim=1)
        values, ids = torch.cat([values, top.values], dim=1), torch.cat([ids, top.indices + first], dim=1)
        order = values.argsort(dim=1, descending=True, stable=True)[:, :k]
        values, ids = values.gather(1, order), ids.gather(1, order)
    return values, ids
