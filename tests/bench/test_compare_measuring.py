"""Measurements: what they contain, never how long they took."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from bench.compare import ranking
from bench.compare.cells import BenchCell, graph_of
from bench.compare.growth import Sweep, grow
from bench.compare.growth_text import in_words, slope
from bench.compare.machine_rates import Rates, measured_rates
from bench.compare.plain_torch import seconds_alone
from bench.compare.pykeen_runner import PykeenRunner
from bench.compare.ranking import asking
from bench.compare.results import hardware_of, page_of, ranges, read, table_of, write
from bench.compare.training import Effort, against_floor, measure_training, part_of, time_to

from conjoin.errors import UsageError
from conjoin.runtime.device import has_bf16_products

CPU = torch.device("cpu")
QUICK = Effort(seconds=0.01, rounds=2)
RATES = Rates(4.3e12, 790e12, "bf16", 50e12)


def found(theme: str, cells: list[dict[str, Any]]) -> dict[str, Any]:
    machine = {"device": "cpu", "name": "x86_64", "threads": 2, "torch": "2.13", "python": "3.12", "commit": "abc"}
    rates = {"bytes_per_second": 1e10, "flops_per_second": 1e11, "flops_of": "fp32", "exact_flops_per_second": 1e11}
    told = {"hardware": "2cores", "date": "2026-11-15", "command": "conjoin bench", "load": "0 0 0"}
    return {"theme": theme, "machine": machine, "rates": rates, "cells": cells, **told}


@pytest.mark.parametrize(
    ("entities", "rank", "batch", "examples", "floor"),
    [(14_541, 500, 2000, 544_230, 0.060), (14_541, 2000, 100, 544_230, 1.77), (40_943, 2000, 100, 173_670, 1.59)],
)
def test_floors_follow_from_the_shapes(entities: int, rank: int, batch: int, examples: int, floor: float) -> None:
    told = RATES.training_floor(entities=entities, rank=rank, batch=batch, examples=examples)
    assert told == pytest.approx(floor, rel=0.01)


def test_exact_products_raise_the_floor() -> None:
    rates, shape = Rates(1e30, 4.0, "bf16", 1.0), {"entities": 1, "rank": 1, "batch": 1, "examples": 1}
    assert [rates.training_floor(**shape, fast_part=part) for part in (1, 2 / 3, 0)] == pytest.approx([3, 6, 12])


@pytest.mark.slow
def test_cell_result_holds_every_program(tmp_path: Path) -> None:
    cell = BenchCell("random-60", "5star-conj", 4, 20)
    told = against_floor(measure_training(cell, CPU, effort=QUICK), RATES)
    wanted = {
        "seconds_per_epoch",
        "plain_seconds",
        "plain_alone_seconds",
        "wide_seconds",
        "floor_seconds",
        "peak_bytes",
    }
    assert all(told[key] > 0 for key in wanted)
    assert told["pykeen_seconds"] is None
    assert told["examples_per_second"] == pytest.approx(240 / told["seconds_per_epoch"])
    assert told["path"].startswith("dense")
    stored, page = write(tmp_path, found("train", [told]))
    assert stored.name == "train_2cores_2026-11-15.json"
    assert read(stored)["cells"][0]["plain_seconds"] == told["plain_seconds"]
    written = page.read_text(encoding="utf-8")
    assert "| random-60 | 5star-conj | 4 | 20 | fp32 |" in written
    assert f"| random-60 | fp32 | {told['plain_seconds'] / told['seconds_per_epoch']:.1f} |" in written


@pytest.mark.slow
def test_failed_plain_program_reports_its_error() -> None:
    with pytest.raises(UsageError, match=r"failed on random-60/nothing/4/20/fp32 with exit status 1: .*nothing"):
        seconds_alone(BenchCell("random-60", "nothing", 4, 20), steps=1, rounds=1)


def test_ranges_state_minimum_and_maximum() -> None:
    cell = {
        "dataset": "x",
        "precision": "fp32",
        "seconds_per_epoch": 1.0,
        "together_seconds": 0.5,
        "plain_seconds": 2.0,
    }
    other = {**cell, "seconds_per_epoch": 0.5, "pykeen_seconds": 4.0}
    assert "| x | fp32 | 2.0 to 4.0 | 4.0 | - | - | - | - | 8.0 | 8.0 |" in ranges([cell, other])
    assert not ranges([{**cell, "together_seconds": None}])


def test_a_form_that_was_never_published_has_no_plain_column() -> None:
    told = against_floor(measure_training(BenchCell("random-60", "quate", 4, 20), CPU, effort=QUICK), RATES)
    assert told["plain_seconds"] is told["plain_alone_seconds"] is told["wide_seconds"] is None
    assert " plain " not in table_of(found("train", [told]))


def test_ranking_cell_is_measured() -> None:
    cell = BenchCell("random-60", "complex", 4, 20)
    told = ranking.against_floor(ranking.measure_ranking(cell, CPU, effort=QUICK), RATES)
    assert told["fraction_of_floor"] * told["seconds"] == pytest.approx(
        RATES.ranking_floor(entities=60, rank=4, questions=120)
    )
    assert told["questions"] == 120
    assert told["seconds"] > 0
    assert told["plain_seconds"] > 0
    assert "| random-60 | complex | 4 | 120 |" in page_of(found("rank", [told]))


def test_part_of_a_graph_keeps_the_known_answers() -> None:
    graph = graph_of("random-60")
    assert len(part_of(graph, 40).train) == 20
    assert part_of(graph, 10_000) is graph
    part = asking(graph, 10)
    assert len(part.test) == 5
    assert len(part.known) == len(graph.known)


def test_time_to_quality_stops_at_the_target() -> None:
    cell = BenchCell("random-60", "complex", 4, 20)
    (first,) = time_to(cell, CPU, mrr=0.0, every=2, epochs=6)
    assert first["epochs"] == 2
    assert 0 < first["first_epoch_seconds"] < first["training_seconds"] < first["seconds"]
    assert [told["epochs"] for told in time_to(cell, CPU, mrr=1.1, every=2, epochs=5)] == [2, 4, 5]


def test_growth_measures_every_size_once() -> None:
    sweep = Sweep(entities=(20, 40), ranks=(2, 4), batches=(5, 10), at_entities=40, at_rank=4, at_batch=10)
    points = list(grow(sweep, CPU, seconds=0))
    assert [point["moves"] for point in points] == ["entities"] * 2 + ["rank"] * 2 + ["batch"] * 2
    assert points[1]["seconds"] == points[3]["seconds"] == points[5]["seconds"]
    assert [point["table_bytes"] for point in points[:2]] == [20 * 8 * 4, 40 * 8 * 4]
    assert "| entities | 20 | 4 | 10 |" in page_of(found("growth", points))


def test_slope_is_the_exponent_of_growth() -> None:
    sizes = [10, 100, 1000, 10_000]
    assert slope(sizes, [0.5 * n**0.9 for n in sizes]) == pytest.approx(0.9)
    points = [
        {"moves": "entities", "entities": n, "rank": 8, "batch": 10, "seconds": n * 1e-6, "peak_bytes": 100 * n**2}
        for n in sizes
    ]
    (sentence,) = in_words(points)
    assert re.findall(r"[\d.,]*\d", sentence) == ["8", "10", "2.00", "4.00", "1.00", "2.00", "100", "10,000"]


@pytest.mark.slow
def test_rates_are_measured() -> None:
    rates = measured_rates(CPU)
    assert rates.flops_of == ("bf16" if has_bf16_products() else "fp32")
    assert rates.bytes_per_second > 1e8
    assert min(rates.flops_per_second, rates.exact_flops_per_second) > 1e8


def test_best_rates_of_two_measurements_are_kept() -> None:
    cold, warm = Rates(1.0, 4.0, "bf16", 2.0), Rates(3.0, 2.0, "bf16", 2.5)
    assert cold.best(warm) == warm.best(cold) == Rates(3.0, 4.0, "bf16", 2.5)


def test_machine_name_is_short() -> None:
    assert hardware_of({"device": "cuda:0", "name": "NVIDIA H200"}, 16) == "h200"
    assert hardware_of({"device": "cpu", "name": "x86_64"}, 2) == "2cores"


def pretend(folder: Path, *, fails: bool = False) -> PykeenRunner:
    """An interpreter that has PyKEEN, as far as anyone can tell from outside."""
    script = folder / "python"
    lines = [
        f"#!{sys.executable}",
        "import json, sys",
        "if sys.argv[1] == '-c': print('9.9'); sys.exit()",
        "wanted = json.load(open(sys.argv[2]))",
        f"if {fails}: sys.exit('it broke')",
        "print('noise'); print(json.dumps({'seconds': 2.5, 'asked': wanted}))",
    ]
    script.write_text("\n".join(lines), encoding="utf-8")
    script.chmod(0o755)
    return PykeenRunner(script)


def test_pykeen_is_measured_in_its_interpreter(tmp_path: Path) -> None:
    other = pretend(tmp_path)
    assert other.check() == "9.9"
    told = measure_training(BenchCell("random-60", "complex", 4, 20), CPU, effort=QUICK, plain=False, other=other)
    assert told["pykeen_seconds"] == 2.5
    graph = graph_of("random-60")
    asked = other.train(BenchCell("random-60", "complex", 4, 20), graph, device="cpu", effort=QUICK)["asked"]
    assert (asked["entities"], asked["rank"], asked["batch"], asked["theme"]) == (60, 4, 20, "train")
    assert other.train(BenchCell("random-60", "5star", 4, 20), graph, device="cpu", effort=QUICK) == {}


def test_an_interpreter_without_pykeen_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot import PyKEEN"):
        PykeenRunner(tmp_path / "nowhere").check()
    with pytest.raises(UsageError, match="PyKEEN failed on random-60/complex/4/20/fp32: it broke"):
        pretend(tmp_path, fails=True).rank(
            BenchCell("random-60", "complex", 4, 20), graph_of("random-60"), device="cpu"
        )
    killed = PykeenRunner(tmp_path / "killed")
    killed.python.write_text("#!/bin/sh\nkill -9 $$\n", encoding="utf-8")
    killed.python.chmod(0o755)
    with pytest.raises(UsageError, match="PyKEEN failed on random-60/complex/4/20/fp32: exit status -9"):
        killed.rank(BenchCell("random-60", "complex", 4, 20), graph_of("random-60"), device="cpu")


def test_the_results_are_plain_json() -> None:
    told = measure_training(BenchCell("random-60", "complex", 4, 20), CPU, effort=QUICK, plain=False)
    assert json.loads(json.dumps(told)) == told
