"""Counting on a GPU: how many entities score above each target and how many the same, the filter applied."""

# ruff: noqa: PLR0917

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

SPAN = 8192
"""Columns that one program counts."""


@triton.jit
def _count(
    scores, t, better, tied, bad, entities, stride,
    SPAN: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0)
    line = scores + row.to(tl.int64) * stride
    target = tl.load(line + tl.load(t + row))
    above = tl.zeros((BLOCK,), tl.int32)
    equal = tl.zeros((BLOCK,), tl.int32)
    broken = tl.zeros((BLOCK,), tl.int32)
    for first in range(0, SPAN, BLOCK):
        columns = tl.program_id(1) * SPAN + first + tl.arange(0, BLOCK)
        inside = columns < entities
        score = tl.load(line + columns, mask=inside, other=0.0)
        above += (inside & (score > target)).to(tl.int32)
        equal += (inside & (score == target)).to(tl.int32)
        broken += (score - score != 0.0).to(tl.int32)
    tl.atomic_add(better + row, tl.sum(above, axis=0))
    tl.atomic_add(tied + row, tl.sum(equal, axis=0))
    failures = tl.sum(broken, axis=0)
    if failures > 0:
        tl.atomic_add(bad, failures)


@triton.jit
def _uncount(
    scores, t, question, entity, better, tied, candidates, pairs, stride,
    BLOCK: tl.constexpr,
):  # fmt: skip
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < pairs
    row = tl.load(question + at, mask=inside, other=0)
    column = tl.load(entity + at, mask=inside, other=0)
    answer = tl.load(t + row, mask=inside, other=0)
    line = scores + row.to(tl.int64) * stride
    target = tl.load(line + answer, mask=inside, other=0.0)
    score = tl.load(line + column, mask=inside, other=0.0)
    hidden = inside & (column != answer)
    tl.atomic_add(better + row, -(score > target).to(tl.int32), mask=hidden & (score > target))
    tl.atomic_add(tied + row, -(score == target).to(tl.int32), mask=hidden & (score == target))
    tl.atomic_add(candidates + row, (hidden).to(tl.int32) * -1, mask=hidden)


def count(scores: Tensor, t: Tensor, hidden: tuple[Tensor, Tensor], entities: int) -> tuple[Tensor, ...] | None:
    """Better, tied and competing entities per row of scores (B, at least `entities`); None where a score is not finite.

    Whole numbers are added atomically: their sum does not depend on the order.
    """
    question, entity = hidden
    better, tied, candidates = (
        torch.full((len(t),), start, dtype=torch.int32, device=t.device) for start in (0, -1, entities)
    )
    bad = torch.zeros((), dtype=torch.int32, device=t.device)
    span = min(SPAN, triton.next_power_of_2(entities))
    block = min(1024, span)
    _count[(len(t), -(-entities // span))](
        scores, t, better, tied, bad, entities, scores.stride(0), SPAN=span, BLOCK=block
    )
    if len(question):
        _uncount[(-(-len(question) // 256),)](
            scores, t, question, entity, better, tied, candidates, len(question), scores.stride(0), BLOCK=256
        )
    return None if int(bad) else (better.long(), tied.long(), candidates.long())
