"""Speeds from files, and estimates by them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.studies.test_estimate import PAPER

from conjoin.errors import ConjoinError
from conjoin.runtime.atomic_files import write_json
from conjoin.studies.estimate import estimator
from conjoin.studies.spec import StudyCell
from conjoin.studies.speeds import RecordedSpeed, family_of, read_speeds

LINE: dict[str, Any] = {
    "dataset": "wn18rr",
    "form": "5star",
    "rank": 500,
    "batch": 1000,
    "seconds_per_epoch": 0.15,
    "seconds_per_validation": 0.3,
    "peak_bytes": 1,
}


def cell(row: str, dataset: str = "WN18RR") -> StudyCell:
    return PAPER.cell(dataset, PAPER.rows[row], 0)


def test_a_list_or_a_table_of_cells_is_read(tmp_path: Path) -> None:
    without = {**LINE, "seconds_per_epoch": None}
    write_json(tmp_path / "list.json", [LINE, without])
    write_json(tmp_path / "table.json", {"machine": "card", "cells": [LINE]})
    wanted = (RecordedSpeed(dataset="wn18rr", form="5star", rank=500, batch=1000, seconds=0.15, validation=0.3),)
    assert read_speeds(tmp_path / "list.json") == wanted
    assert read_speeds(tmp_path / "table.json") == wanted


@pytest.mark.parametrize(
    "told",
    [
        3,
        {"rows": []},
        ["a"],
        [{**LINE, "rank": "500"}],
        [{**LINE, "batch": 0}],
        [{"seconds_per_epoch": 1}],
        [{**LINE, "seconds_per_validation": "0.3 s"}],
    ],
)
def test_invalid_speed_files_raise(tmp_path: Path, told: Any) -> None:
    write_json(tmp_path / "file.json", told)
    with pytest.raises(ConjoinError, match=r"file\.json"):
        read_speeds(tmp_path / "file.json")


def test_a_measured_speed_is_exact_for_its_cell_and_scales_within_its_family(tmp_path: Path) -> None:
    star = RecordedSpeed(dataset="wn18rr", form="5star", rank=500, batch=1000, seconds=0.15, validation=0.3)
    plain = RecordedSpeed(dataset="WN18RR", form="complex", rank=2000, batch=100, seconds=2.0, validation=0.3)
    guess = estimator(PAPER, tmp_path, machine="card", speeds=[star, plain])
    rankings = 120 + 2 * (1 + 3134 / 3034)
    assert guess.seconds(cell("5star")) == pytest.approx(600 * 0.15 + 0.3 * rankings)
    assert guess.seconds(cell("5star-neg")) == guess.seconds(cell("5star"))
    assert guess.seconds(cell("complex-twin")) == pytest.approx(100 * 2.0 + 0.3 * (rankings - 100))
    half, whole = guess.seconds(cell("complex-half")), guess.seconds(cell("complex"))
    assert 0.4 < (half or 0) / (whole or 1) < 0.7
    assert guess.source == "2 measured speeds"
    assert guess.seconds(cell("complex", "FB15K")) is not None


def test_families() -> None:
    assert {family_of(form) for form in ("5star-conj", "5★ε", "FiveStar(d=a)")} == {"5star"}
    assert {family_of(form) for form in ("complex", "quate", "ComplEx(a2=a1)")} == {"complex"}
