"""Softmax cross-entropy on a CPU: tiles of entities that stay in the cache, three products, few sweeps.

The scores of a tile become powers, and their part of dq, while they are in the cache. The powers are relative to the
largest score seen so far: what they lack is one factor per question, which is applied to the queries when the tile's
gradient is made. So nothing is swept twice. Where the lengths of queries and rows say that no score is large, powers
are taken as they are, which saves finding the largest. Tiles that the memory limit does not let us keep until then are
computed again.

Powers are those of two, of scores times log₂ e: torch hands exp to a library that is slow at it on some processors, and
the factor costs nothing.

A buffer of bfloat16 makes the two products of the gradients take bfloat16 factors; scores and sums stay as they are.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from conjoin.model.rows import add_rows

CACHED = 1 << 19
"""Numbers of a tile: with 2 MiB, products run at full speed and sweeps stay in cache; sixteen times as many lost up to
half (docs/decisions/0014-tiles-on-the-cpu.md)."""
GRAIN = 64
"""Rows of a tile come in multiples of this, so that all tiles begin at the same alignment."""
LOG2_E = math.log2(math.e)
SAFE = 50.0
"""Scores up to here, of either sign, have exponentials whose sums stay far from the limits of float32, e^±87."""


def tile_rows(batch: int, width: int) -> int:
    """Entities of a tile, from sizes alone."""
    return max(GRAIN, CACHED // max(batch, width) // GRAIN * GRAIN)


def tiled_softmax(
    q: Tensor,
    table: Tensor,
    t: Tensor,
    *,
    out: Tensor,
    tile: int,
    scratch: Tensor,
    place: Tensor | None = None,
    share: Tensor | float | None = None,
) -> tuple[Tensor, Tensor]:
    """Negative log-likelihoods of the targets t (B,) and the gradient of their mean: dq returned, d table in `out`.

    `place` (B,) says which of the queries (Q, w) each target belongs to, `share` (Q,) which part of the targets belongs
    to each query; without them, target and query have the same number. `scratch` is a flat buffer for powers,
    (tile, Q) each; it holds all tiles, or at least one, and its type is that of the gradients' factors.
    """
    batch, columns = len(q), (q * LOG2_E).T
    tiles = torch.split(table, tile)
    everything = scratch.numel() >= len(table) * batch
    kept = len(tiles) if everything else scratch.numel() // (tile * batch) - 1

    rounded = scratch.dtype != q.dtype
    exact = q.new_empty(tile * batch) if rounded else None

    def room_of(number: int) -> Tensor:
        first = min(number, kept) * tile * batch
        rows = len(tiles[number])
        return scratch[first : first + rows * batch].view(rows, batch)

    def scores_of(number: int) -> Tensor:
        room = room_of(number)
        return torch.mm(tiles[number], columns, out=room if exact is None else exact[: room.numel()].view(room.shape))

    small = _longest(q) * _longest(table) <= SAFE
    references: list[Tensor] = []
    reference, total, dq = q.new_full((batch,), 0 if small else -torch.inf), q.new_zeros(batch), torch.zeros_like(q)
    for number, rows in enumerate(tiles):
        powers = scores_of(number)
        if not small:
            higher = torch.maximum(reference, powers.amax(dim=0))
            shrink = (reference - higher).exp2_()
            total.mul_(shrink)
            dq.mul_(shrink[:, None])
            powers.sub_(higher)
            references.append(reference := higher)
        total.add_(powers.exp2_().sum(dim=0))
        if rounded:
            dq.add_(room_of(number).copy_(powers).T @ rows.to(scratch.dtype))
        else:
            dq.addmm_(powers.T, rows)
    scale = ((1 / len(t) if share is None else share) / total)[:, None]
    weighted = q * scale
    for number, gradient in enumerate(torch.split(out, tile)):
        powers = room_of(number)
        if number >= kept:
            again = scores_of(number)
            powers.copy_((again if small else again.sub_(references[number])).exp2_())
        lacking = weighted if small else weighted * (references[number] - reference).exp2_()[:, None]
        if rounded:
            gradient.copy_(powers @ lacking.to(scratch.dtype))
        else:
            torch.mm(powers, lacking, out=gradient)
    log_total = total.log_().add_(reference, alpha=1 / LOG2_E)
    truth = table.index_select(0, t)
    asked = q if place is None else q.index_select(0, place)
    nll = (log_total if place is None else log_total[place]) - (asked * truth).sum(dim=1)
    add_rows(out, t, asked * (-1 / len(t)))
    dq.mul_(scale)
    truth.mul_(-1 / len(t))
    return nll, dq.add_(truth) if place is None else dq.index_add_(0, place, truth)


def _longest(rows: Tensor) -> float:
    return float(torch.linalg.vector_norm(rows, dim=1).max())
