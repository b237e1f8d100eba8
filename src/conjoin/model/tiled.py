"""Softmax cross-entropy on a CPU: tiles of entities that stay in the cache, three products, few sweeps.

Scores of a tile are made, turned into exponentials and used for dq while they are in the cache. They are exponentials
relative to the largest score seen so far, and what they lack is a factor per question; so they are kept as they are,
and the factor is applied to the queries when the gradient of the tile is made. Tiles that the memory limit does not
let us keep are computed again.
"""

from __future__ import annotations

import torch
from torch import Tensor

from conjoin.model.rows import add_rows

CACHED = 1 << 19
"""Numbers of a tile that are worked on together: with 2 MiB products ran at full speed and sweeps in cache,
larger ones lost up to half (docs/decisions/0014-tiles-on-the-cpu.md)."""
GRAIN = 64
"""Rows of a tile come in multiples of this, so that all tiles begin at the same alignment."""


def tile_rows(batch: int, width: int) -> int:
    """Entities of a tile, from sizes alone."""
    return max(GRAIN, CACHED // max(batch, width) // GRAIN * GRAIN)


def tiled_softmax(
    q: Tensor, table: Tensor, t: Tensor, *, out: Tensor, tile: int, kept: Tensor
) -> tuple[Tensor, Tensor]:
    """Negative log-likelihoods (B,) and the gradient of their mean: dq returned, d table written into `out`.

    `kept` is a flat buffer; as many whole tiles of (tile, B) exponentials as it can hold are kept between the passes.
    """
    batch = len(q)
    q_columns = q.T.contiguous()
    tiles = torch.split(table, tile)
    room = kept.numel() // (tile * batch)
    spare = q.new_empty(0 if room >= len(tiles) else tile * batch)
    references: list[Tensor] = []
    reference = torch.full_like(q[:, 0], -torch.inf)
    total, dq = torch.zeros_like(reference), torch.zeros_like(q)
    for number, rows in enumerate(tiles):
        powers = _place(number, room, rows, kept, spare, tile, batch)
        torch.mm(rows, q_columns, out=powers)
        higher = torch.maximum(reference, powers.amax(dim=0))
        powers.sub_(higher).exp_()
        shrink = (reference - higher).exp_()
        total.mul_(shrink).add_(powers.sum(dim=0))
        dq.mul_(shrink[:, None]).addmm_(powers.T, rows)
        references.append(higher)
        reference = higher
    log_total = total.log().add_(reference)
    truth = table[t]
    share = q / batch
    for number, (rows, gradient) in enumerate(zip(tiles, torch.split(out, tile), strict=True)):
        powers = _place(number, room, rows, kept, spare, tile, batch)
        if number >= room:
            torch.mm(rows, q_columns, out=powers)
            powers.sub_(references[number]).exp_()
        torch.mm(powers, share * (references[number] - log_total).exp_()[:, None], out=gradient)
    add_rows(out, t, -share)
    return log_total - (q * truth).sum(dim=1), (dq / total[:, None] - truth) / batch


def _place(number: int, room: int, rows: Tensor, kept: Tensor, spare: Tensor, tile: int, batch: int) -> Tensor:
    """Where the exponentials of a tile lie, (rows of the tile, B)."""
    flat = kept[number * tile * batch :] if number < room else spare
    return flat[: len(rows) * batch].view(len(rows), batch)
