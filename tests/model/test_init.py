"""Starting numbers belong to (seed, stream, row), whoever draws them."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from conjoin.model import init
from conjoin.model.init import generator, normal_rows


def rows(start: int, stop: int, width: int, *, seed: int = 0, stream: str = "entities") -> torch.Tensor:
    return normal_rows(start, stop, width, seed=seed, stream=stream, scale=1.0)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 300), st.integers(0, 300), st.integers(1, 20), st.integers(0, 5))
def test_any_range_is_a_slice_of_the_whole(first: int, second: int, width: int, seed: int) -> None:
    start, stop = sorted((first, second))
    assert torch.equal(rows(start, stop, width, seed=seed), rows(0, 300, width, seed=seed)[start:stop])


@pytest.mark.parametrize("span", [(0, 64), (0, 96), (40, 64), (31, 48), (32, 64), (70, 96), (33, 33)])
def test_ranges_across_blocks(span: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(init, "BLOCK", 32)
    whole = rows(0, 96, 8)
    assert torch.equal(rows(*span, 8), whole[span[0] : span[1]])
    assert not torch.equal(whole[:32], whole[32:64])


def test_the_law_is_normal_with_the_wanted_scale() -> None:
    drawn = normal_rows(0, 20_000, 8, seed=1, stream="entities", scale=1e-3).double() / 1e-3
    assert drawn.mean().item() == pytest.approx(0, abs=0.01)
    assert drawn.std().item() == pytest.approx(1, abs=0.01)
    assert (drawn.abs() < 1).double().mean().item() == pytest.approx(0.6827, abs=0.01)
    assert torch.corrcoef(drawn.T).fill_diagonal_(0).abs().max() < 0.04
    assert normal_rows(0, 3, 4, seed=1, stream="entities", scale=1.0).dtype == torch.float32


def test_seeds_and_streams_are_apart() -> None:
    drawn = [rows(0, 16, 4, seed=seed, stream=stream) for seed in (0, 1) for stream in ("entities", "relations")]
    assert len({tuple(part.flatten().tolist()) for part in drawn}) == 4
    assert torch.equal(drawn[0], rows(0, 16, 4))


def test_generators_depend_on_their_name_only() -> None:
    numbers = [torch.randint(1 << 60, (1,), generator=generator(1, "order", 12)).item() for _ in range(2)]
    assert numbers[0] == numbers[1]
    others = [(11, "order", 2), (1, "order", 2), (1, "other", 12), (-1, "order", 12), (1 << 70, "order", 12)]
    assert len({*numbers, *(torch.randint(1 << 60, (1,), generator=generator(*o)).item() for o in others)}) == 6
