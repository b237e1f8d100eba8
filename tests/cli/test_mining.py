"""explain and mine on the command line."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tests.cli.commands import conjoin

import conjoin as library
from conjoin.cli.mining import worth
from conjoin.serve.calibrate import fit_mined
from conjoin.serve.explain import explain
from conjoin.serve.mine import mine
from conjoin.serve.predictor import Predictor


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
    assert "France borders Spain  (a training fact itself)" in ran.out
    assert "supported by" in ran.out
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
    assert f"is not known: conjoin calibrate {trained} rehearses it" in ran.err


def test_a_run_without_held_out_facts_is_not_sent_to_calibrate(trained: Path) -> None:
    predictor = library.open(trained)
    bare = Predictor(predictor.model, replace(predictor.graph, valid=predictor.graph.valid[:0]))
    told = worth(trained, bare, list(mine(bare, n=1)))
    assert "no fact was held out to rehearse with" in told
    assert "conjoin calibrate" not in told


def test_valid_facts_of_relations_that_train_lacks_are_no_rehearsal() -> None:
    graph = library.Graph.from_triples([(f"a{i}", "r", f"a{(i + 1) % 9}") for i in range(9)], [("a1", "s", "a2")])
    predictor = Predictor(library.Model("complex", graph.n_entities, graph.n_relations, rank=4), graph)
    assert fit_mined(predictor, 50) == (None, {}), "calibrate cannot help"
    told = worth(Path("run"), predictor, list(mine(predictor, n=1)))
    assert "valid has no fact of a relation that train has" in told
    assert "conjoin split FOLDER -o OTHER" in told
    assert "conjoin calibrate" not in told


@pytest.mark.parametrize(
    ("probability", "words"),
    [(0.212, "About 0.4 of 2 facts"), (0.01, "Fewer than 0.1 of 2 facts"), (6.0, "About 12 of 2 facts")],
)
def test_what_facts_are_worth_is_told_of_the_rehearsal(trained: Path, probability: float, words: str) -> None:
    predictor = library.open(trained)
    facts = [replace(fact, probability=probability) for fact in mine(predictor, n=2)]
    assert worth(trained, predictor, facts).startswith(f"{words} as plausible as these were right")


def test_mine_to_a_file(trained: Path, tmp_path: Path) -> None:
    file = tmp_path / "facts.parquet"
    report = conjoin("mine", trained, "-n", 5, "--out", file, "--json").json
    assert report == {"run": str(trained), "calibrated": False, "count": 5, "file": str(file), "formulas": 0}
    assert pq.read_table(file).num_rows == 5
    said = conjoin("mine", trained, "-n", 5, "--out", tmp_path / "facts.csv")
    assert (said.code, said.out) == (0, "")
    assert "5 facts in" in said.err
    assert (tmp_path / "facts.csv").read_text().startswith("rank,head,relation,tail,")


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("explain", "France", "borders", "Spian"), "Did you mean Spain"),
        (("explain", "France", "borders", "Spain", "-k", 0), "at least one"),
        (("mine", "--relation", "bordres"), "Did you mean borders"),
        (("mine", "-n", 0), "at least one"),
        (("mine", "--min-probability", 2), "between 0 and 1"),
        (("mine", "--out", "facts.doc"), "ends in .csv"),
    ],
)
def test_wrong_use(trained: Path, words: tuple[object, ...], reason: str) -> None:
    ran = conjoin(words[0], trained, *words[1:])
    assert ran.code == 2
    assert reason in ran.err
