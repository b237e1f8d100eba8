"""How long runs will take."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tests.studies.small import TEXT, small_study

from conjoin.datasets.load import load
from conjoin.datasets.registry import Counts
from conjoin.runs.folder import RunFolder
from conjoin.runtime.atomic_files import write_json
from conjoin.studies.estimate import epoch_seconds, estimator
from conjoin.studies.parse import read_study
from conjoin.studies.spec import Study, StudyCell
from conjoin.studies.status import cell_status

PAPER = read_study(Path(__file__).resolve().parents[2] / "studies" / "paper.toml")


def finish(study: Study, cell: StudyCell, root: Path, *, seconds: float, machines: Sequence[str] = ("card",)) -> None:
    folder = RunFolder(root / cell.folder)
    folder.path.mkdir(parents=True)
    for machine in machines:
        folder.begin(cell.run(load(study.source(cell.dataset))), {"name": machine}, None)
        folder.checkpoint_file.touch()
    folder.finish({"seconds_per_epoch": seconds})


def with_facts(study: Study, root: Path) -> None:
    facts = {"graph": "own", "checksum": "", "train": 60, "valid": 10, "test": 15, "entities": 20, "relations": 3}
    path = root / study.name / "own" / "graph.json"
    path.parent.mkdir(parents=True)
    write_json(path, facts)


def test_estimated_seconds_grow_with_every_size() -> None:
    size = Counts(train=1000, valid=10, test=10, entities=500, relations=5)
    cell = PAPER.cells()[0]
    base = epoch_seconds(cell, size, 1e9)
    assert epoch_seconds(cell, Counts(2000, 10, 10, 500, 5), 1e9) == 2 * base
    assert epoch_seconds(cell, Counts(1000, 10, 10, 1000, 5), 1e9) > 1.9 * base
    assert epoch_seconds(cell, size, 1e10) < base


def test_estimates_use_the_entity_width_of_the_form() -> None:
    size = Counts(train=1000, valid=10, test=10, entities=500, relations=5)
    cell = PAPER.cells()[0]
    real = replace(cell, row=replace(cell.row, form="distmult"))
    twice = replace(real, rank=2 * cell.rank)
    assert epoch_seconds(real, size, 1e9) < epoch_seconds(cell, size, 1e9)
    assert epoch_seconds(twice, size, 1e9) == epoch_seconds(cell, size, 1e9)


def test_without_runs_the_measured_speed_is_used(tmp_path: Path) -> None:
    slow = estimator(PAPER, tmp_path, machine="x86_64", speed=1e9)
    fast = estimator(PAPER, tmp_path, machine="x86_64", speed=1e13)
    rough = estimator(PAPER, tmp_path, machine="x86_64")
    cell = PAPER.cells()[0]
    assert (slow.seconds(cell) or 0) > 10 * (fast.seconds(cell) or 0) > 0
    assert "x86_64" in slow.source
    assert not slow.factors
    assert slow.source != rough.source
    assert (slow.seconds(cell, done=50) or 0) < 0.6 * (slow.seconds(cell) or 0)


def test_finished_runs_on_the_same_machine_override_the_speed(tmp_path: Path) -> None:
    study = small_study(tmp_path)
    with_facts(study, tmp_path)
    first, second = study.cells()[0], study.cells()[1]
    finish(study, first, tmp_path, seconds=10.0)
    guess = estimator(study, tmp_path, machine="card", speed=1.0)
    assert re.match(r"1 .*card", guess.source)
    assert 60 < (guess.seconds(second) or 0) < 61
    assert 20 < (guess.seconds(second, done=4) or 0) < 21
    assert 60 < (guess.seconds(study.cells()[2]) or 0) < 61
    finish(study, study.cells()[2], tmp_path, seconds=1.0)
    guess = estimator(study, tmp_path, machine="card")
    assert 60 < (guess.seconds(second) or 0) < 61
    assert 6 < (guess.seconds(study.cells()[3]) or 0) < 6.2
    other = estimator(study, tmp_path, machine="another card")
    assert not other.factors
    left = [cell_status(cell, tmp_path) for cell in study.cells()]
    assert 66 < (guess.total([left[1], left[3]]) or 0.0) < 67.2
    assert guess.cheapest_first([left[1], left[3]]) == [study.cells()[3], study.cells()[1]]
    finish(study, study.cells()[3], tmp_path, seconds=900.0, machines=("slow processor", "card"))
    assert re.match(r"2 .*card", estimator(study, tmp_path, machine="card").source)


def test_a_half_done_run_costs_its_remaining_epochs(tmp_path: Path) -> None:
    study = small_study(tmp_path)
    with_facts(study, tmp_path)
    folder = RunFolder(tmp_path / study.cells()[3].folder)
    folder.path.mkdir(parents=True)
    for epoch in range(1, 6):
        folder.append({"epoch": epoch, "seconds": 1.0})
    folder.checkpoint_file.write_bytes(b"")
    standings = [cell_status(cell, tmp_path) for cell in study.cells()]
    assert estimator(study, tmp_path, machine="card").cheapest_first(standings)[0] == study.cells()[3]


def test_a_graph_of_unknown_size_comes_last(tmp_path: Path) -> None:
    text = TEXT.replace("[settings.own]", '[datasets.umls]\ngraph = "umls"\n\n[settings.own]') + (
        "\n[settings.umls]\ncomplex = { rank = 400, epochs = 1000 }\n"
    )
    study = small_study(tmp_path, text=text)
    guess = estimator(study, tmp_path, machine="card")
    assert guess.seconds(study.cells()[0]) is None
    order = guess.cheapest_first([cell_status(cell, tmp_path) for cell in study.cells()])
    assert [cell.dataset for cell in order] == ["umls"] * 4 + ["own"] * 4
    left = {cell: cell_status(cell, tmp_path) for cell in order}
    assert guess.total([left[order[0]], left[order[-1]]]) is None
    assert guess.total([left[order[0]]]) == guess.seconds(order[0])


def test_a_sampled_softmax_costs_by_its_sample_size() -> None:
    size = Counts(train=1000, valid=10, test=10, entities=50_000, relations=5)
    full = PAPER.cells()[0]
    sampled = replace(full, recipe=replace(full.recipe, negatives=500))
    assert epoch_seconds(sampled, size, 1e9) < epoch_seconds(full, size, 1e9) / 20
    few = replace(size, entities=400)
    assert epoch_seconds(sampled, few, 1e9) == epoch_seconds(full, few, 1e9)
