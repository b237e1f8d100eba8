"""EntityTable: the one seam for everything that grows with the number of entities.

Four verbs: look up, softmax loss, standing, best-k. How they are computed (at once, in tiles, counted by a kernel)
is decided here and nowhere else, from the link and from sizes, so that a run gives the same numbers every time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from conjoin.errors import Diverged
from conjoin.forms.link import DOT, LiftedLink, Link, product
from conjoin.model.padding import GRAIN, add_rows, pad_rows, with_padding
from conjoin.model.score_blocks import Blocks, best_of, count_competitors, read_targets, without_targets
from conjoin.model.softmax import (
    NegativeSample,
    averaged_sum,
    chunked_softmax,
    dense_softmax,
    linked_softmax,
    sampled_softmax,
    shared_softmax,
    tile_rows,
    tiled_softmax,
)

CPU_BUDGET = 256 << 20
GPU_BUDGET = 2 << 30
FEWEST = 32
"""Rows below which matrix libraries switch to kernels that round differently."""
EDGE = 96
"""Products have a multiple of this many columns: kernels 4, 6, 8, 12, 16, 24, 32 or 48 columns wide then leave no
ragged edge, which they would round differently."""

COUNTED = 1 << 24
"""Scores whose signs float32 adds up exactly."""
SCORED_TOGETHER = 128
"""Questions that a CPU's products are efficient with."""
SWEPT = 1 << 21
"""Scores that a CPU sweeps quickly: 8 MiB."""


class RankCounts(NamedTuple):
    """Where targets stand, per question: entities that score higher, that score the same, and that compete at all."""

    better: Tensor
    tied: Tensor
    candidates: Tensor


