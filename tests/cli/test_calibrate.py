"""calibrate, fold and going on from a run, as a person types them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.cli.commands import LANDS, TINY, conjoin, write_lines

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
    assert "prior 0.33" in other
    assert "uncalibrated: sigmoid" in other
    assert "Did you mean platt?" in conjoin("calibrate", own, "--method", "plat").err
    assert "ratio = 0 is too small" in conjoin("calibrate", own, "--ratio", 0).err


def test_calibrated_scores_and_mined_facts(own: Path) -> None:
    pytest.importorskip("sklearn", reason="calibrating needs scikit-learn")
    assert "their probabilities add up to" in conjoin("calibrate", own).out
    file = write_lines(own.parent / "facts.tsv", [("Q0", "P1", "Q1"), ("Q0", "P1", "Q4")])
    known, new = (line.split("\t") for line in conjoin("score", own, file).out.splitlines()[1:])
    assert known[6] == ""
    assert 0 < float(new[6]) < 1
    facts = conjoin("mine", own, "-n", 4, "--json").json["facts"]
    assert all(0 < fact["probability"] < 1 for fact in facts)
    assert "of 1 facts as plausible as these were right" in conjoin("mine", own, "-n", 1).err
    assert "No such fact was found." in conjoin("mine", own, "--min-probability", 1).err


def test_a_run_folded_from_a_calibrated_one_says_that_it_has_no_probabilities(own: Path, tmp_path: Path) -> None:
    pytest.importorskip("sklearn", reason="calibrating needs scikit-learn")
    facts, more = write_lines(tmp_path / "new.tsv", [("Q99", "borders", "France")]), tmp_path / "more"
    words = "were not taken along: conjoin calibrate"
    assert words not in conjoin("fold", own, facts, "-o", tmp_path / "plain").out
    assert conjoin("calibrate", own).code == 0
    assert f"{words} {more} fits them anew" in conjoin("fold", own, facts, "-o", more).out


def test_a_new_land_is_folded_in(own: Path, tmp_path: Path) -> None:
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
    assert "Spian is taken for a new entity. If Spain was meant, correct" in shown.err
    assert "Q99 is taken" not in shown.err
    assert "holds a run" in conjoin("fold", own, facts, "-o", tmp_path / "more").err
    old = write_lines(tmp_path / "old.tsv", [("Q0", "P1", "Q1")])
    assert "nothing to fold in" in conjoin("fold", own, old, "-o", tmp_path / "none").err
    bad = write_lines(tmp_path / "bad.tsv", [("Q98", "P1", "Q1"), ("Q99", "P9", "Q1")])
    refused = conjoin("fold", own, bad, "-o", tmp_path / "none").err
    assert f"{bad}:2: unknown relation 'P9'." in refused
    assert "A new relation cannot be folded in" in refused
    assert conjoin("fold", own, bad, "-o", tmp_path / "some", "--on-error", "skip", "--json").json["new"] == ["Q98"]


def test_what_a_run_was_trained_on_is_not_held_out_when_training_goes_on(tmp_path: Path) -> None:
    """A file that has grown is split anew: what no entity could spare before may be held out now."""
    few = [(f"e{i:02}", "in", "hub") for i in range(60)]
    renamed = [(head, "within" if i % 2 else "in", tail) for i, (head, _, tail) in enumerate(few)]
    facts = [*renamed, *((f"e{i:02}", "next", f"e{(i + k) % 60:02}") for i in range(60) for k in (1, 2))]
    conjoin("train", write_lines(tmp_path / "few.tsv", few), *TINY, "-o", tmp_path / "first")
    whole = write_lines(tmp_path / "whole.tsv", facts)
    went_on = conjoin("train", whole, "--from", tmp_path / "first", "--epochs", 1, "-o", tmp_path / "second")
    assert f"between entities that {tmp_path / 'first'} was trained to link go to train" in went_on.err
    first, second = (library.open(tmp_path / name).graph for name in ("first", "second"))
    assert not any(marks.any() for marks in seen_in_training(second, first).values())
    for split in ("valid", "test"):
        assert "hub" not in {second.entities.names[tail] for tail in second.triples(split)[:, 2].tolist()}
    assert any("went to train" in note for note in second.notes)
    assert len(second.train) + len(second.valid) + len(second.test) == len(facts)
    assert len(second.test) > 0
    again = conjoin("train", whole, "--from", tmp_path / "first", "--epochs", 1, "-o", tmp_path / "second")
    assert "was finished before" in again.err


def test_a_given_split_is_kept_and_what_leaks_is_told(own: Path, lands: Path, tmp_path: Path) -> None:
    leaky = Path(shutil.copytree(lands, tmp_path / "leaky"))
    lines = (leaky / "train.tsv").read_text().splitlines(keepends=True)
    (leaky / "train.tsv").write_text("".join(lines[2:]))
    with (leaky / "test.tsv").open("a") as stream:
        stream.writelines([*lines[:3], lines[4]])
    told = conjoin("train", leaky, "--from", own, "--epochs", 1, "-o", tmp_path / "run").err
    assert "leaky: 2 valid and test facts are also in train, so results on them flatter" in told
    assert f"{own} was trained on 2 valid and test facts" in told
    assert len(library.open(tmp_path / "run").graph.test) == len(library.open(own).graph.test) + 4
    assert "flatter" not in conjoin("train", lands, *TINY, "--epochs", 1, "-o", tmp_path / "plain").err


def test_training_goes_on_with_a_graph_that_has_grown(own: Path, lands: Path, tmp_path: Path) -> None:
    grown = Path(shutil.copytree(lands, tmp_path / "grown"))
    with (grown / "train.tsv").open("a") as stream:
        stream.write("Q99\tP1\tQ0\nQ1\tP1\tQ99\n")
    refused = conjoin("train", grown, *TINY, "--validate-every", 1, "-o", own, "--resume")
    assert refused.code == 2
    assert f"to go on from it with this graph: its weights as initial (--from {own})" in refused.err
    report = conjoin("train", grown, "--from", own, "--epochs", 1, "-o", tmp_path / "run", "--json").json
    went_on = RunFolder(tmp_path / "run").run
    assert went_on.origin == f"{RunFolder(own).run.id} last"
    assert (went_on.form, went_on.rank) == (RunFolder(own).run.form, 4)
    scratch = conjoin("train", grown, "--rank", 4, "--epochs", 1, "-o", tmp_path / "scratch", "--json").json
    assert report["id"] != scratch["id"]
    assert RunFolder(tmp_path / "run").events[0]["loss"] < RunFolder(tmp_path / "scratch").events[0]["loss"]
    assert library.open(tmp_path / "run").ask("Q99", "P1")
    other = conjoin("train", grown, "--from", own, "--rank", 8, "-o", tmp_path / "other")
    assert other.code == 2
    assert "of rank 4, this would be" in other.err
    assert "there is no run folder" in conjoin("train", grown, "--from", tmp_path / "none").err
