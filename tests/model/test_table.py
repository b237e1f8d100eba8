"""EntityTable: the same numbers under every budget, exact ties, bounded buffers."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracle.memory import Allocations
from tests.oracle.standings import standing
from torch import Tensor

from conjoin.errors import Diverged
from conjoin.model.table import EntityTable

BUDGETS = (None, 1, 3000, 20_000, 200_000)
NOBODY = (torch.empty(0, dtype=torch.long), torch.empty(0, dtype=torch.long))


def whole_numbers(rows: int, width: int, *, seed: int, high: int = 2) -> Tensor:
    """Small integers: every product is exact in float32, and many scores are equal by accident."""
    source = torch.Generator().manual_seed(seed)
    return torch.randint(-high, high + 1, (rows, width), generator=source).float()


def real_numbers(rows: int, width: int, *, seed: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(rows, width, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def pairs(hidden: list[set[int]]) -> tuple[Tensor, Tensor]:
    flat = [(question, entity) for question, entities in enumerate(hidden) for entity in sorted(entities)]
    return torch.tensor([p[0] for p in flat], dtype=torch.long), torch.tensor([p[1] for p in flat], dtype=torch.long)


@st.composite
def questions(draw: st.DrawFn) -> tuple[Tensor, Tensor, Tensor, list[set[int]]]:
    """q, table, targets and hidden entities, among them sometimes the target."""
    entities, batch, width = draw(st.integers(1, 90)), draw(st.integers(1, 40)), draw(st.integers(1, 6))
    seed = draw(st.integers(0, 10**6))
    source = torch.Generator().manual_seed(seed)
    t = torch.randint(entities, (batch,), generator=source)
    few = draw(st.integers(0, entities))
    hidden = [set(torch.randint(entities, (few,), generator=source).tolist()) for _ in range(batch)]
    return whole_numbers(batch, width, seed=seed), whole_numbers(entities, width, seed=seed + 1), t, hidden


@settings(max_examples=50, deadline=None)
@given(questions(), st.sampled_from(BUDGETS))
def test_standing_equals_going_through_all_entities(
    question: tuple[Tensor, Tensor, Tensor, list[set[int]]], budget: int | None
) -> None:
    q, rows, t, hidden = question
    found = EntityTable(rows, budget=budget).standing(q, t, pairs(hidden))
    expected = [standing((q[i] @ rows.T).tolist(), int(t[i]), hidden[i]) for i in range(len(q))]
    assert list(zip(*(part.tolist() for part in found), strict=True)) == expected


@settings(max_examples=50, deadline=None)
@given(questions(), st.sampled_from(BUDGETS), st.integers(1, 100))
def test_best_equals_sorting(
    question: tuple[Tensor, Tensor, Tensor, list[set[int]]], budget: int | None, k: int
) -> None:
    q, rows, _, hidden = question
    k = min(k, len(rows))
    scores = q @ rows.T
    scores[pairs(hidden)] = -torch.inf
    values, ids = EntityTable(rows, budget=budget).best(q, k, pairs(hidden))
    assert torch.equal(values, scores.sort(dim=1, descending=True).values[:, :k])
    assert torch.equal(scores.gather(1, ids), values)
    assert all(len(set(row)) == k for row in ids.tolist())


def test_best_without_hidden_entities_and_with_a_generous_k() -> None:
    q, rows = real_numbers(3, 4, seed=1), real_numbers(50, 4, seed=2)
    for budget in BUDGETS:
        values, ids = EntityTable(rows, budget=budget).best(q, 80)
        expected = (q @ rows.T).sort(dim=1, descending=True)
        torch.testing.assert_close(values, expected.values)
        assert torch.equal(ids, expected.indices)


@pytest.mark.parametrize("batch", [1, 2, 33])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_equal_rows_tie_exactly(dtype: torch.dtype, batch: int) -> None:
    """Whatever the shape: matrix libraries round the columns at an edge differently."""
    torn = []
    for entities in [*range(1, 14), 24, 31, 32, 33, 45, 64, 65, 97, 100, 129, 193, 257]:
        for budget in (None, 1, 20_000):
            rows = real_numbers(1, 6, seed=entities, dtype=dtype).repeat(entities, 1)
            q, t = real_numbers(batch, 6, seed=batch, dtype=dtype), torch.arange(batch) % entities
            better, tied, _ = EntityTable(rows, budget=budget).standing(q, t, NOBODY)
            if better.any() or (tied != entities - 1).any():
                torn.append((entities, budget))
    assert torn == []


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("budget", [None, 20_000])
def test_numbers_of_two_bytes_are_counted_exactly(dtype: torch.dtype, budget: int | None) -> None:
    """They have no whole number beyond 256 or 2,048 beside the next one."""
    entities = 5001
    table = EntityTable((torch.arange(entities) % 3).to(dtype)[:, None], budget=budget)
    found = table.standing(torch.ones(3, 1, dtype=dtype), torch.arange(3), NOBODY)
    third = entities // 3
    assert [part.tolist() for part in found] == [[2 * third, third, 0], [third - 1] * 3, [entities] * 3]


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("budget", BUDGETS)
def test_a_score_that_is_not_finite_raises(bad: float, budget: int | None) -> None:
    for place in ("first entity", "last entity", "query"):
        q, rows = real_numbers(3, 4, seed=1), real_numbers(200, 4, seed=2)
        if place == "query":
            q[2, 3] = bad
        else:
            rows[0 if place == "first entity" else -1, 0] = bad
        table = EntityTable(rows, budget=budget)
        with pytest.raises(Diverged, match="learning rate"):
            table.standing(q, torch.tensor([3, 4, 5]), NOBODY)
        with pytest.raises(Diverged):
            table.best(q, 3)


def test_a_hidden_target_still_counts() -> None:
    rows = torch.tensor([[3.0], [2.0], [2.0], [1.0]])
    found = EntityTable(rows).standing(torch.ones(1, 1), torch.tensor([1]), pairs([{0, 1}]))
    assert [part.tolist() for part in found] == [[0], [1], [3]]


def test_look_up_and_scores_are_differentiable() -> None:
    table = EntityTable(real_numbers(5, 3, seed=0))
    assert len(table) == 5
    ids = torch.tensor([4, 0, 4])
    assert torch.equal(table(ids), table.weight[ids])
    q = real_numbers(2, 3, seed=1)
    assert torch.equal(table.scores(q), q @ table.weight.T)
    table(ids).sum().backward()
    assert table.weight.grad is not None
    assert table.weight.grad[:, 0].tolist() == [1, 0, 0, 0, 2]


@pytest.mark.parametrize("budget", [None, 1, 100])
def test_nll_is_cross_entropy_with_its_gradient(budget: int | None) -> None:
    table = EntityTable(real_numbers(9, 3, seed=0), budget=budget)
    q, t = real_numbers(4, 3, seed=1).requires_grad_(), torch.tensor([8, 0, 8, 3])
    (3 * table.nll(q, t)).backward()  # type: ignore[no-untyped-call]
    again = [q.detach().clone().requires_grad_(), table.weight.detach().clone().requires_grad_()]
    (3 * torch.nn.functional.cross_entropy(again[0] @ again[1].T, t)).backward()  # type: ignore[no-untyped-call]
    torch.testing.assert_close(q.grad, again[0].grad)
    torch.testing.assert_close(table.weight.grad, again[1].grad)
    assert torch.autograd.gradcheck(lambda *_: table.nll(q, t), (q, table.weight))


ENTITIES, WIDTH, BATCH = 6000, 4, 64
BUDGET = 256 << 10
DENSE = BATCH * ENTITIES * 4


def bounded() -> tuple[EntityTable, Tensor, Tensor]:
    """A table far smaller than the budget, whose scores are six times larger than it."""
    table = EntityTable(real_numbers(ENTITIES, WIDTH, seed=0, dtype=torch.float32), budget=BUDGET)
    return table, real_numbers(BATCH, WIDTH, seed=1, dtype=torch.float32), torch.arange(BATCH)


def test_the_monitor_sees_a_dense_loss() -> None:
    table, q, t = bounded()
    table.budget = None
    with Allocations() as seen:
        table.nll(q, t)
    assert seen.largest == DENSE
    assert table.path(BATCH).startswith("dense")


def test_the_bounded_loss_does_not_allocate_the_score_matrix() -> None:
    table, q, t = bounded()
    with Allocations() as seen:
        loss = table.nll(q.requires_grad_(), t)
        loss.backward()  # type: ignore[no-untyped-call]
    assert BUDGET / 2 < seen.largest <= BUDGET
    assert seen.peak <= 2 * BUDGET + 4 * ENTITIES * WIDTH * 4 < DENSE
    assert table.path(BATCH).startswith("chunked by ")


def test_bounded_ranking_and_best_hold_no_matrix_of_scores() -> None:
    table, q, t = bounded()
    hidden = torch.arange(BATCH).repeat_interleave(3), torch.arange(3 * BATCH)
    for work in (lambda: table.standing(q, t, hidden), lambda: table.best(q, 10, hidden)):
        with Allocations() as seen:
            work()
        assert BUDGET / 4 < seen.largest <= BUDGET
        assert seen.peak < DENSE / 2
    at_once = table.questions_at_once()
    assert at_once >= 1
    assert at_once == 32 or at_once * ENTITIES * 4 <= BUDGET


@pytest.mark.parametrize(
    ("budget", "batch", "words"), [(400, 10, "dense"), (399, 10, "chunked"), (1, 1, "chunked by 1 ")]
)
def test_the_path_follows_from_sizes_alone(budget: int, batch: int, words: str) -> None:
    assert EntityTable(torch.zeros(10, 4), budget=budget).path(batch).startswith(words)
