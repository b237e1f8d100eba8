"""Adding rows into a table, in an order that never changes."""

from __future__ import annotations

from torch import Tensor


def add_rows(table: Tensor, ids: Tensor, rows: Tensor) -> None:
    """table[ids[i]] += rows[i], repeated ids included, with the same rounding every time.

    On a GPU plain index_add_ adds in whatever order the threads arrive; index_put_ sorts first. On a CPU it is the
    other way round: index_add_ goes row by row, index_put_ races.
    """
    if table.is_cuda:
        table.index_put_((ids,), rows, accumulate=True)
    else:
        table.index_add_(0, ids, rows)
