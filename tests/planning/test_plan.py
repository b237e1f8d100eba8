"""Advice that holds: what is recommended fits, and one step more does not."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conjoin.forms.notation import form
from conjoin.planning.memory_model import PlannedSetting, PlannedSizes, memory
from conjoin.planning.plan import USABLE, DoesNotFit, make_plan, refuse_unless_fits, sized

SIZES = PlannedSizes(entities=5_000_000, relations=100, train=1_000_000, valid=100, test=100)
SETTING = PlannedSetting(form=form("5star-conj"), rank=100, batch=1000)


@given(st.integers(2 << 30, 200 << 30), st.integers(2, 400).map(lambda half: 2 * half))
def test_recommendations_fit_and_are_the_largest(available: int, rank: int) -> None:
    setting = replace(SETTING, rank=rank)
    plan = make_plan(SIZES, setting, available=available)
    advice = plan.recommendation
    chosen = replace(setting, rank=advice.rank, batch=advice.batch, processes=advice.shards)
    assert memory(SIZES, chosen).peak <= USABLE * available
    if not plan.fits and advice.rank != rank:
        assert memory(SIZES, replace(chosen, rank=advice.rank + 2)).peak > USABLE * available
    if plan.fits:
        refuse_unless_fits(SIZES, setting, available=available)
    else:
        with pytest.raises(DoesNotFit, match="--memory-limit"):
            refuse_unless_fits(SIZES, setting, available=available)


def test_recommends_more_processes_for_a_distributed_setting() -> None:
    large = replace(SIZES, entities=1_000_000_000)
    plan = make_plan(large, replace(SETTING, processes=2, device="cuda"), available=141 * 10**9)
    advice = plan.recommendation
    assert (advice.rank, advice.precision) == (100, "tf32")
    fewer = replace(plan.setting, processes=advice.shards - 1)
    assert memory(large, replace(fewer, processes=advice.shards)).peak <= USABLE * 141e9 < memory(large, fewer).peak


def test_no_rank_is_recommended_for_too_many_triples() -> None:
    plan = make_plan(replace(SIZES, train=10**10), SETTING, available=10**9)
    assert plan.fits is False
    assert "the rest alone needs 160 GB" in " ".join(plan.recommendation.sentences)
    assert plan.to_json()["fits"] is False


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 kB"), (1500, "1.5 kB"), (2.5e6, "2.5 MB"), (3e9, "3 GB"), (2.4e12, "2.4 TB")]
)
def test_sizes_in_decimal_units(count: float, text: str) -> None:
    assert sized(count) == text


def test_bf16_is_recommended_where_its_copy_of_the_table_fits() -> None:
    on_gpu = replace(SETTING, device="cuda", precision="tf32")
    assert make_plan(SIZES, on_gpu, available=141 * 10**9).recommendation.precision == "bf16"
    tight = int(memory(SIZES, on_gpu).peak / USABLE) + 1
    assert make_plan(SIZES, on_gpu, available=tight).recommendation.precision == "tf32"
    assert make_plan(SIZES, replace(on_gpu, negatives=100), available=141 * 10**9).recommendation.precision == "tf32"
