"""The page about patterns says what the results say, and the study of ties is what the algebra enumerates."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.paper.fabricated import ran, study_in

pytest.importorskip("scipy", reason="tests between models need SciPy: pip install 'conjoin[study]'")

from paper.predictions import Predictions
from paper.tie_orbits import representatives

from conjoin.forms.notation import parse
from conjoin.graph.graph import Graph
from conjoin.report.collect import collect
from conjoin.studies.parse import read_study
from paper import patterns_effects, patterns_ties, write_patterns_doc, write_ties_study

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_the_pages_are_current() -> None:
    texts = [doc.read_text(encoding="utf-8") for doc in write_patterns_doc.DOCS]
    named = [block["name"] for text in texts for block in write_patterns_doc.BLOCK.finditer(text)]
    assert sorted(named) == sorted(write_patterns_doc.BLOCKS)
    for text in texts:
        assert write_patterns_doc.filled(text) == text, "run `python -m paper.write_patterns_doc`"


def test_the_study_of_ties_is_current() -> None:
    written = write_ties_study.FILE.read_text(encoding="utf-8")
    assert written == write_ties_study.content(), "run `python -m paper.write_ties_study`"


def test_the_study_of_ties_has_every_orbit_once() -> None:
    study = read_study(write_ties_study.FILE)
    forms = [parse(row.form_text) for row in study.rows.values() if row.group != "control"]
    assert sorted(map(str, forms)) == sorted(map(str, representatives()))


def test_predictions_are_about_the_study_and_told_as_such() -> None:
    study = read_study(ROOT / "studies" / "patterns.toml")
    asked = Predictions.read(ROOT / "studies" / "patterns-predictions.toml", study)
    assert sum(len(each.claims) for each in asked.predictions) > 20
    told = write_patterns_doc.predictions()
    assert told.count("**Predicted: ") == len(asked.predictions)
    assert f"by more than {asked.margin} in MRR" in told


def test_the_plot_shows_the_numbers_of_the_page() -> None:
    drawn = patterns_effects.PLOT.read_text(encoding="utf-8")
    assert f"<!-- numbers: {patterns_effects.digest()} -->" in drawn, "run `python -m paper.write_patterns_doc`"
    assert "prefers-color-scheme:dark" in drawn


def test_popularity_by_hand() -> None:
    """Of the tails of r, b counts 2, c 1; (d, r, c) is asked where b is known: c is first. Heads of r are even."""
    graph = Graph.from_triples(
        [("a", "r", "b"), ("d", "r", "b"), ("e", "r", "c")], None, [("d", "r", "c"), ("a", "r", "c")]
    )
    # tails: both asked with b filtered, so c leads: 1, 1. heads of c: e is known; d and a count 1 each, and each is
    # filtered from the other's question: 1, 1.
    assert patterns_ties.popularity(graph) == pytest.approx(1.0)
    lonely = Graph.from_triples([("a", "r", "b"), ("d", "r", "b"), ("e", "r", "c")], None, [("c", "r", "c")])
    # (c, r, ?): b counts 2 and c 1, so c is second. (?, r, c): c counts 0, e is known, a and d count 1 and b ties.
    assert patterns_ties.popularity(lonely) == pytest.approx((1 / 2 + 1 / 3.5) / 2)


def test_every_row_of_the_study_of_ties_is_of_one_kind() -> None:
    study = read_study(write_ties_study.FILE)
    tied = [row for row in study.rows.values() if row.group != "control"]
    assert sum(patterns_ties._sees(row) for row in tied) == 13
    kinds = {row.name: patterns_ties._between(row) for row in tied if patterns_ties._sees(row)}
    assert kinds["5star-conj"] == kinds["5star-neg"] == kinds["b_a.c_conj_a"] == "c = ±conj(b)"
    assert kinds["b_conj_a.c_conj_a"] == kinds["5star-twin"] == "c = b"
    assert kinds["b_minus_a.c_a"] == "c = −b"


def test_a_tie_that_is_better_at_a_small_rank_is_held_against_the_paper_s(place: Path) -> None:
    for row, better, worse in (("5star-conj", 0.49, 0.35), ("5star-neg", 0.50, 0.34)):
        ran(place, "WN18RR", row, [better])
        ran(place, "FB15K-237", row, [worse])
    paper = collect(study_in(place), place / "studies" / "results")
    told = [patterns_ties._full_size(paper, "5star-neg", "5★ε_n", names) for names in (["WN18RR"], ["FB15K-237"])]
    assert told[0] == " With the paper's rank and epochs 5★ε_n minus 5★ε is WN18RR +0.010: the order is kept."
    assert told[1].endswith("FB15K-237 −0.010: the order is not kept.")
    assert patterns_ties._full_size(paper, "5star-neg", "5★ε_n", ["WN18"]) == ""


def test_predictions_about_the_penalty_are_about_the_study() -> None:
    study = read_study(ROOT / "studies" / "ties-penalty.toml")
    asked = Predictions.read(ROOT / "studies" / "ties-penalty-predictions.toml", study)
    assert [each.name for each in asked.predictions] == ["direction-survives", "others-collapse", "weak-penalty"]
