"""Tied forms against their originals by pattern, on runs with known ranks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from paper.row_ranking import ranked
from tests.report.fabricated import finished

from conjoin.datasets.load import load
from conjoin.errors import RunError
from conjoin.evaluation.ranks import Ranks
from conjoin.report import pattern_effects as module
from conjoin.report.collect import collect
from conjoin.report.pattern_effects import EVERYTHING, pattern_effects, pattern_section
from conjoin.studies.parse import read_study
from conjoin.studies.pattern_groups import pattern_groups, patterns_file
from conjoin.studies.spec import Study

pytest.importorskip("scipy", reason="relation patterns need SciPy: pip install 'conjoin[study]'")
STUDY = """
name = "split"
rows = [
    {{ name = "complex", form = "complex" }},
    {{ name = "tied", form = "complex-conj", settings = "complex" }},
    {{ name = "odd", form = "complex-conj", options = {{ layout = "published" }}, settings = "complex" }},
]

[datasets.own]
graph = "{graph}"

[settings.own]
complex = {{ rank = 4 }}
"""
GRAPH = "synthetic:combination(entities=100)"


def study_of(folder: Path, graph: str = GRAPH) -> Study:
    (folder / "split.toml").write_text(STUDY.format(graph=graph), encoding="utf-8")
    return read_study(folder / "split.toml")


def ranks_on(graph_name: str, *, symmetric: int, others: int) -> Ranks:
    """Every test question of the symmetric relation has one place, all others another."""
    graph = load(graph_name)
    asked = np.repeat(graph.test, 2, axis=0)
    where = asked[:, 1] == graph.relations.find("befriends")
    better = np.where(where, symmetric, others) - 1
    better = better + np.arange(len(better)) // 2 % 2
    nobody = np.zeros(len(asked), dtype=np.int64)
    direction = np.arange(len(asked)) % 2
    return Ranks(asked[:, 0], asked[:, 1], asked[:, 2], direction, better, nobody, np.full(len(asked), 100))


def filled(study: Study, root: Path) -> None:
    checksum = load(GRAPH).checksum
    for cell in study.cells():
        ranks = ranks_on(GRAPH, symmetric=1 if cell.row.name == "complex" else 4, others=3)
        finished(root, cell, mrr=0.5, ranks=ranks, checksum=checksum)


def test_a_loss_on_one_pattern_is_found_there(tmp_path: Path) -> None:
    study = study_of(tmp_path)
    filled(study, tmp_path)
    findings = collect(study, tmp_path)
    found = pattern_effects(findings, tmp_path)
    by_group = {test.group: test for test in found.tests}
    assert {test.tied.row.name for test in found.tests} == {"tied"}, "another layout is another model"
    assert by_group["symmetric"].verdict(0.05) == "loses"
    assert by_group["symmetric"].paired.difference == pytest.approx((1 / 4 + 1 / 5 - 1 - 1 / 2) / 2, abs=0.02)
    assert by_group["inverse"].verdict(0.05) == "not told apart"
    assert by_group["inverse"].paired.difference == 0
    assert by_group[EVERYTHING].paired.triples == len(load(GRAPH).test)
    assert [table.title for table in pattern_section(findings, found).tables]


def test_patterns_are_kept_and_a_report_needs_no_data(tmp_path: Path) -> None:
    study = study_of(tmp_path)
    first = pattern_groups(study, "own", tmp_path)
    assert first is not None
    kept = patterns_file(study, "own", tmp_path)
    assert kept.exists()
    elsewhere = replace(study, datasets={"own": replace(study.datasets["own"], graph="not-here")})
    again = pattern_groups(elsewhere, "own", tmp_path)
    assert again is not None
    assert {name: ids.tolist() for name, ids in again.relations.items()} == {
        name: ids.tolist() for name, ids in first.relations.items()
    }
    kept.unlink()
    assert pattern_groups(elsewhere, "own", tmp_path) is None


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    study = study_of(tmp_path)
    pattern_groups(study, "own", tmp_path)
    kept = patterns_file(study, "own", tmp_path)
    kept.write_text(kept.read_text(encoding="utf-8").replace('"pairs"', '"pears"'), encoding="utf-8")
    with pytest.raises(RunError, match="patterns"):
        pattern_groups(study, "own", tmp_path)
    filled(study, tmp_path)
    assert any("patterns" in text for text in pattern_effects(collect(study, tmp_path), tmp_path).missing)


def test_missing_cells_are_named(tmp_path: Path) -> None:
    study = study_of(tmp_path)
    found = pattern_effects(collect(study, tmp_path), tmp_path)
    assert found.missing == ("own complex", "own tied")
    assert not found.tests


def test_rows_are_ranked_and_tested_against_one(tmp_path: Path) -> None:
    study = study_of(tmp_path)
    filled(study, tmp_path)
    order = ranked(collect(study, tmp_path), "own", reference="tied")
    assert [each.outcome.row.name for each in order] == ["complex", "tied", "odd"]
    assert order[0].holm is not None
    assert order[0].holm < 0.05
    assert order[1].against is None
    assert order[2].against is not None
    assert order[2].against.difference == 0


def test_only_rows_of_equal_settings_are_paired(tmp_path: Path) -> None:
    """5★ε◇ has settings of its own, the published layout is no tie: a difference would not be that of tying."""
    paper = collect(read_study(Path(__file__).parents[2] / "studies" / "paper.toml"), tmp_path)
    assert {(original.row.name, tied.row.name) for original, tied in module._pairs(paper, "WN18RR")} == {
        ("complex", "complex-conj"),
        *(("5star", f"5star-{name}") for name in ("conj", "neg", "vert", "horiz")),
    }
