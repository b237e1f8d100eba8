"""The CPU's softmax in tiles: any tile, any memory, the numbers of the whole matrix."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.model.test_softmax import drawn, problems
from torch import Tensor

from conjoin.model.softmax import CACHED, GRAIN, dense_softmax, tile_rows, tiled_softmax
from conjoin.model.table import EntityTable


@settings(max_examples=80, deadline=None)
@given(problems(), st.integers(1, 50), st.integers(1, 60))
def test_any_tile_and_any_memory_change_nothing(problem: tuple[Tensor, Tensor, Tensor], tile: int, room: int) -> None:
    q, table, t = problem
    wanted, found = torch.full_like(table, torch.nan), torch.full_like(table, torch.nan)
    nll, dq = dense_softmax(q, table, t, out=wanted)
    tile = min(tile, len(table))
    scratch = q.new_full((min(room * tile, len(table)) * len(q),), torch.nan)
    tiled_nll, tiled_dq = tiled_softmax(q, table, t, out=found, tile=tile, scratch=scratch)
    for one, other in ((tiled_nll, nll), (tiled_dq, dq), (found, wanted)):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)


def test_growing_scores_do_not_overflow() -> None:
    table = torch.arange(1.0, 9.0)[:, None] * 100
    q, t, out = torch.ones(1, 1), torch.tensor([0]), torch.empty(8, 1)
    nll, _ = tiled_softmax(q, table, t, out=out, tile=2, scratch=torch.empty(8))
    assert nll.tolist() == pytest.approx([700.0])
    torch.testing.assert_close(out.squeeze(1), torch.tensor([-1.0, 0, 0, 0, 0, 0, 0, 1]))


@pytest.mark.parametrize("size", [0.1, 300.0])
def test_targets_of_one_query_are_as_many_queries(size: float) -> None:
    q, table, t = drawn(6, 11, 4, size=size, seed=2)
    place, share = torch.tensor([0, 1, 1, 2, 0, 0]), torch.tensor([3, 2, 1], dtype=q.dtype) / 6
    wanted, found = torch.empty_like(table), torch.empty_like(table)
    nll, dq = dense_softmax(q[place], table, t, out=wanted)
    scratch = q.new_empty(3 * len(table))
    told, grouped = tiled_softmax(q[:3], table, t, out=found, tile=4, scratch=scratch, place=place, share=share)
    summed = torch.zeros_like(grouped).index_add_(0, place, dq)
    for one, other in ((told, nll), (grouped, summed), (found, wanted)):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("size", [0.1, 30.0], ids=["no score is large", "scores far apart"])
@pytest.mark.parametrize("kept", [40, 12], ids=["all tiles kept", "some computed again"])
def test_rounded_factors_change_gradients_by_their_rounding_and_losses_not_at_all(size: float, kept: int) -> None:
    q, table, t = drawn(9, 40, 6, size=size, seed=5)
    wanted, exact, found = (torch.empty_like(table) for _ in range(3))
    nll, dq = dense_softmax(q, table, t, out=wanted)
    q, table, exact, found = q.float(), table.float(), exact.float(), found.float()
    full, _ = tiled_softmax(q, table, t, out=exact, tile=4, scratch=q.new_empty(kept * 9))
    scratch = torch.full((kept * 9,), torch.nan, dtype=torch.bfloat16)
    told, short = tiled_softmax(q, table, t, out=found, tile=4, scratch=scratch)
    assert torch.equal(told, full)
    torch.testing.assert_close(told.double(), nll, rtol=1e-4, atol=1e-4)
    for one, other in ((short, dq), (found, wanted)):
        off = float((one - other).norm() / other.norm())
        assert 1e-5 < off < 2**-7, "rounded to eight bits, no more and no less"


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
def test_a_number_that_is_not_finite_reaches_the_loss(bad: float) -> None:
    q, table, t = drawn(3, 5, 2, size=1.0, seed=4)
    q[1, 0] = bad
    nll, _ = tiled_softmax(q, table, t, out=torch.empty_like(table), tile=2, scratch=q.new_empty(15))
    assert torch.isfinite(nll).tolist() == [True, False, True]


def test_the_same_step_gives_the_same_bits() -> None:
    source = torch.Generator().manual_seed(0)
    table = EntityTable(torch.randn(3000, 20, generator=source), budget=1 << 20)
    q, t = torch.randn(200, 20, generator=source), torch.randint(3000, (200,), generator=source)
    outs = [torch.empty(3000, 20) for _ in range(3)]
    found = [table.softmax(q, t, out=out) for out in outs]
    assert table.path(200).startswith("chunked")
    assert all(torch.equal(out, outs[0]) for out in outs)
    assert all(torch.equal(part, first) for pair in found for part, first in zip(pair, found[0], strict=True))


def test_the_buffer_stays_and_serves_a_shorter_last_batch() -> None:
    table = EntityTable(torch.randn(50, 4, generator=torch.Generator().manual_seed(0)))
    out = torch.empty(50, 4)
    for batch in (8, 3, 8):
        table.softmax(torch.ones(batch, 4), torch.arange(batch), out=out)
        assert table._scratch is not None
        assert len(table._scratch) == 400
    assert "_scratch" not in table.state_dict()


@pytest.mark.parametrize(("batch", "width"), [(1, 2), (200, 64), (1000, 200), (1000, 10_000), (1 << 20, 2)])
def test_a_tile_fits_the_cache_and_begins_aligned(batch: int, width: int) -> None:
    rows = tile_rows(batch, width)
    assert rows % GRAIN == 0
    assert rows == GRAIN or rows * max(batch, width) <= CACHED
