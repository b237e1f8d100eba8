"""train and rank."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from tests.cli.commands import TINY, assert_refused, conjoin, write_lines

from conjoin.graph.graph import Graph
from conjoin.runs.execute import ExecutionOptions, execute
from conjoin.runs.folder import RunFolder
from conjoin.runs.run import Run
from conjoin.training.recipe import Recipe

METRICS = ("mrr", "hits@1", "hits@3", "hits@10", "mean_rank")


def test_the_json_of_train(lands: Path, tmp_path: Path) -> None:
    ran = conjoin("train", lands, *TINY, "-o", tmp_path / "run", "--json")
    report = ran.json
    assert {"run", "valid", "test", "seconds_per_epoch", "parameters", "relation_parameters"} <= set(report)
    assert report["run"] == str(tmp_path / "run")
    for split in ("valid", "test"):
        assert set(METRICS) <= set(report[split])
        assert all(isinstance(report[split][metric], float) for metric in METRICS)
    assert report["parameters"] == 16 * 8 + report["relation_parameters"]
    assert report["relation_parameters"] == 2 * 2 * 4
    assert report["seconds_per_epoch"] > 0
    assert "ComplEx(a2=conj(a1)) of rank 4" in ran.err
    assert conjoin("train", lands, *TINY, "-o", tmp_path / "run", "--json").json == report


def test_training_a_finished_run_shows_its_result(lands: Path, trained: Path) -> None:
    again = conjoin("train", lands, *TINY, "--validate-every", 1, "-o", trained)
    assert again.code == 0
    assert again.err.splitlines()[-1].startswith(str(trained))
    assert "last (epoch 3)" in again.out
    assert "best (epoch" in again.out
    assert f"conjoin ask {trained} " in again.out


def test_other_settings_in_the_same_folder_are_refused(lands: Path, trained: Path) -> None:
    ran = conjoin("train", lands, *TINY, "--validate-every", 1, "--lr", 0.5, "-o", trained, "--json")
    assert_refused(ran, trained, "lr", "0.1", "0.5")


def test_the_default_folder_is_named_by_graph_and_id(
    lands: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    report = conjoin("train", lands, *TINY, "--form", "complex-conj", "--json").json
    assert report["run"].startswith("runs/lands")
    assert report["run"].endswith(report["id"][:8])
    assert RunFolder(Path(report["run"])).finished


@pytest.mark.parametrize(
    "form", ["complex", "quate", "FiveStar(c=conj(b), d=conj(a), quotient=mobius)", "5★ε_n", "5star(b=0)"]
)
def test_any_form_trains(lands: Path, tmp_path: Path, form: str) -> None:
    report = conjoin("train", lands, *TINY, "--form", form, "-o", tmp_path / "run", "--json").json
    assert 0 < report["test"]["mrr"] <= 1
    if "(" in form and form.startswith("Five"):
        assert RunFolder(tmp_path / "run").run.form == form


def test_options_reach_the_run(lands: Path, tmp_path: Path) -> None:
    learning = shlex.split("--epochs 2 --batch 7 --lr 0.05 --n3 0.02 --f2 0.01 --optimizer adam --initial-scale 0.1")
    learning += ["--group-queries", "3"]
    others = shlex.split(
        "--form 5star --quotient aligned --rank 6 --validate-every 1 --patience 1 --weights best --seed 9"
    )
    assert conjoin("train", lands, *learning, *others, "-o", tmp_path / "run").code == 0
    run = RunFolder(tmp_path / "run").run
    assert run.form == "FiveStar(quotient=aligned)"
    assert (run.rank, run.seed, run.weights) == (6, 9, "best")
    assert run.recipe == Recipe(
        epochs=2,
        batch=7,
        lr=0.05,
        n3=0.02,
        f2=0.01,
        optimizer="adam",
        initial_scale=0.1,
        validate_every=1,
        patience=1,
        group_queries=3,
    )


@pytest.mark.parametrize(
    ("form", "preset", "expected"),
    [
        ("5star-conj", "paper", {"epochs": 600, "batch": 1000, "n3": 0.5, "lr": 0.1}),
        ("complex-conj", "paper", {"epochs": 100, "batch": 100, "n3": 0.1, "lr": 0.1}),
        ("5star-conj", "paper-tuned", {"epochs": 300, "batch": 1000, "n3": 0.5, "lr": 0.1}),
    ],
)
def test_options_override_a_preset(tmp_path: Path, form: str, preset: str, expected: dict[str, Any]) -> None:
    write_lines(tmp_path / "WN18RR" / "train.tsv", [("a", "r", "b"), ("b", "r", "a")])
    words = ("train", tmp_path / "WN18RR", "--form", form, "--preset", preset, "--rank", 4, "--epochs", 1)
    assert conjoin(*words, "-o", tmp_path / "run").code == 0
    stored = json.loads((tmp_path / "run" / "run.json").read_text())["run"]
    assert stored["rank"] == 4
    assert {**expected, "epochs": 1}.items() <= stored["recipe"].items()


def test_an_option_may_depend_on_the_settings_file(lands: Path, tmp_path: Path) -> None:
    (tmp_path / "found.toml").write_text("rank = 4\nepochs = 2\nvalidate_every = 1\nnegatives = 3\n")
    words = ("--settings", tmp_path / "found.toml", "--patience", 2, "--negatives-power", 0.5)
    ran = conjoin("train", lands, *words, "-o", tmp_path / "run", "--json")
    assert ran.code == 0, ran.err
    stored = json.loads((tmp_path / "run" / "run.json").read_text())["run"]["recipe"]
    assert (stored["patience"], stored["validate_every"], stored["negatives_power"]) == (2, 1, 0.5)


@pytest.mark.parametrize("rank", ['"4"', "2.5", "true", "[4]"])
def test_rank_in_a_settings_file_must_be_an_integer(rank: str, lands: Path, tmp_path: Path) -> None:
    (tmp_path / "found.toml").write_text(f"rank = {rank}\n")
    said = conjoin("train", lands, "--form", "complex", "--settings", tmp_path / "found.toml", "-o", tmp_path / "run")
    assert_refused(said, "rank")


@pytest.mark.parametrize(
    ("words", "code", "values"),
    [
        (["--form", "5star-cnj"], 2, ["'5star-cnj'", "5star-conj"]),
        (["--form", "FiveStar(e=b)"], 2, ["FiveStar", "'e'"]),
        (["--quotient", "mobius"], 2, ["ComplEx", "'quotient'", "a1, a2, layout", "FiveStar"]),
        (["--form", "5star", "--quotient", "mobus"], 2, ["mobus", "mobius"]),
        (["--form", "complex", "--rank", "3"], 2, ["ComplEx", "4"]),
        (["--optimizer", "adm"], 2, ["'adm'", "adam"]),
        (["--precision", "tf23"], 2, ["'tf23'", "tf32"]),
        (["--weights", "bset"], 2, ["'bset'", "best"]),
        (["--preset", "papre"], 2, ["'papre'", "paper"]),
        (["--preset", "paper"], 2, ["'lands"]),
        (["--device", "cdua"], 2, ["'cdua'"]),
        (["--epochs", "-1"], 2, ["epochs", "-1"]),
        (["--epochs", "many"], 2, ["'--epochs'"]),
        (["--checkpoint-epochs", "-1"], 2, ["'--checkpoint-epochs'"]),
        (["--patience", "3"], 2, ["--validate-every"]),
        (["--on-error", "ignore"], 2, ["'ignore'", "skip"]),
        (["--columns", "0,1"], 2, ["0,1"]),
        (["--optimizer", "sgd", "--lr", "1e30", "--n3", "0", "--epochs", "50"], 1, ["1e+30"]),
        (["--epohcs", "3"], 2, ["--epohcs", "--epochs"]),
    ],
)
def test_wrong_use_is_refused_with_its_exit_code(
    lands: Path, tmp_path: Path, words: list[str], code: int, values: list[str]
) -> None:
    ran = conjoin("train", lands, "--rank", 4, "--epochs", 2, *words, "-o", tmp_path / "run", "--json")
    assert_refused(ran, *values, code=code)


@pytest.mark.parametrize(("graph", "values"), [("umsl", ["'umsl'", "umls"]), ("no/such/folder", ["no/such/folder"])])
def test_a_missing_graph_is_refused(graph: str, values: list[str]) -> None:
    assert_refused(conjoin("train", graph), *values)


def test_wrong_settings_are_refused_before_the_graph_is_read() -> None:
    for words in (["--optimizer", "adm"], ["--form", "5sta"], ["--device", "cdua"], ["--lr", "-1"]):
        ran = conjoin("train", "no-such-graph", *words)
        assert_refused(ran, words[1])
        assert "no-such-graph" not in ran.err


@pytest.mark.parametrize("by", [None, "direction", "relation", "cardinality", "degree"])
def test_the_json_of_rank(trained: Path, by: str | None) -> None:
    report = conjoin("rank", trained, "--json", *(["--by", by] if by else [])).json
    assert {"run", "split", "ties", *METRICS} <= set(report)
    assert report["mrr"] == RunFolder(trained).result["test"]["mrr"]
    if by is None:
        assert "by" not in report
        return
    groups = report["by"][by]
    assert sum(group["questions"] for group in groups.values()) == report["questions"] == 2
    assert all(set(METRICS) <= set(group) for group in groups.values())
    if by == "relation":
        assert set(groups) == {"borders"}
    if by == "direction":
        assert set(groups) == {"head", "tail"}
        assert report["mrr"] == pytest.approx((groups["head"]["mrr"] + groups["tail"]["mrr"]) / 2)


def test_rank_of_other_splits_weights_and_policies(trained: Path) -> None:
    result = RunFolder(trained).result
    assert conjoin("rank", trained, "--split", "valid", "--json").json["mrr"] == result["valid"]["mrr"]
    assert conjoin("rank", trained, "--weights", "best", "--json").json["mrr"] == result["best"]["test"]["mrr"]
    train = conjoin("rank", trained, "--split", "train", "--json").json
    assert train["questions"] == 2 * 22
    optimistic = conjoin("rank", trained, "--ties", "optimistic", "--json").json
    assert optimistic["mrr"] >= result["test"]["mrr"]


def test_rank_as_a_table(trained: Path) -> None:
    out = conjoin("rank", trained, "--by", "relation").out
    assert "MRR  Hits@1  Hits@3  Hits@10  mean rank" in out
    assert "borders" in out
    assert "P1" not in out


@pytest.mark.parametrize(
    ("words", "values"),
    [
        (["--split", "tset"], ["'tset'", "test"]),
        (["--ties", "pesimistic"], ["'pesimistic'", "pessimistic"]),
        (["--by", "relatoin"], ["'relatoin'", "relation"]),
        (["--weights", "bset"], ["'bset'", "best"]),
    ],
)
def test_rank_refuses_invalid_options(trained: Path, words: list[str], values: list[str]) -> None:
    assert_refused(conjoin("rank", trained, *words), *values)


def test_rank_of_another_folder_is_refused(tmp_path: Path) -> None:
    assert_refused(conjoin("rank", tmp_path / "nowhere"), tmp_path / "nowhere")
    assert_refused(conjoin("rank", tmp_path), tmp_path, "run.json")


def test_stored_ranks_are_grouped_without_model_and_graph(tmp_path: Path) -> None:
    graph = Graph.from_triples([("a", "r", "b"), ("b", "r", "c")], None, [("c", "r", "a")])
    run = Run.of(graph, "complex", rank=4, recipe=Recipe(epochs=1))
    execute(run, graph, tmp_path, conduct=ExecutionOptions(keep_model=False))
    assert set(conjoin("rank", tmp_path, "--by", "direction", "--json").json["by"]["direction"]) == {"head", "tail"}
    refused = conjoin("rank", tmp_path, "--by", "relation")
    assert_refused(refused, tmp_path)


def test_relations_with_the_same_label_are_separate_groups(tmp_path: Path) -> None:
    graph = Graph.from_triples(
        [("a", "P1", "b"), ("b", "P2", "a")],
        None,
        [("a", "P2", "b"), ("b", "P1", "a")],
        relation_labels={"P1": "near", "P2": "near"},
    )
    execute(Run.of(graph, "complex", rank=4, recipe=Recipe(epochs=1)), graph, tmp_path)
    assert set(conjoin("rank", tmp_path, "--by", "relation", "--json").json["by"]["relation"]) == {
        "near (P1)",
        "near (P2)",
    }


@pytest.mark.parametrize(("facts_per_entity", "n3"), [(3, 0.05), (12, 0.01)])
def test_sparse_graphs_get_a_strong_penalty(tmp_path: Path, facts_per_entity: int, n3: float) -> None:
    facts = [(f"e{i:02}", "r", f"e{(i + k) % 30:02}") for i in range(30) for k in range(1, facts_per_entity + 2)]
    file = write_lines(tmp_path / "g.tsv", facts)
    words = ("train", file, "--rank", 2, "--epochs", 1, "-o")
    assert conjoin(*words, tmp_path / "usual").code == 0
    assert RunFolder(tmp_path / "usual").run.recipe.n3 == n3
    assert conjoin(*words, tmp_path / "told", "--n3", 0.03).code == 0
    assert RunFolder(tmp_path / "told").run.recipe.n3 == 0.03
