"""A training step's work on the entity table: scores, softmax, gradients and optimiser, tile by tile.

Neither the softmax nor, with half-width operands, the table's gradient is ever written to memory. The exponentials
exp(q·E - s_t) are: once, bounded by a budget; where all entities do not fit, they are computed in chunks, and twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from conjoin.model.fused import kernels
from conjoin.model.rows import with_its_room

RULES = {"adagrad": kernels.ADAGRAD, "adam": kernels.ADAM, "sgd": kernels.SGD}
STATES = {"adagrad": ("sum",), "adam": ("exp_avg", "exp_avg_sq"), "sgd": ()}


@dataclass(frozen=True)
class Tile:
    """Shape of a tile of a product and how a GPU works on it."""

    rows: int
    columns: int
    depth: int
    warps: int
    stages: int


@dataclass(frozen=True)
class Tiles:
    """Tiles of the two products that are written here, chosen by measurement (bench/tiles.py)."""

    scores: Tile
    update: Tile | None
    """None: the library's product writes the gradient, and the update reads it. Pays for large batches."""

    @staticmethod
    def measured(questions: int) -> Tiles:
        scores = Tile(128, 128, 64, 8, 3)
        return Tiles(scores, Tile(64, 64, 64, 4, 3) if questions <= 256 else None)


ELEMENTWISE = Tile(4, 512, 16, 4, 1)
GROUP = 16
"""Rows that are added at a time."""


@dataclass(frozen=True)
class Optimised:
    """A table with its optimiser's state: what a kernel changes."""

    table: Tensor
    rule: str
    lr: float
    state: dict[str, Tensor]

    def pointers(self) -> tuple[Tensor, Tensor, Tensor]:
        """The table and two tensors of state; the table stands in where there is no such state."""
        found = [self.state[name] for name in STATES[self.rule]]
        first, second, *_ = [*found, self.table, self.table]
        return self.table, first, second

    @property
    def clock(self) -> Tensor:
        """How many steps there have been, where the rule asks; the table stands in where it does not."""
        return self.state["step"] if self.ticks else self.table

    @property
    def ticks(self) -> bool:
        return self.rule == "adam"

    def same_memory(self, other: Optimised) -> bool:
        """Whether kernels bound to this would also change the other."""
        return all(a.data_ptr() == b.data_ptr() for a, b in zip(self.pointers(), other.pointers(), strict=True))


