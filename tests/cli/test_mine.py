"""explain and mine on the command line."""

from __future__ import annotations

import csv
import unicodedata
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tests.cli.commands import TINY, assert_refused, conjoin, write_lines

import conjoin as library
from conjoin.cli.mine import worth
from conjoin.predict.calibration import fit_mined
from conjoin.predict.explain import explain
from conjoin.predict.mining import mine
from conjoin.predict.predictor import Predictor


def test_the_json_of_explain(trained: Path) -> None:
    report = conjoin("explain", trained, "france", "borders", "Spain", "-k", 3, "--json").json
    assert report == explain(library.open(trained), "Q0", "P1", "Q1", k=3).to_json() | {"paths": report["paths"]}
    assert report["trained"]
    assert len(report["supports"]) <= 3
    assert set(report["supports"][0]) == {"head", "relation", "tail", "strength", "label"}
    assert report["paths"]
    assert all(set(path) == {"steps", "strength"} for path in report["paths"])


def test_explain_as_tables(trained: Path) -> None:
    ran = conjoin("explain", trained, "France", "borders", "Spain")
    assert ran.code == 0, ran.err
    assert "France borders Spain" in ran.out
    assert "Spain borders France" in ran.out
    assert "%" in ran.out


def test_the_json_of_mine(trained: Path) -> None:
    report = conjoin("mine", trained, "--relation", "borders", "-n", 7, "--json").json
    assert (report["count"], report["calibrated"]) == (7, False)
    expected = list(mine(library.open(trained), relation="P1", n=7))
    assert [(f["head"], f["relation"], f["tail"]) for f in report["facts"]] == [
        (f.head, f.relation, f.tail) for f in expected
    ]
    assert [f["rank"] for f in report["facts"]] == list(range(1, 8))


def test_mine_as_a_table(trained: Path) -> None:
    ran = conjoin("mine", trained, "-n", 3)
    assert ran.code == 0, ran.err
    facts = list(mine(library.open(trained), n=3))
    assert all(fact.label in ran.out for fact in facts)
    assert f"conjoin calibrate {trained}" in ran.err


def test_mine_does_not_advise_calibrate_without_validation_facts(trained: Path) -> None:
    predictor = library.open(trained)
    bare = Predictor(predictor.model, replace(predictor.graph, valid=predictor.graph.valid[:0]))
    told = worth(trained, bare, list(mine(bare, n=1)))
    assert "conjoin split" in told
    assert "conjoin calibrate" not in told


def test_mine_does_not_advise_calibrate_if_valid_shares_no_relation_with_train() -> None:
    graph = library.Graph.from_triples([(f"a{i}", "r", f"a{(i + 1) % 9}") for i in range(9)], [("a1", "s", "a2")])
    predictor = Predictor(library.Model("complex", graph.n_entities, graph.n_relations, rank=4), graph)
    assert fit_mined(predictor, 50) == (None, {}), "calibrate cannot help"
    told = worth(Path("run"), predictor, list(mine(predictor, n=1)))
    assert "conjoin split" in told
    assert "conjoin calibrate" not in told


@pytest.mark.parametrize(
    ("probability", "words"),
    [(0.212, "0.4 of 2 "), (0.01, "0.1 of 2 "), (6.0, "12 of 2 ")],
)
def test_mine_sums_the_probabilities_of_its_facts(trained: Path, probability: float, words: str) -> None:
    predictor = library.open(trained)
    facts = [replace(fact, probability=probability) for fact in mine(predictor, n=2)]
    assert words in worth(trained, predictor, facts)


def test_mine_to_a_file(trained: Path, tmp_path: Path) -> None:
    file = tmp_path / "facts.parquet"
    report = conjoin("mine", trained, "-n", 5, "--out", file, "--json").json
    assert report == {"run": str(trained), "calibrated": False, "count": 5, "file": str(file), "formulas": 0}
    assert pq.read_table(file).num_rows == 5
    said = conjoin("mine", trained, "-n", 5, "--out", tmp_path / "facts.csv")
    assert (said.code, said.out) == (0, "")
    assert "5 " in said.err
    assert "facts.csv" in said.err
    assert (tmp_path / "facts.csv").read_text().startswith("rank,head,relation,tail,")


