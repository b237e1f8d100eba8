"""A training step's work on the entity table: scores, softmax, gradients and optimiser, tile by tile.

The softmax is never written to memory. The exponentials exp(q·E - s_t) are: once, bounded by a budget; where all
entities do not fit, they are computed in chunks, and twice. So is the table's gradient, in the precision of the
products, for a chunk at a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from conjoin.kernels import table_kernels
from conjoin.model.padding import with_padding

RULES = {"adagrad": table_kernels.ADAGRAD, "adam": table_kernels.ADAM, "sgd": table_kernels.SGD}


@dataclass(frozen=True)
class Tile:
    """Shape of a tile of a product and how a GPU works on it."""

    rows: int
    columns: int
    depth: int
    warps: int
    stages: int

    @staticmethod
    def measured(questions: int) -> Tile:
        """The best on an H200 for large and for small batches (bench/tiles.py)."""
        return Tile(128, 128, 64, 8, 3) if questions > 128 else Tile(128, 64, 64, 4, 4)


UPDATED = (2, 512)
"""Rows and columns of the table that one program optimises."""


class RowGroups(NamedTuple):
    """Looked-up rows: sorted ids, the position of each before sorting, and the start of each distinct id."""

    ids: Tensor
    order: Tensor
    starts: Tensor


@dataclass(frozen=True)
class Optimised:
    """The tensors that a kernel updates: a table (n, w), its optimiser state in the order of SLOTS, the step count."""

    table: Tensor
    rule: str
    lr: float
    memories: tuple[Tensor, ...] = ()
    steps: Tensor | None = None

    def pointers(self) -> tuple[Tensor, Tensor, Tensor]:
        """The table and two state tensors. The table itself replaces a missing one, because kernels need a pointer."""
        first, second, *_ = [*self.memories, self.table, self.table]
        return self.table, first, second

    @property
    def clock(self) -> Tensor:
        """The step count, if the rule uses it; otherwise the table as a placeholder pointer."""
        return self.steps if self.ticks and self.steps is not None else self.table

    @property
    def ticks(self) -> bool:
        return self.rule == "adam"

    def same_memory(self, other: Optimised) -> bool:
        """Whether kernels bound to this would also change the other."""
        return all(a.data_ptr() == b.data_ptr() for a, b in zip(self.pointers(), other.pointers(), strict=True))


class FusedTable:
    """Entities (N, w) in training: buffers for batches of a given size, and the parts of a step.

    `dtype` is the dtype of factors of products: bfloat16 uses a copy of the table, float32 the table itself (the
    matrix units round it to TF32).
    """

    def __init__(
        self, weights: Optimised, *, questions: int, dtype: torch.dtype, budget: int, tile: Tile | None = None
    ) -> None:
        table = weights.table
        self.weights, self.questions = weights, questions
        self.tile = tile or Tile.measured(questions)
        self.entities, self.width = table.shape
        self.half = dtype != torch.float32
        grain = self.tile.columns
        self.rows = _up(questions, self.tile.rows)
        self.columns = _up(self.width, self.tile.depth)
        length = _up(self.entities, grain)
        self.operand = table.new_zeros(length, self.columns, dtype=dtype) if self.half else with_padding(table)
        per_entity = max(self.rows, self.width) * dtype.itemsize
        self.chunk = min(length, max(grain, budget // per_entity // grain * grain))
        self.q = table.new_zeros(self.rows, self.columns, dtype=dtype)
        self.share = torch.zeros_like(self.q)
        self.p = table.new_zeros(self.rows, self.chunk, dtype=dtype)
        self.queries = table.new_zeros(questions, self.width)
        self.target = torch.full((self.rows,), torch.inf, device=table.device)
        self.sums = table.new_zeros(self.rows, -(-self.entities // grain))
        self.costs = table.new_zeros(2, questions)
        self.nll, self.penalty = self.costs
        self.factor = table.new_zeros(questions)
        self.slot = torch.full((self.entities,), -1, dtype=torch.int32, device=table.device)
        self.stash = table.new_zeros(2 * questions, self.width)

    def refresh(self) -> None:
        """Copy the table into the operand. Call this after anything else has changed the weights."""
        if self.half:
            self.operand[: self.entities, : self.width] = self.weights.table

    def step(self, weight: Tensor, looked_up: RowGroups) -> Tensor:
        """Compute the losses of the queries in the buffers (into `nll`); return exponentials · table, (Bp, wp).

        The result times `factor` is the softmax's part of the gradient of Σ weight·nll by the queries.
        Each row is updated by the softmax's part of its gradient, except the rows that the batch looks up: `finish`
        adds the rest of their gradient and updates them.
        """
        whole = self.chunk >= self.entities
        for first in range(0, self.entities, self.chunk):
            self._exponentials(first, store=whole)
        self._shares(weight)
        ids = looked_up.ids
        table_kernels.mark[(-(-len(ids) // 256),)](ids, self.slot, len(ids), BLOCK=256)
        product: Tensor | None = None
        for first in range(0, self.entities, self.chunk):
            if not whole:
                self._exponentials(first, store=True)
            part = self._product(first)
            product = part if product is None else product.add_(part)
            self._update(first)
        assert product is not None
        return product

    def finish(self, looked_up: RowGroups, gradients: Tensor) -> None:
        """Update the rows that were looked up: gradients[order[i]] belongs to ids[i]."""
        optimise_rows(self.weights, looked_up, gradients, fused=self)

    def _exponentials(self, first: int, *, store: bool) -> None:
        tile = self.tile
        length = min(self.chunk, self.entities - first)
        if not self.half:
            part = self._part(first)
            torch.mm(self.q[:, : self.width], part.T, out=self.p[:, : len(part)])
        question_tiles = self.rows // tile.rows
        table_kernels.exponentials[(question_tiles * -(-length // tile.columns),)](
            self.q, self.operand, self.target, self.p, self.sums,
            first, self.entities, self.chunk, self.sums.shape[1], question_tiles,
            WIDTH=self.columns, Q_STRIDE=self.columns, TABLE_STRIDE=self.operand.stride(0),
            PRODUCT=self.half, STORE=store,
            ROWS=tile.rows, COLUMNS=tile.columns, DEPTH=tile.depth, num_warps=tile.warps, num_stages=tile.stages,
        )  # fmt: skip

    def _shares(self, weight: Tensor) -> None:
        table_kernels.shares[(self.questions,)](
            self.queries, self.sums, weight, self.share, self.nll, self.factor,
            WIDTH=self.width, TILES=self.sums.shape[1], STRIDE=self.columns, COLUMNS=block(self.columns),
        )  # fmt: skip

    def _part(self, first: int) -> Tensor:
        """The operand's rows of a chunk."""
        return self.operand[first : first + self.chunk]

    def _product(self, first: int) -> Tensor:
        part = self._part(first)
        p = self.p[:, : len(part)]
        return _half_product(p, part) if self.half else p @ part

    def _update(self, first: int) -> None:
        length = min(self.chunk, self.entities - first)
        gradient = self.p[:, : len(self._part(first))].T @ self.share[:, : self.width]
        rows, columns = UPDATED
        table, one, two = self.weights.pointers()
        table_kernels.update[(-(-length // rows) * -(-self.width // columns),)](
            gradient, table, one, two, self.operand, self.slot, self.stash,
            self.weights.clock, self.weights.lr, first, self.entities,
            WIDTH=self.width, SHADOW_STRIDE=self.operand.stride(0), RULE=RULES[self.weights.rule],
            SHADOW=self.half, STASH=True, ROWS=rows, COLUMNS=columns,
        )  # fmt: skip


def optimise_rows(
    weights: Optimised,
    looked_up: RowGroups,
    gradients: Tensor,
    *,
    fused: FusedTable | None = None,
    collect: Tensor | None = None,
) -> None:
    """Update looked-up rows only. This equals a dense step for Adagrad and SGD, which do not change rows with a zero
    gradient. With `fused` the softmax's part of the gradients is added from its stash. With `collect` (n, w) the summed
    gradients are written there and no row is updated.
    """
    ids, order, starts = looked_up
    table, one, two = weights.pointers()
    width = table.shape[1]
    columns = min(512 if fused else 64, block(width))
    shadow = fused.operand if fused and fused.half else None
    table_kernels.rows[(len(starts), -(-width // columns))](
        ids, order, starts, gradients, table, one, two, table if shadow is None else shadow,
        fused.slot if fused else table, fused.stash if fused else table,
        table if collect is None else collect, weights.clock, weights.lr, len(ids),
        WIDTH=width, SHADOW_STRIDE=0 if shadow is None else shadow.stride(0),
        STASH=fused is not None, RULE=RULES[weights.rule], SHADOW=shadow is not None, COLLECT=collect is not None,
        GROUP=4 if fused else 64, COLUMNS=columns,
    )  # fmt: skip


def optimise_table(weights: Optimised, gradient: Tensor) -> None:
    """Update a whole table by a gradient of its shape."""
    table, one, two = weights.pointers()
    length, width = table.shape
    rows, columns = UPDATED
    table_kernels.update[(-(-length // rows) * -(-width // columns),)](
        gradient, table, one, two, table, table, table, weights.clock, weights.lr, 0, length,
        WIDTH=width, SHADOW_STRIDE=0, RULE=RULES[weights.rule], SHADOW=False, STASH=False, ROWS=rows, COLUMNS=columns,
    )  # fmt: skip


def _half_product(a: Tensor, b: Tensor) -> Tensor:
    """a @ b with float32 sums and result."""
    return torch.mm(a, b, out_dtype=torch.float32) if a.is_cuda else a.float() @ b.float()


def _up(size: int, grain: int) -> int:
    return -(-size // grain) * grain


def block(size: int) -> int:
    """The block size for rows of this size: a power of two from 16 to 1,024."""
    return min(1024, max(16, 1 << (size - 1).bit_length()))
