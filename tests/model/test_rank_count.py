"""Counting kernel against the counts of a CPU."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("triton", reason="triton is not installed: it is for Linux only")

from conjoin.model import rank_count
from conjoin.model.rank_count import count
from conjoin.model.table import EntityTable

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 40), st.integers(1, 6), st.integers(0, 2**31), st.integers(0, 5))
def test_rank_counts_equal_plain_comparison(entities: int, rows: int, seed: int, room: int) -> None:
    source = torch.Generator().manual_seed(seed)
    scores = torch.randint(4, (rows, entities + room), generator=source).float()
    t = torch.randint(entities, (rows,), generator=source)
    hidden = torch.rand(rows, entities, generator=source) < 0.3
    question, entity = hidden.nonzero(as_tuple=True)
    found = count(scores.to(DEVICE), t.to(DEVICE), (question.to(DEVICE), entity.to(DEVICE)), entities)
    assert found is not None
    for row in range(rows):
        target = scores[row, t[row]]
        others = [i for i in range(entities) if i != t[row] and not hidden[row, i]]
        better = sum(bool(scores[row, i] > target) for i in others)
        tied = sum(bool(scores[row, i] == target) for i in others)
        assert [int(part[row]) for part in found] == [better, tied, len(others) + 1]


def test_more_columns_than_one_program_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rank_count, "SPAN", 16)
    scores = torch.arange(50.0).expand(3, 50).contiguous().to(DEVICE)
    nobody = torch.empty(0, dtype=torch.long, device=DEVICE)
    found = count(scores, torch.tensor([0, 20, 49], device=DEVICE), (nobody, nobody), 50)
    assert found is not None
    assert found[0].tolist() == [49, 29, 0]


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")  # NumPy in the interpreter meets inf - inf
@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
def test_a_score_that_is_not_finite_is_noticed(bad: float) -> None:
    scores = torch.zeros(2, 9, device=DEVICE)
    nobody = torch.empty(0, dtype=torch.long, device=DEVICE)
    t = torch.zeros(2, dtype=torch.long, device=DEVICE)
    assert count(scores, t, (nobody, nobody), 9) is not None
    scores[1, 5] = bad
    assert count(scores, t, (nobody, nobody), 9) is None


def test_gpu_counts_equal_blockwise_counts() -> None:
    source = torch.Generator().manual_seed(5)
    table = EntityTable(torch.randint(-2, 3, (50, 4), generator=source).float().to(DEVICE))
    q = torch.randint(-2, 3, (6, 4), generator=source).float().to(DEVICE)
    t = torch.randint(50, (6,), generator=source).to(DEVICE)
    hidden = torch.arange(6, device=DEVICE).repeat_interleave(3), torch.arange(18, device=DEVICE)
    wanted = EntityTable(table.weight.detach().cpu()).standing(q.cpu(), t.cpu(), (hidden[0].cpu(), hidden[1].cpu()))
    found = table._counted(q, t, hidden)
    assert [part.tolist() for part in found] == [part.tolist() for part in wanted]
