"""Rows of a table: adding into them in an order that never changes, and room behind them for matrix units."""

from __future__ import annotations

import torch
from torch import Tensor

from conjoin.runtime.device import usable_device

GRAIN = 192
"""Tables on a GPU end at a multiple of this: of 64 for matrix units, and of 96 so that equal entities tie. A product
with 40,943 columns took 0.78 ms on an H200, one with 40,960 columns 0.23 ms (bench/gpu_step.py)."""


def add_rows(table: Tensor, ids: Tensor, rows: Tensor) -> None:
    """table[ids[i]] += rows[i], repeated ids included, with the same rounding every time.

    On a GPU plain index_add_ adds in whatever order the threads arrive; index_put_ sorts first. On a CPU it is the
    other way round: index_add_ goes row by row, index_put_ races.
    """
    if table.is_cuda:
        table.index_put_((ids,), rows, accumulate=True)
    else:
        table.index_add_(0, ids, rows)


def pad_rows(rows: Tensor) -> Tensor:
    """The rows, moved on a GPU to memory of their own that goes on with zero rows up to a multiple of GRAIN.

    Rows that stand in such memory already stay there.
    """
    if not rows.is_cuda or (rows.storage_offset() == 0 and len(with_padding(rows)) == -(-len(rows) // GRAIN) * GRAIN):
        return rows
    storage = rows.new_zeros(-(-len(rows) // GRAIN) * GRAIN, rows.shape[1])
    storage[: len(rows)] = rows
    return storage[: len(rows)]


def pad_rows_for(rows: int, width: int, *, dtype: torch.dtype, device: torch.device | str | None) -> Tensor:
    """Rows to be filled, with their room behind them."""
    place = usable_device(device or "cpu")
    length = -(-rows // GRAIN) * GRAIN if place.type == "cuda" else rows
    return torch.zeros(length, width, dtype=dtype, device=place)[:rows]


def with_padding(rows: Tensor) -> Tensor:
    """The rows and the room behind them, where `pad_rows` made some."""
    length = rows.untyped_storage().nbytes() // (rows.element_size() * rows.shape[1])
    return torch.as_strided(rows, (length, rows.shape[1]), (rows.shape[1], 1), 0)
