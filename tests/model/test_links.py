"""Every link on every path of the entity table: the loss and gradients of autograd, exact ranks, exact ties."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.forms.test_link import drawn
from tests.oracle.standings import standing
from torch import Tensor

from conjoin.forms.link import LINKS
from conjoin.model.softmax import NegativeSample
from conjoin.model.table import EntityTable

BUDGETS = (None, 1, 900, 6000)
BATCH, ENTITIES, WIDTH = 6, 23, 4


def problem(link: str, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    q, rows = drawn(link, BATCH, ENTITIES, WIDTH, seed)
    t = torch.tensor([3, 0, 22, 3, 7, 7])
    return q, rows, t


def naive(link: str, q: Tensor, rows: Tensor, t: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Losses, and the gradients of their mean, by autograd."""
    leaves = q.detach().clone().requires_grad_(), rows.detach().clone().requires_grad_()
    losses = torch.nn.functional.cross_entropy(LINKS[link].scores(*leaves), t, reduction="none")
    dq, drows = torch.autograd.grad(losses.mean(), leaves)
    return losses.detach(), dq, drows


def close(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found.detach(), expected, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("name", LINKS)
def test_softmax_equals_autograd(name: str, budget: int | None) -> None:
    q, rows, t = problem(name)
    table = EntityTable(rows.clone(), link=LINKS[name], budget=budget)
    out = torch.full_like(rows, torch.nan)
    for found, expected in zip((*table.softmax(q, t, out=out), out), naive(name, q, rows, t), strict=True):
        close(found, expected)
    if name != "dot":
        assert name in table.path(BATCH)


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("name", LINKS)
def test_grouped_queries_equal_autograd(name: str, budget: int | None) -> None:
    """Several targets have one query."""
    q, rows, t = problem(name)
    place, share = torch.tensor([0, 1, 1, 2, 0, 0]), torch.tensor([3, 2, 1], dtype=q.dtype) / 6
    nll, dq, expected = naive(name, q[place], rows, t)
    out = torch.full_like(rows, torch.nan)
    table = EntityTable(rows.clone(), link=LINKS[name], budget=budget)
    found = table.softmax(q[:3], t, out=out, place=place, share=share)
    close(found[0], nll)
    close(found[1], torch.zeros_like(found[1]).index_add_(0, place, dq))
    close(out, expected)


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("name", LINKS)
def test_softmax_by_tiles_equals_autograd(name: str, budget: int | None) -> None:
    """Every tile's rows are changed as soon as their gradient is known."""
    q, rows, t = problem(name)
    table = EntityTable(rows.clone(), link=LINKS[name], budget=budget)
    gradient = torch.full_like(rows, torch.nan)

    def take(start: int, of_tile: Tensor) -> None:
        gradient[start : start + len(of_tile)] = of_tile
        table.weight.detach()[start : start + len(of_tile)] = torch.nan

    for found, expected in zip(
        (*table.softmax_by_tiles(q, t, take=take), gradient), naive(name, q, rows, t), strict=True
    ):
        close(found, expected)


@pytest.mark.parametrize("name", LINKS)
def test_sampled_softmax_equals_autograd(name: str) -> None:
    """The sample repeats an entity and holds a target."""
    q, rows, t = problem(name)
    ids, log_q = torch.tensor([1, 3, 9, 9, 20]), torch.tensor([0.1, 0.4, -0.2, -0.2, 0.3], dtype=q.dtype)
    of_targets = torch.linspace(-0.5, 0.5, BATCH, dtype=q.dtype)
    leaves = q.clone().requires_grad_(), rows.clone().requires_grad_()
    scores = LINKS[name].scores(*leaves)
    drawn_scores = (scores[:, ids] - log_q).masked_fill(ids == t[:, None], -torch.inf)
    truth = scores[torch.arange(BATCH), t] - of_targets
    losses = torch.cat([truth[:, None], drawn_scores], dim=1).logsumexp(dim=1) - truth
    wanted = torch.autograd.grad(losses.mean(), leaves)
    gradient = torch.zeros_like(rows)
    table = EntityTable(rows.clone(), link=LINKS[name])

    def take(which: Tensor, each: Tensor) -> None:
        gradient.index_add_(0, which, each)

    nll, dq = table.sampled_softmax(q, t, NegativeSample(ids, log_q, of_targets), take=take)
    for found, expected in zip((nll, dq, gradient), (losses.detach(), *wanted), strict=True):
        close(found, expected)


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("name", LINKS)
def test_gradients_of_nll_equal_autograd(name: str, budget: int | None) -> None:
    q, rows, t = problem(name)
    table = EntityTable(rows.clone(), link=LINKS[name], budget=budget)

    table.nll(q.requires_grad_(), t).backward()  # type: ignore[no-untyped-call]
    _, dq, drows = naive(name, q, rows, t)
    assert q.grad is not None
    assert table.weight.grad is not None
    close(q.grad, dq)
    close(table.weight.grad, drows)


@pytest.mark.parametrize("name", LINKS)
@settings(max_examples=12, deadline=None)
@given(
    st.tuples(st.integers(1, 140), st.integers(1, 40), st.integers(1, 20)),
    st.integers(0, 10**6),
    st.sampled_from(BUDGETS),
)
def test_ranks_are_exact_and_equal_entities_tie(
    name: str, sizes: tuple[int, int, int], seed: int, budget: int | None
) -> None:
    """Few different rows, each many times, in float32: whoever equals the target ties with it and nobody else."""
    entities, batch, width = sizes
    q, rows = (x.float() for x in drawn(name, batch, max(1, entities // 4), width, seed))
    source = torch.Generator().manual_seed(seed)
    copies = torch.randint(len(rows), (entities,), generator=source)
    t = torch.randint(entities, (batch,), generator=source)
    table = EntityTable(rows[copies].clone(), link=LINKS[name], budget=budget)
    none = torch.empty(0, dtype=torch.long)
    found = table.standing(q, t, (none, none))
    scores, ids = table.best(q, entities)
    for i in range(batch):
        by_entity = torch.empty(entities).index_copy_(0, ids[i], scores[i])
        expected = standing(by_entity.tolist(), int(t[i]), set())
        assert tuple(int(part[i]) for part in found) == expected
        for other in range(len(rows)):
            assert len(set(by_entity[copies == other].tolist())) <= 1
    for each, kept in zip(table.scores(q).detach(), zip(scores, ids, strict=True), strict=True):
        torch.testing.assert_close(each[kept[1]], kept[0], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", LINKS)
def test_score_is_the_entry_of_scores(name: str) -> None:
    q, rows, t = problem(name, seed=4)
    table = EntityTable(rows, link=LINKS[name])
    close(table.score(q, t), table.scores(q).detach()[torch.arange(BATCH), t])


@pytest.mark.parametrize("name", LINKS)
def test_similarity_ignores_the_bias(name: str) -> None:
    _, rows, _ = problem(name)
    vectors = rows[:, :WIDTH]
    expected = torch.nn.functional.cosine_similarity(vectors, vectors[2:3], dim=1)
    close(EntityTable(rows, link=LINKS[name]).cosines(rows[2]), expected)
