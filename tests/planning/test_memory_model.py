"""The planner's arithmetic: terms that a person can compute, and a peak that is measured."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from conjoin.errors import UsageError
from conjoin.forms.notation import form
from conjoin.model.model import Model
from conjoin.model.table import CPU_BUDGET, GPU_BUDGET, EntityTable
from conjoin.planning.memory_model import (
    BUDGET,
    GATHERING,
    PIECES,
    PROGRAM,
    TILE,
    PlannedSetting,
    PlannedSizes,
    memory,
    parameters,
)
from conjoin.planning.tie_savings import tie_savings
from conjoin.training.batches import CPU_SPAN, GPU_SPAN

SCRIPT = Path(__file__).resolve().parents[2] / "bench" / "plan.py"
SIZES = PlannedSizes(entities=1000, relations=10, train=5000, valid=100, test=100)
SETTING = PlannedSetting(form=form("5star-conj"), rank=8, batch=100)


def test_budgets_equal_those_of_the_table() -> None:
    assert {"cpu": CPU_BUDGET, "cuda": GPU_BUDGET} == BUDGET


@pytest.mark.parametrize("name", ["complex", "complex-conj", "5star", "5star-conj"])
def test_parameters_equal_those_of_a_model(name: str) -> None:
    model = Model(name, 1000, 10, rank=8)
    entities, relations = parameters(SIZES, replace(SETTING, form=form(name)))
    assert (entities + relations, relations) == (model.n_parameters, model.n_relation_parameters)


def test_terms_by_hand() -> None:
    found = memory(SIZES, SETTING)
    table = 4 * (1000 * 16 + 20 * 32)
    assert (found.table, found.optimizer, found.gradient, found.best_weights) == (table, table, table, 0)
    assert found.examples == 2 * 5000 * 3 * 8
    assert found.scores == 4 * 100 * 1000
    assert memory(SIZES, replace(SETTING, optimizer="adam", validates=True)).best_weights == table
    assert memory(SIZES, replace(SETTING, optimizer="sgd")).optimizer == 0


def test_a_table_beyond_the_budget_has_no_gradient_and_rows_are_shared() -> None:
    relations = 4 * 20 * 32
    large = replace(SIZES, entities=10_000_000)
    assert memory(replace(SIZES, entities=2_000_000), SETTING).scores == CPU_BUDGET
    assert (memory(large, SETTING).scores, memory(large, SETTING).gradient) == (TILE, relations)
    four = memory(large, replace(SETTING, processes=4))
    assert four.table - relations == (memory(large, SETTING).table - relations) // 4
    assert memory(large, replace(SETTING, negatives=500)).gradient < 1e6


def test_memory_of_triples_is_bounded_by_a_span() -> None:
    """Beyond it only the order of an epoch grows, and on a GPU not even that."""
    few, many = replace(SIZES, train=CPU_SPAN // 2), replace(SIZES, train=50 * GPU_SPAN)
    assert memory(few, SETTING).examples == 24 * CPU_SPAN
    for batch, span in ((100, CPU_SPAN), (3 * CPU_SPAN, 3 * CPU_SPAN)):
        found = memory(many, replace(SETTING, batch=batch))
        assert (found.examples, found.shuffling) == (0, 8 * 100 * GPU_SPAN + GATHERING * span)
    for precision in ("fp32", "bf16"):
        on_gpu = replace(SETTING, device="cuda", precision=precision)
        without = [replace(sizes, valid=0, test=0) for sizes in (many, replace(many, train=100 * GPU_SPAN))]
        assert len({memory(sizes, on_gpu).peak for sizes in without}) == 1
        assert memory(without[1], on_gpu).host > memory(without[0], on_gpu).host > 8 * 100 * GPU_SPAN


def test_freed_heap_memory_is_counted_up_to_a_bound() -> None:
    few, many = (memory(SIZES, replace(SETTING, rank=rank)) for rank in (8, 500_000))
    answers, slots = 6 * 2 * 8, 5 * (2 * 2 + 2) * 8
    assert few.program == PROGRAM["cpu"] + 4 * SETTING.batch * (answers + slots)
    assert many.program == PROGRAM["cpu"] + PIECES < many.activations
    assert few.peak == few.table * 3 + few.examples + few.scores + few.program + few.activations + few.ranking


def test_a_plain_step_on_a_gpu_by_hand() -> None:
    """What an H200 had in use for this one was 4,076 MB."""
    sizes = PlannedSizes(entities=1_000_000, relations=100, train=2_000, valid=100, test=100)
    found = memory(sizes, PlannedSetting(form=form("5star-conj"), rank=100, batch=200, device="cuda"))
    table, scores = 800_000_000, 800_000_000
    assert found.peak == pytest.approx(3 * table + 2 * scores + 76e6, rel=0.01)


@pytest.mark.parametrize(("entities", "rank", "batch"), [(1000, 8, 100), (2_000_000, 8, 100), (5_000_000, 8, 100)])
def test_the_path_is_the_one_that_the_table_takes(entities: int, rank: int, batch: int) -> None:
    table = EntityTable(torch.empty(entities, 2 * rank, device="meta"))
    sizes, setting = replace(SIZES, entities=entities), replace(SETTING, rank=rank, batch=batch)
    assert (memory(sizes, setting).gradient > 4 * 20 * 32) != table.in_tiles(batch)


def test_ties_save_relations_only() -> None:
    saved = tie_savings(SIZES, SETTING)
    assert saved.share_of_relations == 0.5
    assert saved.saved_bytes == 3 * 4 * 20 * 32
    assert saved.share_of_everything == pytest.approx(32 * 20 / (64 * 20 + 16 * 1000))
    assert tie_savings(SIZES, replace(SETTING, form=form("5star"))).saved_bytes == 0


def test_impossible_sizes_are_refused() -> None:
    with pytest.raises(UsageError, match=r"2\^63"):
        PlannedSizes(entities=10**400, relations=1, train=1)
    with pytest.raises(UsageError):
        PlannedSizes(entities=0, relations=1, train=1)
    with pytest.raises(UsageError):
        replace(SETTING, processes=0)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="peaks are read from /proc")
def test_a_measured_peak_is_within_15_percent() -> None:
    small = {
        "name": "small",
        "entities": 60_000,
        "relations": 10,
        "train": 100,
        "form": "5star-conj",
        "rank": 50,
        "batch": 200,
    }
    words = [sys.executable, str(SCRIPT), "--one", json.dumps(small)]
    told = json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()[-1])
    assert abs(told["off"]) < 0.15, told
