"""Searches, grids, and the block of settings that they end in."""

from __future__ import annotations

from pathlib import Path

import pytest

from conjoin.errors import FormError, UnknownName, UsageError
from conjoin.graph.graph import Graph
from conjoin.studies.parse import read_study
from conjoin.training.recipe import Recipe
from conjoin.training.search_space import GRIDS, Attempt, SearchSpace, grid_of, read_block, settings_block

PAPER = Path(__file__).resolve().parents[2] / "studies" / "paper.toml"
GRAPH = Graph.from_triples([("a", "r", "b"), ("b", "r", "c")], name="own")


def test_the_grid_of_the_paper_has_432_points() -> None:
    assert SearchSpace(form="5star", grid=GRIDS["paper"]).strategy == "grid-432"
    assert grid_of("paper") == grid_of(str(PAPER)) == GRIDS["paper"]


def test_trials_default_to_the_whole_grid() -> None:
    assert SearchSpace(form="5star", grid=GRIDS["paper"]).wanted == 432
    assert SearchSpace(form="5star", grid=GRIDS["paper"], trials=20).wanted == 20
    assert SearchSpace(form="5star").wanted == 50


def test_unknown_grids_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match=r"papr.*paper"):
        grid_of("papr")
    (tmp_path / "a.toml").write_text("lr = [0.1]", encoding="utf-8")
    with pytest.raises(UsageError, match=r"a\.toml.*\[grid\]"):
        grid_of(str(tmp_path / "a.toml"))


@pytest.mark.parametrize(
    ("grid", "value"),
    [
        ({"lrate": (0.1,)}, "lrate"),
        ({"lr": (0.1, "fast")}, "lr.*fast"),
        ({"rank": (4, 5)}, "rank.*5"),
        ({"rank": (4, "8")}, "rank.*'8'"),
        ({"optimizer": ("adagrad", "adm")}, "adm.*adam"),
        ({"epochs": (10, 20)}, "--epochs"),
        ({"validate_every": (1,)}, "--validate-every"),
        ({"negatives": (0, 5), "negatives_power": (0.5,)}, "negatives_power.*0.5"),
    ],
)
def test_a_grid_is_checked_before_the_first_trial(grid: dict[str, tuple[object, ...]], value: str) -> None:
    with pytest.raises((UsageError, FormError), match=value):
        SearchSpace(form="complex", grid=grid)


def test_settings_that_need_each_other_are_checked_together() -> None:
    grid = {"negatives": (50, 100), "negatives_power": (0.0, 0.75), "patience": (2,)}
    assert SearchSpace(form="complex", grid=grid).points == 4


def test_impossible_searches_are_refused() -> None:
    with pytest.raises(UsageError, match="trials = 0"):
        SearchSpace(form="complex", trials=0)
    with pytest.raises(UsageError, match="seed = -1"):
        SearchSpace(form="complex", grid={"lr": (0.1,)}, seed=-1)
    assert SearchSpace(form="complex", seed=-1).seed == -1, "a guided search allows any seed"
    with pytest.raises(UsageError, match=r"negatives.*-1"):
        SearchSpace(form="complex", negatives=-1)
    with pytest.raises(UsageError, match="negatives_power"):
        SearchSpace(form="complex", negatives_power=0.5)
    with pytest.raises(UsageError, match="negatives_power"):
        SearchSpace(form="complex", grid={"negatives": (0, 5)}, negatives_power=0.5)
    assert SearchSpace(form="complex", grid={"negatives_power": (0.0, 0.5)}, negatives=5).points == 2
    with pytest.raises(UnknownName, match="complx"):
        SearchSpace(form="complx")


def test_train_and_studies_read_the_settings_block(tmp_path: Path) -> None:
    settings = {"rank": 8, "batch": 200, "n3": 2.5e-3, "lr": 0.05, "optimizer": "adam"}
    attempt = Attempt(number=3, settings=settings, state="complete", mrr=0.5, epoch=15)
    text = settings_block(GRAPH, SearchSpace(form="complex-conj"), attempt)
    file = tmp_path / "found.toml"
    file.write_text(text, encoding="utf-8")
    expected = {**settings, "epochs": 15}
    assert read_block(file, "own", "complex-conj") == (expected, "")
    assert read_block(file, "another", "complex-conj") == (expected, "complex-conj on own")
    assert read_block(file, "own", "5star") == (expected, "complex-conj on own")
    (tmp_path / "study.toml").write_text(
        'name = "s"\nrows = [{ name = "a", form = "complex-conj" }]\n[datasets.own]\ngraph = "own"\n' + text,
        encoding="utf-8",
    )
    found = read_study(tmp_path / "study.toml").settings["own"]["complex-conj"]
    assert found.rank == 8
    assert found.recipe == Recipe(epochs=15, batch=200, n3=2.5e-3, lr=0.05, optimizer="adam")


def test_settings_are_read_from_the_table_of_graph_and_form(tmp_path: Path) -> None:
    file = tmp_path / "plain.toml"
    file.write_text("rank = 4\nlr = 0.5\n", encoding="utf-8")
    assert read_block(file, "x", "complex") == ({"rank": 4, "lr": 0.5}, "")
    assert read_block(PAPER, "wn18rr", "5star")[0]["epochs"] == 600
    with pytest.raises(UsageError, match=r"quate.*wn18rr.*complex on FB15K-237"):
        read_block(PAPER, "wn18rr", "quate")
    for text in ("settings = 5", "[settings]\nlr = 0.1", "[settings.own]\ncomplex = 3"):
        file.write_text(text, encoding="utf-8")
        with pytest.raises(UsageError, match=r"plain\.toml"):
            read_block(file, "own", "complex")


def test_at_most_10000_points_of_a_grid_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[object] = []
    monkeypatch.setattr("conjoin.training.search_space.Recipe.from_mapping", checked.append)
    grid = {name: tuple(0.1 * i for i in range(1, 200)) for name in ("lr", "n3", "f2")}
    assert SearchSpace(form="complex", grid=grid).points == 199**3
    assert len(checked) == 10_000
