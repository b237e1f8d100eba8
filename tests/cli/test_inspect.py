"""datasets, fetch, inspect, split, forms."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.cli.commands import TINY, assert_refused, conjoin, write_lines

import conjoin as library
from conjoin.forms.notation import FORMS

CSV = "subject,verb,object,when\nAnn,likes,Bob,2001\nBob,likes,Ann,2002\n" + "".join(
    f'"Smith, {i}",knows,Ann,{i}\nBob,knows,"Smith, {i}",{i}\n' for i in range(9)
)


def test_datasets_lists_the_registry() -> None:
    listed = conjoin("datasets", "--json").json["datasets"]
    assert [d["name"] for d in listed] == (
        ["fb15k-237", "wn18rr", "yago3-10", "fb15k", "wn18", "umls", "kinship", "nations", "atlas"]
    )
    atlas = listed[-1]
    assert {"train", "valid", "test", "entities", "relations", "licence", "sources", "folder"} <= set(atlas)
    assert atlas["folder"]
    table = conjoin("datasets").out
    assert "embedded" in table
    assert "1,079,040" in table


def test_fetch_verifies_local_datasets() -> None:
    assert conjoin("fetch", "atlas", "--json").json["verified"] is True
    assert "verified" in conjoin("fetch", "ATLAS").out


def test_inspect_prints_the_row_of_the_dataset_table() -> None:
    report = conjoin("inspect", "atlas", "--json").json
    graph = library.load("atlas")
    assert report["sizes"] == {
        "train": len(graph.train),
        "valid": len(graph.valid),
        "test": len(graph.test),
        "entities": graph.n_entities,
        "relations": graph.n_relations,
        "examples": 2 * len(graph.train),
    }
    out = conjoin("inspect", "atlas", "--relations", 2).out
    assert "mirrored" in out
    assert "2 of 14" in out


def test_inspect_shows_labels(lands: Path) -> None:
    out = conjoin("inspect", lands).out
    assert "borders" in out
    assert "P1" not in out
    assert "(2 of" not in out


def test_inspect_reads_chosen_columns(tmp_path: Path) -> None:
    file = tmp_path / "people.csv"
    file.write_text(CSV, encoding="utf-8")
    words = (file, "--columns", "subject,verb,object")
    assert conjoin("inspect", *words, "--json").json["sizes"]["relations"] == 2
    wrong = conjoin("inspect", file, "--columns", "subject,vreb,object")
    assert_refused(wrong, "vreb", "verb")
    by_itself = conjoin("inspect", file, "--json")
    assert by_itself.json["sizes"]["relations"] == 2
    assert "'subject', 'verb', 'object'" in by_itself.err
    bad = conjoin("inspect", file, "--no-header")
    assert_refused(bad, "people.csv:1: ")
    assert conjoin("train", *words, *TINY, "-o", tmp_path / "run").code == 0
    assert "Smith, 3" in conjoin("ask", tmp_path / "run", "Bob", "knows", "-k", 99).out


def test_inspect_reports_how_each_file_was_read(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text(CSV.replace(",", ";"), encoding="utf-8")
    (tmp_path / "own").mkdir()
    write_lines(tmp_path / "own" / "train.txt", [("a", "r", "b"), ("b", "r", "c")])
    pq.write_table(pa.table({"to": ["a"], "from": ["b"], "type": ["r"]}), tmp_path / "own" / "test.parquet")
    (tmp_path / "rdf.nt").write_text("<http://a> <http://r> <http://b> .\n", encoding="utf-8")
    expected: dict[tuple[str, ...], list[tuple[str, ...]]] = {
        ("people.csv", "--delimiter", ";"): [("people.csv", "CSV", "';'", "'subject', 'verb', 'object'")],
        ("own",): [
            ("own/train.txt", "TSV", "'\\t'", "0, 1, 2"),
            ("own/test.parquet", "Parquet", "'from', 'type', 'to'"),
        ],
        ("rdf.nt",): [("rdf.nt", "N-Triples")],
    }
    for (name, *options), files in expected.items():
        read_as = conjoin("inspect", tmp_path / name, *options, "--json").json["read_as"]
        for line, (file, *values) in zip(read_as, files, strict=True):
            assert line.startswith(f"{tmp_path}/{file}: ")
            assert all(value in line for value in values), line
        assert conjoin("inspect", tmp_path / name, *options).out.splitlines()[: len(read_as)] == read_as
    assert conjoin("inspect", "atlas", "--json").json["read_as"] == []


def test_split_is_stored_and_never_changes(tmp_path: Path) -> None:
    file = tmp_path / "people.csv"
    file.write_text(CSV, encoding="utf-8")
    words = ("split", file, "--columns", "subject,verb,object", "--valid", "2", "--test", "10%")
    report = conjoin(*words, "-o", tmp_path / "a", "--json").json
    assert report["train"] + report["valid"] + report["test"] == 20
    assert conjoin(*words, "-o", tmp_path / "b").code == 0
    for name in ("train.txt", "valid.txt", "test.txt"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    again = conjoin(*words, "-o", tmp_path / "a")
    assert_refused(again, tmp_path / "a", "--overwrite")
    assert conjoin(*words, "-o", tmp_path / "a", "--overwrite").code == 0
    assert_refused(conjoin("split", file, "-o", tmp_path / "c", "--valid", "lots"), "lots")


def test_bad_lines_stop_or_are_counted(tmp_path: Path) -> None:
    file = write_lines(tmp_path / "facts.tsv", [("a", "r", "b"), ("only", "two"), ("b", "r", "a")])
    assert_refused(conjoin("inspect", file), "facts.tsv:2: ")
    skipped = conjoin("inspect", file, "--on-error", "skip", "--json")
    assert sum(skipped.json["sizes"][split] for split in ("train", "valid", "test")) == 2
    assert "facts.tsv:2: " in skipped.err


def test_inspect_reads_labels_from_a_file(tmp_path: Path) -> None:
    facts = write_lines(tmp_path / "facts.tsv", [("Q1", "r", "Q2"), ("Q2", "r", "Q1")])
    labels = write_lines(tmp_path / "labels.tsv", [("Q1", "Köln", "more"), ("Q2", "Bonn", "more")])
    assert conjoin("train", facts, "--labels", labels, *TINY, "-o", tmp_path / "run").code == 0
    answers = conjoin("ask", tmp_path / "run", "köln", "r", "--json").json["answers"]
    assert [answer["label"] for answer in answers] == ["Bonn"]


@pytest.mark.parametrize("rank", [2, 500])
def test_forms_lists_the_registry(rank: int) -> None:
    listed = conjoin("forms", "--rank", rank, "--json").json
    assert [form["name"] for form in listed["forms"]] == list(FORMS)
    for form in listed["forms"]:
        assert form["form"] == str(FORMS[form["name"]])
        assert form["parameters_per_relation"] == FORMS[form["name"]].relation_width(rank)
    table = conjoin("forms", "--rank", rank).out
    assert all(name in table for name in FORMS)
    assert "FiveStar(c=-conj(b), d=conj(a))" in table


def test_every_bad_line_is_listed_with_place_and_reason(tmp_path: Path) -> None:
    good = [f"p{i % 9}\tr{i % 2}\tq{i % 7}" for i in range(63)]
    bad = ["two\tcells", "a\t \tb", "a\tb\0\tc"] * 10
    file = tmp_path / "bad30.tsv"
    file.write_text("\n".join([*good, *bad]), encoding="utf-8")
    words = (file, "--on-error", "skip")
    listed = conjoin("inspect", *words, "--json").json["bad_lines"]
    places, reasons = zip(*(line.split(": ")[:2] for line in listed[:3]), strict=True)
    assert places == (f"{file}:64", f"{file}:65", f"{file}:66")
    assert len(set(reasons)) == 3
    assert len(listed) == 30
    said = conjoin("inspect", *words).err
    assert [line in said for line in listed] == [True] * 5 + [False] * 25
    assert "bad_lines" in said
    conjoin("train", *words, *TINY, "-o", tmp_path / "run")
    assert json.loads((tmp_path / "run/graph/graph.json").read_text(encoding="utf-8"))["bad_lines"] == listed
    assert conjoin("ingest", *words, "-o", tmp_path / "stored", "--threads", "1").code == 0
    assert conjoin("inspect", tmp_path / "stored", "--json").json["bad_lines"] == listed
