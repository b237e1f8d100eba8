"""Unusual graphs, from file to answer: tiny, lopsided, strange names, empty splits, RDF."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.cli.commands import TINY, assert_refused, conjoin, write_lines

from conjoin.runs.folder import RunFolder

STRANGE = (
    "tab\there",
    "quote \" and '",
    "👩‍👩‍👧",
    "שלום",
    "line\nbreak",
    "[bold]:apple:",
    "?!",
    "-k",
    " padded ",
    "x" * 10_000,
)


@pytest.mark.slow
@pytest.mark.parametrize(
    "facts",
    [
        [("a", "r", "b")],
        [("a", "r", "a")],
        [("a", "r", "a"), ("b", "r", "b"), ("a", "r", "b")],
        [("a", "r", "b")] * 5,
        [("a", f"r{i}", "b") for i in range(30)],
        [(f"a{i}", "r", "hub") for i in range(30)],
    ],
    ids=["one triple", "one self-loop", "self-loops", "duplicates", "parallel relations", "a star"],
)
def test_small_and_unbalanced_graphs_train_and_answer(tmp_path: Path, facts: list[tuple[str, str, str]]) -> None:
    file = write_lines(tmp_path / "g.tsv", facts)
    assert conjoin("inspect", file).code == 0
    for form in ("complex", "5star-conj", "5star(quotient=mobius)"):
        place = tmp_path / form[:9]
        report = conjoin("train", file, "--form", form, *TINY, "-o", place, "--json").json
        if report["test"]["questions"] == 0:
            assert report["test"]["mrr"] is None
        assert conjoin("rank", place, "--by", "relation").code == 0
        assert conjoin("rank", place, "--by", "cardinality", "--split", "train").code == 0
        assert conjoin("ask", place, facts[0][0], facts[0][1], "--only-new").code == 0
        assert conjoin("similar", place, facts[0][0]).code == 0


def test_a_question_without_candidates_has_no_answers(tmp_path: Path) -> None:
    file = write_lines(tmp_path / "g.tsv", [("a", "r", "a")])
    assert conjoin("train", file, *TINY, "-o", tmp_path / "run").code == 0
    assert conjoin("ask", tmp_path / "run", "a", "r", "--only-new").out
    assert conjoin("ask", tmp_path / "run", "a", "r", "--only-new", "--json").json["answers"] == []


def test_unusual_names_round_trip(tmp_path: Path) -> None:
    names = [*STRANGE]
    rows = [(names[i], names[-1 - i], names[(i + 1) % len(names)]) for i in range(len(names))]
    heads, relations, tails = (list(column) for column in zip(*rows, strict=True))
    file = tmp_path / "strange.parquet"
    pq.write_table(pa.table({"head": heads, "relation": relations, "tail": tails}), file)
    place = tmp_path / "run"
    assert conjoin("train", file, *TINY, "-o", place).code == 0
    for head, relation, _ in rows:
        answers = conjoin("ask", place, "-k", 99, "--json", "--", head, relation, "?").json["answers"]
        assert {answer["entity"] for answer in answers} == set(names) - {head}
    scored = conjoin("score", place, file).out
    assert len(scored.splitlines()) == 1 + len(rows)
    assert all(line.count("\t") == 7 for line in scored.splitlines())
    table = conjoin("ask", place, "--", names[0], names[-1], "?").out
    assert "[bold]:apple:" in table
    assert "x" * 300 not in table
    assert conjoin("export", place, "-o", tmp_path / "b").code == 0
    assert conjoin("inspect", file).code == 0
    wrong = conjoin("ask", place, "y" * 10_000, names[-1], "?")
    assert wrong.code == 2


@pytest.mark.parametrize("empty", ["valid", "test"])
def test_graph_with_an_empty_split_trains(tmp_path: Path, empty: str) -> None:
    facts = [("a", "r", "b"), ("b", "r", "c"), ("c", "r", "a")]
    for split in ("train", "valid", "test"):
        write_lines(tmp_path / "g" / f"{split}.tsv", [] if split == empty else facts if split == "train" else facts[:1])
    report = conjoin("train", tmp_path / "g", *TINY, "-o", tmp_path / "run", "--json").json
    other = "test" if empty == "valid" else "valid"
    assert report[empty]["mrr"] is None
    assert report[empty]["questions"] == 0
    assert report[other]["mrr"] > 0
    shown = conjoin("train", tmp_path / "g", *TINY, "-o", tmp_path / "run").out
    assert "-" in shown
    if empty == "valid":
        refused = conjoin("train", tmp_path / "g", *TINY, "--validate-every", 1, "-o", tmp_path / "other")
        assert_refused(refused, "valid")
        assert not RunFolder(tmp_path / "other").exists


def test_names_that_occur_only_in_test_are_handled(tmp_path: Path) -> None:
    write_lines(tmp_path / "g" / "train.tsv", [("a", "r", "b"), ("b", "r", "c")])
    write_lines(tmp_path / "g" / "test.tsv", [("a", "new", "stranger")])
    report = conjoin("train", tmp_path / "g", *TINY, "-o", tmp_path / "run", "--json").json
    assert report["test"]["questions"] == 2
    groups = conjoin("rank", tmp_path / "run", "--by", "cardinality", "--json").json["by"]["cardinality"]
    assert set(groups) == {"not in train"}
    assert set(conjoin("rank", tmp_path / "run", "--by", "degree", "--json").json["by"]["degree"]) == {"0", "1"}
    assert "new" in conjoin("inspect", tmp_path / "g").out


def test_rdf_labels_are_used_in_answers(tmp_path: Path) -> None:
    pytest.importorskip("pyoxigraph")
    prefix, label = "http://e.org/", "http://www.w3.org/2000/01/rdf-schema#label"
    facts = [("france", "borders", "spain"), ("spain", "borders", "france"), ("spain", "borders", "portugal")]
    lines = [f"<{prefix}{h}> <{prefix}{r}> <{prefix}{t}> ." for h, r, t in facts]
    lines += [f'<{prefix}{name}> <{label}> "{name.title()}" .' for name in ("france", "spain", "borders")]
    (tmp_path / "g.nt").write_text("\n".join(lines) + "\n")
    assert conjoin("train", tmp_path / "g.nt", *TINY, "-o", tmp_path / "run").code == 0
    answers = conjoin("ask", tmp_path / "run", "France", "Borders", "--json").json["answers"]
    assert {answer["label"] for answer in answers} == {"Spain", f"{prefix}portugal"}
    assert {answer["entity"] for answer in answers} == {f"{prefix}{name}" for name in ("spain", "portugal")}
