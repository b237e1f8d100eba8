"""Cross-entropy against a whole table: at once, in chunks, and one number at a time."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from conjoin.model.softmax import chunked_softmax, dense_softmax


def drawn(batch: int, entities: int, width: int, *, size: float, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    source = torch.Generator().manual_seed(seed)
    q = torch.randn(batch, width, generator=source, dtype=torch.float64) * size
    table = torch.randn(entities, width, generator=source, dtype=torch.float64)
    return q, table, torch.randint(entities, (batch,), generator=source)


def one_by_one(q: Tensor, table: Tensor, t: Tensor) -> tuple[list[float], list[list[float]], list[list[float]]]:
    """nll, d mean(nll) / dq and d mean(nll) / d table, in loops."""
    (batch, width), entities = q.shape, len(table)
    nll, dq, dtable = [], [[0.0] * width for _ in range(batch)], [[0.0] * width for _ in range(entities)]
    for i in range(batch):
        scores = [math.fsum(float(q[i, j] * row[j]) for j in range(width)) for row in table]
        top = max(scores)
        total = math.fsum(math.exp(s - top) for s in scores)
        nll.append(top + math.log(total) - scores[int(t[i])])
        for e in range(entities):
            share = (math.exp(scores[e] - top) / total - float(e == int(t[i]))) / batch
            for j in range(width):
                dq[i][j] += share * float(table[e, j])
                dtable[e][j] += share * float(q[i, j])
    return nll, dq, dtable


def close(found: Tensor, wanted: list[float] | list[list[float]] | Tensor) -> None:
    torch.testing.assert_close(found, torch.as_tensor(wanted, dtype=torch.float64), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("chunk", [None, 1, 3, 6, 50])
def test_numbers_and_gradients_equal_loops(chunk: int | None) -> None:
    q, table, t = drawn(4, 6, 3, size=2.0, seed=0)
    t[1] = t[0]
    out = torch.full_like(table, torch.nan)
    nll, dq = (
        dense_softmax(q, table, t, out=out) if chunk is None else chunked_softmax(q, table, t, out=out, chunk=chunk)
    )
    expected_nll, expected_dq, expected_out = one_by_one(q, table, t)
    close(nll, expected_nll)
    close(dq, expected_dq)
    close(out, expected_out)


@st.composite
def problems(draw: st.DrawFn) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, table and targets, from scores that are all alike to scores far apart."""
    batch, entities, width = draw(st.integers(1, 9)), draw(st.integers(1, 40)), draw(st.integers(1, 6))
    size = draw(st.sampled_from([1e-3, 1.0, 300.0]))
    return drawn(batch, entities, width, size=size, seed=draw(st.integers(0, 10**6)))


@settings(max_examples=60, deadline=None)
@given(problems(), st.integers(1, 50))
def test_chunks_change_nothing(problem: tuple[Tensor, Tensor, Tensor], chunk: int) -> None:
    q, table, t = problem
    whole, parts = torch.full_like(table, torch.nan), torch.full_like(table, torch.nan)
    nll, dq = dense_softmax(q, table, t, out=whole)
    chunked_nll, chunked_dq = chunked_softmax(q, table, t, out=parts, chunk=chunk)
    close(chunked_nll, nll)
    close(chunked_dq, dq)
    close(parts, whole)
    assert bool((nll >= -1e-9).all())


@pytest.mark.parametrize("chunk", [None, 2])
def test_gradients_are_those_of_autograd(chunk: int | None) -> None:
    q, table, t = drawn(5, 7, 4, size=1.0, seed=3)
    leaves = q.clone().requires_grad_(), table.clone().requires_grad_()
    torch.nn.functional.cross_entropy(leaves[0] @ leaves[1].T, t).backward()  # type: ignore[no-untyped-call]
    out = torch.empty_like(table)
    _, dq = dense_softmax(q, table, t, out=out) if chunk is None else chunked_softmax(q, table, t, out=out, chunk=chunk)
    for found, leaf in zip((dq, out), leaves, strict=True):
        assert leaf.grad is not None
        close(found, leaf.grad)


@pytest.mark.parametrize("chunk", [None, 2])
def test_a_number_that_is_not_finite_reaches_the_loss(chunk: int | None) -> None:
    for bad in (torch.nan, torch.inf, -torch.inf):
        q, table, t = drawn(3, 5, 2, size=1.0, seed=4)
        q[1, 0] = bad
        out = torch.empty_like(table)
        nll, _ = (
            dense_softmax(q, table, t, out=out) if chunk is None else chunked_softmax(q, table, t, out=out, chunk=chunk)
        )
        assert torch.isfinite(nll).tolist() == [True, False, True]
