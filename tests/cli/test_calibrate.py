"""calibrate, fold and train --from on the command line."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.cli.commands import LANDS, TINY, assert_refused, conjoin, write_lines

import conjoin as library
from conjoin.runs.folder import RunFolder
from conjoin.runs.warm_start import seen_in_training


@pytest.fixture
def own(trained: Path, tmp_path: Path) -> Path:
    """A copy of the run that may be changed."""
    return Path(shutil.copytree(trained, tmp_path / "own"))


def test_calibrated_answers(own: Path) -> None:
    pytest.importorskip("sklearn", reason="calibrating needs scikit-learn")
    report = conjoin("calibrate", own, "--json").json
    assert report["file"] == str(own / "calibration.json")
    assert report["about"]["method"] == "isotonic"
    assert report["measured"]["facts"] == 1
    words = ("ask", own, "France", "borders", "-k", 99)
    answers = conjoin(*words, "--min-probability", 0.05, "--json").json["answers"]
    for answer in answers:
        assert (answer["probability"] is None) == answer["known"]
        assert answer["below"] == (not answer["known"] and answer["probability"] < 0.05)
    assert any(answer["below"] for answer in answers)
    table = conjoin(*words, "--min-probability", 0.05).out
    assert "probability" in table
    assert "below" in table
    assert "probability" not in conjoin(*words, "--weights", "best").out
    other = conjoin("calibrate", own, "--method", "platt", "--ratio", 2).out
    assert "0.33" in other
    assert "sigmoid" in other
    assert_refused(conjoin("calibrate", own, "--method", "plat"), "'plat'", "platt")
    assert_refused(conjoin("calibrate", own, "--ratio", 0), "0")


def test_calibrated_scores_and_mined_facts(own: Path) -> None:
    pytest.importorskip("sklearn", reason="calibrating needs scikit-learn")
    measured = conjoin("calibrate", own, "--json").json["measured"]
    assert 0 <= measured["mined"]["right"] <= measured["mined"]["first"]
    file = write_lines(own.parent / "facts.tsv", [("Q0", "P1", "Q1"), ("Q0", "P1", "Q4")])
    known, new = (line.split("\t") for line in conjoin("score", own, file).out.splitlines()[1:])
    assert known[6] == ""
    assert 0 < float(new[6]) < 1
    facts = conjoin("mine", own, "-n", 4, "--json").json["facts"]
    assert all(0 < fact["probability"] < 1 for fact in facts)
    assert f"conjoin calibrate {own}" not in conjoin("mine", own, "-n", 1).err
    assert conjoin("mine", own, "--min-probability", 1, "--json").json["facts"] == []
    assert conjoin("mine", own, "--min-probability", 1).err


def test_folding_a_calibrated_run_advises_to_calibrate_again(own: Path, tmp_path: Path) -> None:
    pytest.importorskip("sklearn", reason="calibrating needs scikit-learn")
    facts, more = write_lines(tmp_path / "new.tsv", [("Q99", "borders", "France")]), tmp_path / "more"
    assert "conjoin calibrate" not in conjoin("fold", own, facts, "-o", tmp_path / "plain").out
    assert conjoin("calibrate", own).code == 0
    assert f"conjoin calibrate {more}" in conjoin("fold", own, facts, "-o", more).out


def test_new_entity_is_folded_in(own: Path, tmp_path: Path) -> None:
    facts = write_lines(
        tmp_path / "new.tsv", [("Q99", "borders", "France"), ("Spain", "P1", "Q99"), ("Q0", "P1", "Q4")]
    )
    labels = write_lines(tmp_path / "labels.tsv", [("Q99", "Andorra")])
    report = conjoin("fold", own, facts, "-o", tmp_path / "more", "--labels", labels, "--json").json
    assert report["new"] == ["Q99"]
    answers = conjoin("ask", tmp_path / "more", "Andorra", "borders", "-k", 99, "--json").json["answers"]
    assert {answer["label"] for answer in answers if answer["known"]} == {"France"}
    assert len(answers) == 2 * len(LANDS)
    assert conjoin("rank", tmp_path / "more", "--json").json["mrr"] == report["test"]["mrr"]
    wrong = write_lines(tmp_path / "wrong.tsv", [("Spian", "P1", "Q99")])
    shown = conjoin("fold", own, wrong, "-o", tmp_path / "again")
    assert "Q99" in shown.out
    assert "Spian" in shown.err
    assert "Spain" in shown.err
    assert "Q99" not in shown.err
    assert_refused(conjoin("fold", own, facts, "-o", tmp_path / "more"), tmp_path / "more")
    old = write_lines(tmp_path / "old.tsv", [("Q0", "P1", "Q1")])
    assert_refused(conjoin("fold", own, old, "-o", tmp_path / "none"))
    bad = write_lines(tmp_path / "bad.tsv", [("Q98", "P1", "Q1"), ("Q99", "P9", "Q1")])
    assert_refused(conjoin("fold", own, bad, "-o", tmp_path / "none"), f"{bad}:2: ", "'P9'")
    assert conjoin("fold", own, bad, "-o", tmp_path / "some", "--on-error", "skip", "--json").json["new"] == ["Q98"]


def test_facts_of_the_first_training_are_not_held_out_in_the_second(tmp_path: Path) -> None:
    """A file that has grown is split anew: what no entity could spare before may be held out now."""
    few = [(f"e{i:02}", "in", "hub") for i in range(60)]
    renamed = [(head, "within" if i % 2 else "in", tail) for i, (head, _, tail) in enumerate(few)]
    facts = [*renamed, *((f"e{i:02}", "next", f"e{(i + k) % 60:02}") for i in range(60) for k in (1, 2))]
    conjoin("train", write_lines(tmp_path / "few.tsv", few), *TINY, "-o", tmp_path / "first")
    whole = write_lines(tmp_path / "whole.tsv", facts)
    went_on = conjoin("train", whole, "--from", tmp_path / "first", "--epochs", 1, "-o", tmp_path / "second")
    assert str(tmp_path / "first") in went_on.err
    first, second = (library.open(tmp_path / name).graph for name in ("first", "second"))
    assert not any(marks.any() for marks in seen_in_training(second, first).values())
    for split in ("valid", "test"):
        assert "hub" not in {second.entities.names[tail] for tail in second.triples(split)[:, 2].tolist()}
    assert any("train" in note for note in second.notes)
    assert len(second.train) + len(second.valid) + len(second.test) == len(facts)
    assert len(second.test) > 0
    again = conjoin("train", whole, "--from", tmp_path / "first", "--epochs", 1, "-o", tmp_path / "second")
    assert again.code == 0
    assert str(tmp_path / "second") in again.err


def test_a_given_split_is_kept_and_leaks_are_reported(own: Path, lands: Path, tmp_path: Path) -> None:
    leaky = Path(shutil.copytree(lands, tmp_path / "leaky"))
    lines = (leaky / "train.tsv").read_text().splitlines(keepends=True)
    (leaky / "train.tsv").write_text("".join(lines[2:]))
    with (leaky / "test.tsv").open("a") as stream:
        stream.writelines([*lines[:3], lines[4]])
    told = conjoin("train", leaky, "--from", own, "--epochs", 1, "-o", tmp_path / "run").err
    assert "leaky: 2 " in told
    assert [line for line in told.splitlines() if str(own) in line and "2" in line]
    assert len(library.open(tmp_path / "run").graph.test) == len(library.open(own).graph.test) + 4
    assert "lands: 2 " not in conjoin("train", lands, *TINY, "--epochs", 1, "-o", tmp_path / "plain").err


def test_training_goes_on_with_a_graph_that_has_grown(own: Path, lands: Path, tmp_path: Path) -> None:
    grown = Path(shutil.copytree(lands, tmp_path / "grown"))
    with (grown / "train.tsv").open("a") as stream:
        stream.write("Q99\tP1\tQ0\nQ1\tP1\tQ99\n")
    refused = conjoin("train", grown, *TINY, "--validate-every", 1, "-o", own, "--resume")
    assert_refused(refused, f"--from {own}")
    report = conjoin("train", grown, "--from", own, "--epochs", 1, "-o", tmp_path / "run", "--json").json
    went_on = RunFolder(tmp_path / "run").run
    assert went_on.origin == f"{RunFolder(own).run.id} last"
    assert (went_on.form, went_on.rank) == (RunFolder(own).run.form, 4)
    scratch = conjoin("train", grown, "--rank", 4, "--epochs", 1, "-o", tmp_path / "scratch", "--json").json
    assert report["id"] != scratch["id"]
    assert RunFolder(tmp_path / "run").events[0]["loss"] < RunFolder(tmp_path / "scratch").events[0]["loss"]
    assert library.open(tmp_path / "run").ask("Q99", "P1")
    other = conjoin("train", grown, "--from", own, "--rank", 8, "-o", tmp_path / "other")
    assert_refused(other, own, "rank 4", "rank 8")
    assert_refused(conjoin("train", grown, "--from", tmp_path / "none"), tmp_path / "none")