@pytest.fixture(scope="session")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on a graph whose names are spreadsheet formulas and terminal control sequences."""
    folder = tmp_path_factory.mktemp("hostile")
    names = ["=1+1", "＝cmd|' /C calc'!A0", "\x1b[31mred", "\x9b2J", "\u202eevil", "plain", "@SUM(A1)", "b;=1"]
    facts = [(names[i], "-r", names[(i + step) % len(names)]) for i in range(len(names)) for step in (1, 2, 3)]
    file = write_lines(folder / "facts.tsv", facts)
    assert conjoin("train", file, *TINY, "-o", folder / "run").code == 0
    return folder / "run"


@pytest.mark.parametrize("ending", [".csv", ".tsv"])
def test_formulas_are_written_as_they_are_unless_for_spreadsheets(hostile: Path, tmp_path: Path, ending: str) -> None:
    plain, safe = tmp_path / f"plain{ending}", tmp_path / f"safe{ending}"
    said = conjoin("mine", hostile, "-n", 30, "--out", plain)
    told = conjoin("mine", hostile, "-n", 30, "--out", safe, "--for-spreadsheets", "--json").json
    delimiter = "," if ending == ".csv" else "\t"
    rows, shown = ([*csv.DictReader(file.open(newline=""), delimiter=delimiter)] for file in (plain, safe))
    facts = [(fact.head, fact.relation, fact.tail) for fact in mine(library.open(hostile), n=30)]
    assert [(row["head"], row["relation"], row["tail"]) for row in rows] == facts, "the default can be read back"
    changed = sum(one[key] != other[key] for one, other in zip(rows, shown, strict=True) for key in one)
    assert told["formulas"] == changed > len(facts)
    assert f"{changed} cells" in said.err
    assert "--for-spreadsheets" in said.err
    cells = [row[key] for row in shown for key in ("head", "relation", "tail", "label")]
    assert not [cell for cell in cells if cell[:1] in "=+-@＝" or not cell.isprintable()]


def test_mine_without_formulas_does_not_warn(trained: Path, tmp_path: Path) -> None:
    assert "spreadsheet" not in conjoin("mine", trained, "-n", 5, "--out", tmp_path / "facts.csv").err
    assert_refused(conjoin("mine", trained, "--for-spreadsheets"), "--for-spreadsheets", "--out")
    assert_refused(conjoin("mine", trained, "--out", tmp_path / "a.parquet", "--for-spreadsheets"), "a.parquet")


def test_scores_are_written_for_spreadsheets(hostile: Path) -> None:
    words = ("score", hostile, "=1+1", "-r", "@SUM(A1)")
    assert conjoin(*words[:2], "--", *words[2:]).out.splitlines()[1].startswith("=1+1\t-r\t@SUM(A1)\t")
    safe = conjoin(*words[:2], "--for-spreadsheets", "--", *words[2:])
    assert safe.out.splitlines()[1].startswith("'=1+1\t'-r\t'@SUM(A1)\t")


def test_control_sequences_in_names_are_escaped(hostile: Path, tmp_path: Path) -> None:
    red = "\x1b[31mred"
    facts = write_lines(tmp_path / "\x1b[2Jfacts.tsv", [(red, "-r", "unknown\x9b2J"), (red, "-r", red)])
    commands = [
        ("ask", hostile, "--", red, "-r", "?"),
        ("ask", hostile, "--json", "--", red, "-r", "?"),
        ("ask", hostile, "--explain", "--only-new", "--", "plain", "-r", "?"),
        ("ask", hostile, "--", f"{red}x", "-r", "?"),
        ("ask", hostile, "--file", facts),
        ("score", hostile, facts, "--on-error", "skip"),
        ("similar", hostile, red),
        ("explain", hostile, "--", red, "-r", "plain"),
        ("find", hostile, "red"),
        ("mine", hostile, "-n", 20),
        ("mine", hostile, "--relation", red),
        ("inspect", facts),
        ("inspect", facts, "--columns", "0,1,9"),
        ("inspect", tmp_path / f"{red}.tsv"),
        ("rank", hostile, "--by", "relation"),
        ("patterns", facts),
    ]
    for words in commands:
        ran = conjoin(*words)
        steering = [
            c for c in ran.out + ran.err if (unicodedata.category(c) == "Cc" and c not in "\n\t") or c == "\u202e"
        ]
        assert not steering, (words, ran)


@pytest.mark.parametrize(
    ("words", "values"),
    [
        (("explain", "France", "borders", "Spian"), ["'Spian'", "Spain"]),
        (("explain", "France", "borders", "Spain", "-k", 0), ["0"]),
        (("mine", "--relation", "bordres"), ["'bordres'", "borders"]),
        (("mine", "-n", 0), ["0"]),
        (("mine", "--min-probability", 2), ["2"]),
        (("mine", "--out", "facts.doc"), ["facts.doc", ".csv"]),
    ],
)
def test_wrong_use_is_refused(trained: Path, words: tuple[object, ...], values: list[str]) -> None:
    assert_refused(conjoin(words[0], trained, *words[1:]), *values)
