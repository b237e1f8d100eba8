"""The planner's arithmetic: terms that a person can compute, and a peak that is measured."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from conjoin.algebra.notation import form
from conjoin.errors import UsageError
from conjoin.model.model import Model
from conjoin.model.table import CPU_BUDGET, GPU_BUDGET
from conjoin.plan.memory import BUDGET, Setting, Sizes, memory, parameters, tying

SCRIPT = Path(__file__).resolve().parents[2] / "bench" / "plan.py"
SIZES = Sizes(entities=1000, relations=10, train=5000, valid=100, test=100)
SETTING = Setting(form=form("5star-conj"), rank=8, batch=100)


def test_budgets_are_those_of_the_table() -> None:
    assert {"cpu": CPU_BUDGET, "cuda": GPU_BUDGET} == BUDGET


@pytest.mark.parametrize("name", ["complex", "complex-conj", "5star", "5star-conj"])
def test_parameters_are_those_of_a_model(name: str) -> None:
    model = Model(name, 1000, 10, rank=8)
    entities, relations = parameters(SIZES, replace(SETTING, form=form(name)))
    assert (entities + relations, relations) == (model.n_parameters, model.n_relation_parameters)


def test_terms_by_hand() -> None:
    found = memory(SIZES, SETTING)
    table = 4 * (1000 * 16 + 20 * 32)
    assert (found.table, found.optimizer, found.gradient, found.best_weights) == (table, table, table, 0)
    assert found.examples == 2 * 5000 * 3 * 8
    assert found.scores == 2 * 4 * 100 * 1000
    assert memory(SIZES, replace(SETTING, optimizer="adam", validates=True)).best_weights == table
    assert memory(SIZES, replace(SETTING, optimizer="sgd")).optimizer == 0


def test_scores_never_exceed_twice_the_budget_and_rows_are_shared() -> None:
    large = replace(SIZES, entities=10_000_000)
    assert memory(large, SETTING).scores == CPU_BUDGET
    four = memory(large, replace(SETTING, processes=4))
    assert four.table - 4 * 20 * 32 == (memory(large, SETTING).table - 4 * 20 * 32) // 4


def test_ties_save_relations_only() -> None:
    saved = tying(SIZES, SETTING)
    assert saved.share_of_relations == 0.5
    assert saved.saved_bytes == 3 * 4 * 20 * 32
    assert saved.share_of_everything == pytest.approx(32 * 20 / (64 * 20 + 16 * 1000))
    assert tying(SIZES, replace(SETTING, form=form("5star"))).saved_bytes == 0


def test_nonsense_is_refused() -> None:
    with pytest.raises(UsageError):
        Sizes(entities=0, relations=1, train=1)
    with pytest.raises(UsageError):
        replace(SETTING, processes=0)


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