class EntityTable(nn.Module):
    """N rows of real width w, and the link by which queries meet them.

    `budget` bounds the bytes of a batch × entities buffer; the default depends on the kind of device only.
    """

    whole = True
    """Are all rows in this process?"""

    def __init__(self, rows: Tensor, *, link: Link = DOT, budget: int | None = None) -> None:
        super().__init__()
        self.weight = nn.Parameter(pad_rows(rows))
        self.link = link
        self.budget = budget
        self._scratch: Tensor | None = None

    def __len__(self) -> int:
        return len(self.weight)

    @property
    def bytes_allowed(self) -> int:
        return self.budget or (GPU_BUDGET if self.weight.is_cuda else CPU_BUDGET)

    def forward(self, ids: Tensor) -> Tensor:
        """Look up rows, (B, w); differentiable."""
        return self.weight[ids]

    def rows(self, ids: Tensor) -> Tensor:
        """Look up rows, (B, w), as plain numbers."""
        return self.weight.detach()[ids]

    def owned(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Which of the ids are rows of `weight`, by their places in `ids`, and which rows those are."""
        return torch.arange(len(ids), device=ids.device), ids

    def add_to(self, gradient: Tensor, ids: Tensor, rows: Tensor) -> None:
        """gradient[ids[i]] += rows[i] in a gradient of `weight`."""
        add_rows(gradient, ids, rows)

    def cut(self, whole: Tensor) -> Tensor:
        """The rows of `weight` out of a whole table."""
        return whole

    def put(self, start: int, rows: Tensor) -> None:
        """Write the rows from `start` on of the whole table."""
        self.weight.detach()[start : start + len(rows)] = rows

    def blocks(self, held: Tensor, size: int) -> Iterator[Tensor]:
        """The whole of a table that is held like `weight`, in blocks of at most `size` rows, in order."""
        for start in range(0, len(held), size):
            yield held[start : start + size]

    def all_rows(self) -> Tensor:
        """Every row of the whole table, (N, w), as plain numbers."""
        return self.weight.detach()

    def assign(self, ids: Tensor, rows: Tensor) -> None:
        """Overwrite the rows of some entities."""
        self.weight.detach()[ids] = rows

    def subset(self, ids: Tensor) -> EntityTable:
        """A table of the rows of some entities only, in this process."""
        return EntityTable(self.rows(ids), link=self.link, budget=self.budget)

    def cosines(self, row: Tensor) -> Tensor:
        """The cosine of every entity's vector (N,) with that of one row (w,)."""
        vectors, vector = self.link.points(self.weight.detach()), self.link.points(row)
        return torch.nn.functional.cosine_similarity(vectors, vector[None], dim=1)

    def scores(self, q: Tensor) -> Tensor:
        """The whole (B, N) matrix of scores; differentiable. For small batches."""
        return self.link.scores(q, self.weight)

    def score(self, q: Tensor, ids: Tensor) -> Tensor:
        """The scores (B,) of one entity per query: `ids` (B,), or a scalar tensor, the one entity of all queries.

        Differentiable.
        """
        if ids.ndim:
            return self.link.pairs(q, self(ids))
        row = self(ids[None])
        return q @ row[0] if self.link is DOT else self.link.scores(q, row)[:, 0]

    def path(self, batch: int) -> str:
        """Which implementation the loss of such a batch takes, and why, in words."""
        needed = self._bytes_per_question * batch
        if self.link is not DOT and not self._lifts:
            why = "" if not isinstance(self.link, LiftedLink) else ", whose longer rows exceed the budget"
            return f"chunked by {self._piece(batch)} entities, twice: the link is {self.link.name}{why}"
        return self._path_of_products(batch, needed) + ("" if self.link is DOT else f"; link {self.link.name}")

    def _path_of_products(self, batch: int, needed: int) -> str:
        if not self.weight.is_cuda:
            return self._path_on_cpu(batch, needed)
        if needed <= self.bytes_allowed:
            return f"dense: {needed >> 20} MiB of scores fit the {self.bytes_allowed >> 20} MiB budget"
        return f"chunked by {self._chunk(batch)} entities: {needed >> 20} MiB of scores exceed the budget"

    def _path_on_cpu(self, batch: int, needed: int) -> str:
        limit, tile = self.bytes_allowed, self._tile(batch)
        if needed <= limit:
            return f"dense in tiles of {tile} entities: {needed >> 20} MiB of scores fit the {limit >> 20} MiB budget"
        excess = f"{needed >> 20} MiB of scores exceed the {limit >> 20} MiB budget and the excess is computed twice"
        return f"chunked by {tile} entities: {excess}"

    def softmax(
        self,
        q: Tensor,
        t: Tensor,
        *,
        out: Tensor,
        place: Tensor | None = None,
        share: Tensor | float | None = None,
        factors: torch.dtype | None = None,
        weight: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Negative log-likelihoods (B,) of targets t and the gradient of their mean: dq returned, d table in `out`.

        On a CPU several targets may have one query: then `place` (B,) says which query each target belongs to, and
        `share` (Q,) which part of the targets each query has. There, too, `factors` may be a shorter type for the
        factors of the gradients' products, where the link makes products; scores and sums keep the table's.
        `weight` (B,), with the sum 1, makes the mean a weighted one; `share` then holds the sums of these weights.
        """
        table, link = self.weight.detach(), self.link
        if link is DOT:
            return self._softmax(q, table, t, out=out, place=place, share=share, factors=factors, weight=weight)
        if self._lifts:
            assert isinstance(link, LiftedLink)
            rows, longer = pad_rows(link.lift_rows(table)), link.lift_queries(q)
            lifted = pad_rows(torch.empty_like(rows))
            nll, dq = self._softmax(
                longer, rows, t, out=lifted, place=place, share=share, factors=factors, weight=weight
            )
            out.copy_(link.pull_rows(lifted, table))
            return nll, link.pull_queries(dq, q)
        return linked_softmax(
            q, table, t, link=link, out=out, chunk=self._piece(len(q)), place=place, share=share, weight=weight
        )

    def _softmax(
        self,
        q: Tensor,
        table: Tensor,
        t: Tensor,
        *,
        out: Tensor,
        place: Tensor | None,
        share: Tensor | float | None,
        factors: torch.dtype | None,
        weight: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        """`softmax` for dot products with the rows of a table."""
        if not self.weight.is_cuda:
            tile, scratch = self._tile(len(q)), self._room(len(q), factors or self.weight.dtype)
            return tiled_softmax(
                q, table, t, out=out, tile=tile, scratch=scratch, place=place, share=share, weight=weight
            )
        if self._bytes_per_question * len(q) <= self.bytes_allowed:
            return dense_softmax(q, table, t, out=out, weight=weight)
        return chunked_softmax(q, table, t, out=out, chunk=self._chunk(len(q)), weight=weight)

    @property
    def _lifts(self) -> bool:
        """Is the link computed as a dot product of longer rows? They are made anew for each step, with a gradient."""
        return isinstance(self.link, LiftedLink) and self.whole and self.weight.nbytes <= self.bytes_allowed

    def in_tiles(self, batch: int) -> bool:
        """Should a step on such a batch go through the table tile by tile, so that its gradient never exists whole?"""
        return min(self._bytes_per_question * batch, self.weight.nbytes) > self.bytes_allowed

    def softmax_by_tiles(
        self, q: Tensor, t: Tensor, *, take: Callable[[int, Tensor], None], weight: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """As `softmax`, but the gradient is handed to `take` tile by tile: first row of `weight`, gradient.

        What `take` does to those rows is not seen by the result.
        """
        return shared_softmax(
            q, self.weight.detach(), t, chunk=self._piece(len(q)), take=take, link=self.link, weight=weight
        )

    def sampled_softmax(
        self,
        q: Tensor,
        t: Tensor,
        sample: NegativeSample,
        *,
        take: Callable[[Tensor, Tensor], None],
        weight: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """As `softmax`, against a sample of the entities; `take` gets rows of `weight`, repeated ones too, and their
        gradients."""
        return sampled_softmax(q, self.weight.detach(), t, sample, take=take, link=self.link, weight=weight)

    def nll(self, q: Tensor, t: Tensor, weight: Tensor | None = None) -> Tensor:
        """Mean negative log-likelihood of targets t against all entities; differentiable in q and the table."""
        return cast(Tensor, _Nll.apply(q, self.weight, t, (self, weight)))  # type: ignore[no-untyped-call]

    def standing(self, q: Tensor, t: Tensor, hidden: tuple[Tensor, Tensor]) -> RankCounts:
        """Where target t stands among all entities that are not hidden.

        `hidden` holds (question, entity) index pairs, each at most once; a target among them still counts. Target and
        competitors are scored by products of one shape, so that equal rows tie exactly.
        """
        if q.is_cuda and find_spec("triton") and self._bytes_per_question * len(q) <= self.bytes_allowed:
            return self._counted(q, t, hidden)
        hidden = without_targets(hidden, t)
        blocks = self._blocks(q)
        target = read_targets(blocks, t, torch.empty_like(q[:, 0]))
        better, tied = count_competitors(blocks, target, hidden)
        return RankCounts(better, tied - 1, len(self) - torch.bincount(hidden[0], minlength=len(q)))

    def _counted(self, q: Tensor, t: Tensor, hidden: tuple[Tensor, Tensor]) -> RankCounts:
        from conjoin.model.rank_count import count

        padded = torch.nn.functional.pad(q, (0, 0, 0, max(0, FEWEST - len(q))))
        scores = self.link.scores(padded, with_padding(self.weight.detach())).contiguous()
        counts = count(scores, t, hidden, len(self))
        if counts is None:
            raise diverged()
        return RankCounts(*counts)

    def best(self, q: Tensor, k: int, hidden: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        """The k best entities of every query: scores and ids, (B, k), best first; hidden ones score -inf."""
        return best_of(self._blocks(q), k, hidden, q)

    def score_blocks(self, q: Tensor) -> Blocks:
        """All scores in blocks within the budget: the first entity of each, and its scores (B, columns).

        Equal rows have exactly equal scores. The blocks can be gone through more than once.
        """
        return self._blocks(q)

    def questions_at_once(self) -> int:
        """How many questions to rank together so that their scores and the comparisons stay within the budget.

        On a CPU within the cache, too, as far as products do not become thin: every score is swept five times.
        """
        fitting = self.bytes_allowed // (2 * self._bytes_per_question)
        if not self.weight.is_cuda:
            fitting = min(fitting, max(SCORED_TOGETHER, SWEPT // len(self)))
        return max(FEWEST, fitting)

    @property
    def _bytes_per_question(self) -> int:
        return len(self) * self.weight.element_size()

    def _tile(self, batch: int) -> int:
        """Entities of a tile on a CPU: what the cache holds, less where the budget is smaller still."""
        return min(tile_rows(batch, self.weight.shape[1]), self._chunk(batch), len(self))

    def _room(self, batch: int, dtype: torch.dtype) -> Tensor:
        """The buffer for scores on a CPU, which stays from step to step: all of them, or whole tiles up to the budget.

        Memory asked for anew at every step comes as untouched pages, and touching those costs as much as a sweep.
        """
        tile = self._tile(batch) * batch
        whole_tiles = max(1, self.bytes_allowed // (tile * self.weight.element_size()))
        wanted = min(len(self) * batch, whole_tiles * tile)
        if self._scratch is None or len(self._scratch) < wanted or self._scratch.dtype != dtype:
            self._scratch = None
            self._scratch = self.weight.detach().new_empty(wanted, dtype=dtype)
        return self._scratch[:wanted]

    def _piece(self, batch: int) -> int:
        """Entities of a tile whose rows are changed at once. The gradient of a link that is not a dot product holds up
        to four buffers of a tile's scores."""
        if self.weight.is_cuda:
            return self._chunk(batch if self.link is DOT else 4 * batch)
        return self._tile(batch)

    def _chunk(self, batch: int) -> int:
        chunk = self.bytes_allowed // (batch * self.weight.element_size())
        return max(1, chunk // GRAIN * GRAIN or chunk)

    def _blocks(self, q: Tensor) -> _Blocks:
        """All scores, in blocks of (B, columns): the number of their first entity, and the scores."""
        columns = self.bytes_allowed // (2 * max(FEWEST, len(q)) * self.weight.element_size())
        size = max(EDGE, min(len(self.weight), columns, COUNTED) // EDGE * EDGE)
        return _Blocks(q, self.weight.detach(), size, self.link)


class _Blocks:
    """Score blocks that can be iterated several times. They are computed once if all fit the budget together.

    Equal entities must get equal scores wherever they stand, so no product is thin or ends in a ragged edge: the batch
    is padded to FEWEST rows, columns come in multiples of EDGE, the last block overlaps the one before (what overlaps
    is cut off), and a table shorter than EDGE is padded with zeros.
    """

    def __init__(self, q: Tensor, table: Tensor, columns: int, link: Link) -> None:
        self.questions, self.entities, self.columns, self.link = len(q), len(table), columns, link
        self.q = torch.nn.functional.pad(q, (0, 0, 0, max(0, FEWEST - len(q))))
        self.table = torch.nn.functional.pad(table, (0, 0, 0, EDGE - len(table))) if len(table) < EDGE else table
        self.kept = list(self._computed()) if columns >= len(table) // EDGE * EDGE else None

    def __iter__(self) -> Iterator[tuple[int, Tensor]]:
        return self._computed() if self.kept is None else iter(self.kept)

    def _computed(self) -> Iterator[tuple[int, Tensor]]:
        for first in range(0, self.entities, self.columns):
            wanted = min(self.columns, self.entities - first)
            columns = -(-wanted // EDGE) * EDGE
            start = min(first, len(self.table) - columns)
            yield first, self._scores(start, columns)[:, first - start : first - start + wanted]

    def _scores(self, start: int, columns: int) -> Tensor:
        rows = self.table[start : start + columns]
        scores = (product(self.q, rows) if self.link is DOT else self.link.scores(self.q, rows))[: self.questions]
        low, high = torch.aminmax(scores)
        if not bool(torch.isfinite(low) & torch.isfinite(high)):
            raise diverged()
        return scores


def diverged() -> Diverged:
    return Diverged(
        "a score is not a finite number, so no rank is meaningful: the model has diverged. "
        "Train again with a smaller learning rate or a larger regulariser: lr and n3 (--lr, --n3)."
    )


class _Nll(torch.autograd.Function):
    """The mean loss as one node: gradients are ready after the forward pass."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, rows: Tensor, t: Tensor, of: tuple[EntityTable, Tensor | None]) -> Tensor:
        table, weight = of
        gradient = pad_rows(torch.zeros_like(rows))
        nll, dq = table.softmax(q, t, out=gradient, weight=weight)
        ctx.save_for_backward(dq, gradient)
        return averaged_sum(nll, weight)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, Tensor, None, None]:
        dq, gradient = ctx.saved_tensors
        return dq * upstream, gradient * upstream, None, None
