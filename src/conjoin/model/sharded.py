"""EntityTable over several processes: each holds some rows; every verb gives every process the same answer.

Nothing outside knows. All processes ask the same questions at the same time; between them travel batches of rows,
queries' gradients and counts, never the table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

import torch
from torch import Tensor

from conjoin.errors import Diverged, UsageError
from conjoin.forms.link import DOT, Link
from conjoin.model.padding import add_rows
from conjoin.model.score_blocks import Blocks, count_competitors, read_targets, without_targets
from conjoin.model.softmax import NegativeSample, assembled, inside, sampled_softmax, shared_softmax
from conjoin.model.table import EntityTable, RankCounts, diverged
from conjoin.runtime.distributed import Mesh


class ShardedTable(EntityTable):
    """`weight` holds the rows first … first + len(weight) of `entities` rows of real width w."""

    whole = False

    def __init__(self, rows: Tensor, entities: int, *, mesh: Mesh, link: Link = DOT, budget: int | None = None) -> None:
        super().__init__(rows, link=link, budget=budget)
        self.mesh, self.entities = mesh, entities
        self.first = mesh.span(entities)[0]

    def __len__(self) -> int:
        return self.entities

    def forward(self, ids: Tensor) -> Tensor:
        """Look up rows, (B, w); differentiable."""
        return cast(Tensor, _LookUp.apply(self.weight, ids, self))  # type: ignore[no-untyped-call]

    def rows(self, ids: Tensor) -> Tensor:
        places, own = self.owned(ids)
        found = self.weight.new_zeros(len(ids), self.weight.shape[1])
        found[places] = self.weight.detach()[own]
        return self.mesh.total(found)

    def owned(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        return inside(ids, self.first, len(self.weight))

    def add_to(self, gradient: Tensor, ids: Tensor, rows: Tensor) -> None:
        places, own = self.owned(ids)
        add_rows(gradient, own, rows[places])

    def all_rows(self) -> Tensor:
        return self.rows(torch.arange(len(self), device=self.weight.device))

    def assign(self, ids: Tensor, rows: Tensor) -> None:
        positions, own = self.owned(ids)
        self.weight.detach()[own] = rows[positions]

    def cosines(self, row: Tensor) -> Tensor:
        return self._side_by_side(super().cosines(row)[None])[0]

    def scores(self, q: Tensor) -> Tensor:
        return cast(Tensor, _Scores.apply(q, self.weight, self))  # type: ignore[no-untyped-call]

    def path(self, batch: int) -> str:
        mesh = self.mesh
        times = f", {mesh.replicas} times" if mesh.replicas > 1 else ""
        link = "" if self.link is DOT else f"; link {self.link.name}"
        return f"{mesh.shards} shards of {self._span(0)[1]} entities{times}, chunked by {self._piece(batch)}{link}"

    def in_tiles(self, batch: int) -> bool:  # noqa: ARG002
        return True

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
        assert place is share is None, "a shared table takes one query per target"
        assert factors is None, "a shared table multiplies in its own type"

        def write(start: int, gradient: Tensor) -> None:
            out[start : start + len(gradient)] = gradient

        return self.softmax_by_tiles(q, t, take=write, weight=weight)

    def softmax_by_tiles(
        self, q: Tensor, t: Tensor, *, take: Callable[[int, Tensor], None], weight: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        rows, chunk = self.weight.detach(), self._piece(len(q))
        return shared_softmax(
            q, rows, t, chunk=chunk, take=take, first=self.first, mesh=self.mesh, link=self.link, weight=weight
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
        rows = self.weight.detach()
        return sampled_softmax(
            q, rows, t, sample, take=take, first=self.first, mesh=self.mesh, link=self.link, weight=weight
        )

    def standing(self, q: Tensor, t: Tensor, hidden: tuple[Tensor, Tensor]) -> RankCounts:
        """Every replica counts for its part of the questions."""
        part, (question, entity) = self.mesh.part(len(q)), hidden
        ours = (question >= part.start) & (question < part.stop)
        found = self._standing(q[part], t[part], (question[ours] - part.start, entity[ours]))
        return RankCounts(*assembled(torch.stack(found, dim=1), len(q), self.mesh).unbind(dim=1))

    def _standing(self, q: Tensor, t: Tensor, hidden: tuple[Tensor, Tensor]) -> RankCounts:
        """The target's score is read where it stands, out of the products its competitors come from; counts add up.

        A score that is not finite anywhere must stop all processes: it travels as a target of infinity.
        """
        hidden = without_targets(hidden, t)
        target = torch.full_like(q[:, 0], -torch.inf)
        blocks: Blocks = ()
        try:
            blocks = self._blocks(q)
            read_targets(self._numbered(blocks), t, target)
        except Diverged:
            target.fill_(torch.inf)
        target = self.mesh.highest(target)
        if bool(torch.isinf(target).any()):
            raise diverged()
        counts = count_competitors(self._numbered(blocks), target, hidden)
        better, tied = self.mesh.total(torch.stack(counts))
        return RankCounts(better, tied - 1, len(self) - torch.bincount(hidden[0], minlength=len(q)))

    def _numbered(self, blocks: Blocks) -> Blocks:
        """Blocks of this shard, with the numbers that its entities have in the whole table."""
        return ((first + self.first, scores) for first, scores in blocks)

    def score_blocks(self, q: Tensor) -> Blocks:  # noqa: ARG002
        raise UsageError(f"An ensemble works in one process, and its rows are in {self.mesh.shards}. Use one process.")

    def best(self, q: Tensor, k: int, hidden: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        if hidden is not None:
            places, own = self.owned(hidden[1])
            hidden = hidden[0][places], own
        try:
            values, ids = super().best(q, k, hidden)
        except Diverged:
            values = q.new_full((len(q), min(k, len(self.weight))), torch.inf)
            ids = torch.zeros_like(values, dtype=torch.long)
        missing = k - values.shape[1]
        values = torch.nn.functional.pad(values, (0, missing))
        ids = torch.nn.functional.pad(ids + self.first, (0, missing))
        held = [min(k, stop - first) for first, stop in map(self._span, range(self.mesh.shards))]
        values, ids = (
            torch.cat([part[:, :count] for part, count in zip(self.mesh.gathered(found), held, strict=True)], dim=1)
            for found in (values, ids)
        )
        if bool((values == torch.inf).any()):
            raise diverged()
        order = values.argsort(dim=1, descending=True, stable=True)[:, :k]
        return values.gather(1, order), ids.gather(1, order)

    def cut(self, whole: Tensor) -> Tensor:
        return whole[self.first : self.first + len(self.weight)]

    def put(self, start: int, rows: Tensor) -> None:
        low, high = max(start, self.first), min(start + len(rows), self.first + len(self.weight))
        if low < high:
            self.weight.detach()[low - self.first : high - self.first] = rows[low - start : high - start]

    def blocks(self, held: Tensor, size: int) -> Iterator[Tensor]:
        for shard in range(self.mesh.shards):
            first, stop = self._span(shard)
            for start in range(first, stop, size):
                rows = min(size, stop - start)
                block = held.new_empty(rows, *held.shape[1:])
                if shard == self.mesh.shard:
                    block.copy_(held[start - first : start - first + rows])
                yield self.mesh.from_shard(block, shard)

    def _span(self, shard: int) -> tuple[int, int]:
        return self.mesh.span(len(self), shard)

    def _chunk(self, batch: int) -> int:
        return super()._chunk(max(1, -(-batch // self.mesh.replicas)))

    def _tile(self, batch: int) -> int:
        return max(1, super()._tile(max(1, -(-batch // self.mesh.replicas))))

    def _side_by_side(self, columns: Tensor) -> Tensor:
        """(B, rows of this shard) → (B, N)."""
        most = self._span(0)[1]
        padded = torch.nn.functional.pad(columns, (0, most - columns.shape[1]))
        return torch.cat(self.mesh.gathered(padded), dim=1)[:, : len(self)]

    def _load_from_state_dict(self, state_dict: Mapping[str, Any], prefix: str, *rest: Any) -> None:
        """A whole table is cut."""
        name = f"{prefix}weight"
        if name in state_dict and len(state_dict[name]) == len(self) != len(self.weight):
            state_dict = {**state_dict, name: self.cut(state_dict[name])}
        super()._load_from_state_dict(state_dict, prefix, *rest)


class _LookUp(torch.autograd.Function):
    """Rows summed over the shards; what flows back is the same everywhere, and each process keeps what is its own."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, ids: Tensor, table: ShardedTable) -> Tensor:
        ctx.ids, ctx.table, ctx.like = ids, table, weight
        return table.rows(ids)

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, None, None]:
        gradient = torch.zeros_like(ctx.like)
        ctx.table.add_to(gradient, ctx.ids, upstream)
        return gradient, None, None


class _Scores(torch.autograd.Function):
    """All scores side by side; the query's gradient is summed over the shards."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, weight: Tensor, table: ShardedTable) -> Tensor:
        ctx.save_for_backward(q, weight)
        ctx.table = table
        return table._side_by_side(table.link.scores(q, weight))

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, Tensor, None]:
        q, weight = ctx.saved_tensors
        table: ShardedTable = ctx.table
        mine = upstream[:, table.first : table.first + len(weight)]
        of_queries, of_rows = table.link.pull(mine, q, weight)
        return table.mesh.total(of_queries), of_rows, None