class FusedTable:
    """Entities (N, w) in training: buffers for batches of a given size, and the verbs of a step.

    `dtype` is what products multiply: bfloat16 from a copy of the table kept beside it, or float32 (rounded to TF32 by
    the matrix units) from the table itself.
    """

    def __init__(
        self, weights: Optimised, *, questions: int, dtype: torch.dtype, budget: int, tiles: Tiles | None = None
    ) -> None:
        table = weights.table
        self.weights, self.questions = weights, questions
        self.tiles = tiles or Tiles.measured(questions)
        self.entities, self.width = table.shape
        self.half = dtype != torch.float32
        if not self.half:
            self.tiles = Tiles(self.tiles.scores, None)
        scores, update = self.tiles.scores, self.tiles.update or ELEMENTWISE
        grain = max(scores.columns, update.rows)
        self.rows = _up(questions, max(scores.rows, update.depth))
        self.columns = _up(self.width, max(scores.depth, update.columns if self.tiles.update else 16))
        length = _up(self.entities, grain)
        self.operand = table.new_zeros(length, self.columns, dtype=dtype) if self.half else with_its_room(table)
        self.chunk = min(length, max(grain, budget // (self.rows * dtype.itemsize) // grain * grain))
        self.q = table.new_zeros(self.rows, self.columns, dtype=dtype)
        self.share = torch.zeros_like(self.q)
        self.p = table.new_zeros(self.rows, self.chunk, dtype=dtype)
        self.target = table.new_zeros(self.rows)
        self.sums = table.new_zeros(self.rows, -(-self.entities // scores.columns))
        self.nll, self.factor = table.new_zeros(questions), table.new_zeros(questions)
        self.slot = torch.full((self.entities,), -1, dtype=torch.int32, device=table.device)
        self.stash = table.new_zeros(2 * questions, self.width)

    def refresh(self) -> None:
        """Copy the table into the operand: after loading weights, and whenever something else changed them."""
        if self.half:
            self.operand[: self.entities, : self.width] = self.weights.table

    def step(self, q: Tensor, t: Tensor, weight: Tensor, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Negative log-likelihoods (B,) and the softmax's part of the gradient of Σ weight·nll with respect to q.

        The whole table is optimised by that part of its gradient, except the rows `ids` (sorted) that the batch looks
        up: `finish` completes them. Not in either gradient: the term of the answers, -weight·q·E[t].
        """
        self._targets(q, t)
        whole = self.chunk >= self.entities
        for first in range(0, self.entities, self.chunk):
            self._exponentials(first, store=whole)
        self._shares(q, weight)
        kernels.mark[(-(-len(ids) // 256),)](ids, self.slot, len(ids), BLOCK=256)
        dq: Tensor | None = None
        for first in range(0, self.entities, self.chunk):
            if not whole:
                self._exponentials(first, store=True)
            part = self._dq(first)
            dq = part if dq is None else dq.add_(part)
            self._update(first)
        assert dq is not None
        return self.nll, dq[: self.questions, : self.width] * self.factor[:, None]

    def finish(self, ids: Tensor, order: Tensor, gradients: Tensor) -> None:
        """Optimise the rows that were looked up: ids sorted, gradients[order[i]] belongs to ids[i]."""
        optimise_rows(self.weights, ids, order, gradients, shadow=self.operand if self.half else None, fused=self)

    def _targets(self, q: Tensor, t: Tensor) -> None:
        kernels.targets[(self.rows,)](
            q, self.q, self.operand, t, self.target, self.questions,
            WIDTH=self.width, TABLE_STRIDE=self.operand.stride(0), STRIDE=self.columns, COLUMNS=_block(self.columns),
        )  # fmt: skip

    def _exponentials(self, first: int, *, store: bool) -> None:
        tile = self.tiles.scores
        length = min(self.chunk, self.entities - first)
        if not self.half:
            part = self._part(first)
            torch.mm(self.q[:, : self.width], part.T, out=self.p[:, : len(part)])
        question_tiles = self.rows // tile.rows
        kernels.exponentials[(question_tiles * -(-length // tile.columns),)](
            self.q, self.operand, self.target, self.p, self.sums,
            first, self.entities, self.chunk, self.sums.shape[1], question_tiles,
            WIDTH=self.columns, Q_STRIDE=self.columns, TABLE_STRIDE=self.operand.stride(0),
            PRODUCT=self.half, STORE=store,
            ROWS=tile.rows, COLUMNS=tile.columns, DEPTH=tile.depth, num_warps=tile.warps, num_stages=tile.stages,
        )  # fmt: skip

    def _shares(self, q: Tensor, weight: Tensor) -> None:
        kernels.shares[(self.rows,)](
            q, self.sums, weight, self.share, self.nll, self.factor, self.questions,
            WIDTH=self.width, TILES=self.sums.shape[1], STRIDE=self.columns, COLUMNS=_block(self.columns),
        )  # fmt: skip

    def _part(self, first: int) -> Tensor:
        """The operand's rows of a chunk."""
        return self.operand[first : first + self.chunk]

    def _dq(self, first: int) -> Tensor:
        part = self._part(first)
        p = self.p[:, : len(part)]
        return _half_product(p, part) if self.half else p @ part

    def _update(self, first: int) -> None:
        length = min(self.chunk, self.entities - first)
        fused = self.tiles.update is not None
        gradient = self.weights.table if fused else self._gradient(len(self._part(first)))
        tile = self.tiles.update or ELEMENTWISE
        table, one, two = self.weights.pointers()
        kernels.update[(-(-length // tile.rows) * -(-self.width // tile.columns),)](
            self.p, self.share, gradient, table, one, two, self.operand, self.slot, self.stash,
            self.weights.clock, self.weights.lr, first, self.entities, self.chunk,
            WIDTH=self.width, SHADOW_STRIDE=self.operand.stride(0), SHARE_STRIDE=self.columns, QUESTIONS=self.rows,
            PRECISION="tf32", PRODUCT=fused, RULE=RULES[self.weights.rule], SHADOW=self.half, STASH=True,
            ROWS=tile.rows, COLUMNS=tile.columns, DEPTH=tile.depth, num_warps=tile.warps, num_stages=tile.stages,
        )  # fmt: skip

    def _gradient(self, length: int) -> Tensor:
        p, share = self.p[:, :length].T, self.share[:, : self.width]
        return _half_product(p, share) if self.half else p @ share


def optimise_rows(
    weights: Optimised,
    ids: Tensor,
    order: Tensor,
    gradients: Tensor,
    *,
    shadow: Tensor | None = None,
    fused: FusedTable | None = None,
    collect: Tensor | None = None,
) -> None:
    """Optimise looked-up rows only. Equal to a dense step for Adagrad and SGD, whose rules leave a row with no gradient
    alone. With `collect` the summed gradients are written there and nothing is optimised.
    """
    table, one, two = weights.pointers()
    width = table.shape[1]
    columns = min(256, _block(width))
    anything: Any = table
    kernels.rows[(len(ids), -(-width // columns))](
        ids, order, gradients, table, one, two, anything if shadow is None else shadow,
        fused.slot if fused else anything, fused.stash if fused else anything,
        anything if collect is None else collect, weights.clock, weights.lr, len(ids),
        WIDTH=width, SHADOW_STRIDE=0 if shadow is None else shadow.stride(0),
        STASH=fused is not None, RULE=RULES[weights.rule], SHADOW=shadow is not None, COLLECT=collect is not None,
        GROUP=GROUP, COLUMNS=columns,
    )  # fmt: skip


def optimise_table(weights: Optimised, gradient: Tensor) -> None:
    """Optimise a whole table by a gradient of its shape."""
    table, one, two = weights.pointers()
    rows, width = table.shape
    tile = ELEMENTWISE
    kernels.update[(-(-rows // tile.rows) * -(-width // tile.columns),)](
        table, table, gradient, table, one, two, table, table, table, weights.clock, weights.lr, 0, rows, 0,
        WIDTH=width, SHADOW_STRIDE=0, SHARE_STRIDE=0, QUESTIONS=0,
        PRECISION="tf32", PRODUCT=False, RULE=RULES[weights.rule], SHADOW=False, STASH=False,
        ROWS=tile.rows, COLUMNS=tile.columns, DEPTH=tile.depth, num_warps=tile.warps, num_stages=tile.stages,
    )  # fmt: skip


def _half_product(a: Tensor, b: Tensor) -> Tensor:
    """a @ b with float32 sums and result."""
    return torch.mm(a, b, out_dtype=torch.float32) if a.is_cuda else a.float() @ b.float()


def _up(size: int, grain: int) -> int:
    return -(-size // grain) * grain


def _block(size: int) -> int:
    """The power of two for a row of this size, 1,024 at most."""
    return min(1024, max(16, 1 << (size - 1).bit_length()))
