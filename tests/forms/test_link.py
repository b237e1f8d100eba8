"""Every link against its formula in loops, and its gradients against finite differences."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracle import links as oracle
from torch import Tensor

from conjoin.errors import UnknownName
from conjoin.forms.link import LINKS, Link, LinkNames, link_named


def drawn(link: str, queries: int, entities: int, width: int, seed: int) -> tuple[Tensor, Tensor]:
    """Queries and entity rows for a link, N(0, 1); normals of planes have length 1."""
    source = torch.Generator().manual_seed(seed)
    q = torch.randn(queries, width * oracle.QUERY_PARTS.get(link, 1), generator=source, dtype=torch.float64)
    if link == "hyperplane":
        q[:, width:] /= q[:, width:].norm(dim=1, keepdim=True)
    rows = torch.randn(entities, width + oracle.COLUMNS.get(link, 0), generator=source, dtype=torch.float64)
    return q, rows


def test_every_link_has_an_oracle() -> None:
    assert set(LINKS) == set(oracle.PAIRS)
    assert set(LinkNames()) == set(LINKS) - set(oracle.QUERY_PARTS)
    assert all(link_named(name) is link and link.name == name for name, link in LINKS.items())
    assert len(LinkNames()) == len(list(LinkNames()))
    with pytest.raises(UnknownName, match="l3"):
        link_named("l3")


@pytest.mark.parametrize("name", LINKS)
@settings(max_examples=25, deadline=None)
@given(st.integers(1, 5), st.integers(1, 9), st.integers(1, 5), st.integers(0, 10**6))
def test_scores_and_pairs_equal_the_oracle(name: str, queries: int, entities: int, width: int, seed: int) -> None:
    q, rows = drawn(name, queries, entities, width, seed)
    link, formula = LINKS[name], oracle.PAIRS[name]
    expected = torch.tensor([[formula(x, y) for y in rows.tolist()] for x in q.tolist()], dtype=torch.float64)
    torch.testing.assert_close(link.scores(q, rows), expected, rtol=1e-8, atol=1e-8)
    numbers = torch.arange(queries) % entities
    found = link.pairs(q, rows[numbers])
    torch.testing.assert_close(found, expected[torch.arange(queries), numbers], rtol=1e-8, atol=1e-8)
    assert link.points(rows).shape == (entities, width)


@pytest.mark.parametrize("name", LINKS)
def test_autograd_passes_finite_differences(name: str) -> None:
    q, rows = (x.requires_grad_() for x in drawn(name, 3, 4, 3, seed=1))
    assert torch.autograd.gradcheck(LINKS[name].scores, (q, rows))
    assert torch.autograd.gradcheck(LINKS[name].pairs, (q, rows[:3]))


@pytest.mark.parametrize("name", LINKS)
@settings(max_examples=15, deadline=None)
@given(st.integers(1, 5), st.integers(1, 9), st.integers(1, 5), st.integers(0, 10**6))
def test_pull_equals_autograd(name: str, queries: int, entities: int, width: int, seed: int) -> None:
    q, rows = (x.requires_grad_() for x in drawn(name, queries, entities, width, seed))
    link = LINKS[name]
    upstream = torch.randn(queries, entities, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    wanted = torch.autograd.grad(link.scores(q, rows), (q, rows), upstream)
    for found, expected in zip(link.pull(upstream, q.detach(), rows.detach()), wanted, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-8, atol=1e-8)
    several = rows[torch.arange(queries) % entities].detach().requires_grad_()
    wanted = torch.autograd.grad(link.pairs(q, several), (q, several), upstream[:, 0])
    for found, expected in zip(link.pull_pairs(upstream[:, 0], q.detach(), several.detach()), wanted, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("name", LINKS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_gradients_are_finite_where_query_and_entity_coincide(name: str, dtype: torch.dtype) -> None:
    q, rows = (x.to(dtype) for x in drawn(name, 2, 96, 3, seed=2))
    rows[:, :3] = q[0, :3]
    link = LINKS[name]
    found = link.scores(q, rows), *link.pull(torch.ones(2, 96, dtype=dtype), q, rows)
    assert all(bool(torch.isfinite(each).all()) and each.dtype == dtype for each in found)


def test_links_without_pull_use_autograd() -> None:
    class Cubic(Link):
        name = "cubic"

        def scores(self, q: Tensor, rows: Tensor) -> Tensor:
            return (q @ rows.T) ** 3

        def pairs(self, q: Tensor, rows: Tensor) -> Tensor:
            return (q * rows).sum(dim=1) ** 3

    q, rows = drawn("dot", 3, 4, 2, seed=3)
    with torch.no_grad():
        dq, drows = Cubic().pull(torch.ones(3, 4, dtype=q.dtype), q, rows)
    weight = 3 * (q @ rows.T) ** 2
    torch.testing.assert_close(dq, weight @ rows)
    torch.testing.assert_close(drows, weight.T @ q)
