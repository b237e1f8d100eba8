"""Softmax cross-entropy on a CPU: tiles of entities that stay in the cache, three products, few sweeps.

The scores of a tile become exponentials, and their part of dq, while they are in the cache. The exponentials are
relative to the largest score seen so far: what they lack is one factor per question, which is applied to the queries
when the tile's gradient is made. So nothing is swept twice. Tiles that the memory limit does not let us keep until
then are computed again.
"""

from __future__ import annotations

import torch
from torch import Tensor

from conjoin.model.rows import add_rows

CACHED = 1 << 19
"""Numbers of a tile: with 2 MiB, products run at full speed and sweeps stay in cache; sixteen times as many lost up to
half (docs/decisions/0014-tiles-on-the-cpu.md)."""
GRAIN = 64
"""Rows of a tile come in multiples of this, so that all tiles begin at the same alignment."""


def tile_rows(batch: int, width: int) -> int:
    """Entities of a tile, from sizes alone."""
    return max(GRAIN, CACHED // max(batch, width) // GRAIN * GRAIN)


def tiled_softmax(
    q: Tensor, table: Tensor, t: Tensor, *, out: Tensor, tile: int, scratch: Tensor
) -> tuple[Tensor, Tensor]:
    """Negative log-likelihoods (B,) and the gradient of their mean: dq returned, d table written into `out`.

    `scratch` is a flat buffer for exponentials, (tile, B) each; it holds all tiles, or at least one.
    """
    batch, columns = len(q), q.T.contiguous()
    tiles = torch.split(table, tile)
    everything = scratch.numel() >= len(table) * batch
    kept = len(tiles) if everything else scratch.numel() // (tile * batch) - 1

    def place(number: int) -> Tensor:
        first = min(number, kept) * tile * batch
        rows = len(tiles[number])
        return scratch[first : first + rows * batch].view(rows, batch)

    references: list[Tensor] = []
    reference, total, dq = q.new_full((batch,), -torch.inf), q.new_zeros(batch), torch.zeros_like(q)
    for number, rows in enumerate(tiles):
        powers = place(number)
        torch.mm(rows, columns, out=powers)
        higher = torch.maximum(reference, powers.amax(dim=0))
        powers.sub_(higher).exp_()
        shrink = reference.sub_(higher).exp_()
        total.mul_(shrink).add_(powers.sum(dim=0))
        dq.mul_(shrink[:, None]).addmm_(powers.T, rows)
        references.append(higher)
        reference = higher.clone()
    log_total = total.log().add_(reference)
    share, truth = q / batch, table[t]
    for number, gradient in enumerate(torch.split(out, tile)):
        powers = place(number)
        if number >= kept:
            torch.mm(tiles[number], columns, out=powers)
            powers.sub_(references[number]).exp_()
        factor = (references[number] - log_total).exp_()
        torch.mm(powers, share * factor[:, None], out=gradient)
    add_rows(out, t, -share)
    return log_total - (q * truth).sum(dim=1), dq.div_(total[:, None]).sub_(truth).div_(batch)
