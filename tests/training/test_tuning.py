"""Searching settings with Optuna."""

from __future__ import annotations

import json
import random
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from conjoin.errors import NotInstalled, StorageError, UsageError
from conjoin.evaluation.rank import rank
from conjoin.graph.graph import Graph
from conjoin.model.model import Model
from conjoin.training import tuning
from conjoin.training.loop import train
from conjoin.training.recipe import Recipe
from conjoin.training.search_space import SearchSpace
from conjoin.training.tuning import best_attempt, tune

optuna = pytest.importorskip("optuna", reason="tuning needs the extra `tune`")


def graph_of(valid: int = 15) -> Graph:
    chance = random.Random(0)
    facts = sorted({(chance.randrange(20), chance.randrange(3)) for _ in range(60)})
    triples = [(f"e{head}", f"r{step}", f"e{(head + 3 * step + 1) % 20}") for head, step in facts]
    chance.shuffle(triples)
    return Graph.from_triples(triples[valid:], valid=triples[:valid], name="ring")


def search_in(folder: Path, **changes: object) -> SearchSpace:
    plain: dict[str, object] = {"form": "complex", "rank": 4, "epochs": 4, "validate_every": 2, "trials": 4}
    return SearchSpace(**{**plain, "storage": f"sqlite:///{folder / 'tune.db'}", **changes})  # type: ignore[arg-type]


def test_the_best_settings_reach_their_mrr_again(tmp_path: Path) -> None:
    graph, search = graph_of(), search_in(tmp_path, prune=False)
    attempts = list(tune(graph, search))
    assert [attempt.number for attempt in attempts] == [0, 1, 2, 3]
    assert {attempt.state for attempt in attempts} == {"complete"}
    winner = best_attempt(graph, search)
    assert winner.mrr == max(attempt.mrr or 0 for attempt in attempts)
    settings = {**winner.settings, "epochs": winner.epoch}
    model = Model("complex", graph.n_entities, graph.n_relations, rank=settings.pop("rank"), seed=0)
    list(train(model, graph, Recipe.from_mapping(settings), seed=0))
    assert rank(model, graph, "valid").mrr() == winner.mrr


def test_a_continued_search_draws_the_same_settings(tmp_path: Path) -> None:
    graph = graph_of()
    (tmp_path / "other").mkdir()
    once = list(tune(graph, search_in(tmp_path / "other", epochs=2)))
    first = list(tune(graph, search_in(tmp_path, trials=2, epochs=2)))
    second = list(tune(graph, search_in(tmp_path, trials=4, epochs=2)))
    assert [attempt.number for attempt in second] == [2, 3]
    assert [attempt.settings for attempt in first + second] == [attempt.settings for attempt in once]
    assert list(tune(graph, search_in(tmp_path, trials=4, epochs=2))) == []


def test_a_grid_search_tries_each_point_once(tmp_path: Path) -> None:
    grid = {"lr": (0.01, 0.1), "n3": (0.0, 0.1), "rank": (2, 4)}
    search = search_in(tmp_path, grid=grid, trials=100, epochs=2)
    points = [tuple(sorted(attempt.settings.items())) for attempt in tune(graph_of(), search)]
    assert len(points) == len(set(points)) == 8


@pytest.mark.slow
def test_trials_below_the_median_are_pruned(tmp_path: Path) -> None:
    grid = {"lr": (0.3, 0.31, 0.32, 0.33, 0.34, 0.35, 0.36, 1e-9, 2e-9, 3e-9, 4e-9, 5e-9), "batch": (20,)}
    search = search_in(tmp_path, grid=grid, trials=12, epochs=30)
    attempts = list(tune(graph_of(), search))
    slow = [attempt for attempt in attempts[5:] if attempt.settings["lr"] < 0.1]
    assert slow
    assert {attempt.state for attempt in slow} == {"pruned"}
    assert all(attempt.epoch < 30 for attempt in slow)
    assert best_attempt(graph_of(), search).settings["lr"] > 0.1


def test_trials_use_the_precision_of_train(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a GPU `conjoin train` takes bf16, so what is searched there is searched in bf16, unless the grid says."""
    taken: list[str] = []

    def train_nothing(model: Model, graph: Graph, recipe: Recipe, **_: object) -> list[object]:
        taken.append(recipe.precision)
        return []

    monkeypatch.setattr(tuning, "usual_precision", lambda *_, **__: "bf16")
    monkeypatch.setattr(tuning, "train", train_nothing)
    list(tune(graph_of(), search_in(tmp_path, trials=1)))
    list(tune(graph_of(), search_in(tmp_path, grid={"precision": ("tf32",)})))
    assert taken == ["bf16", "tf32"]


def test_a_search_continues_after_a_diverged_trial(tmp_path: Path) -> None:
    grid = {"lr": (0.1, 1e38), "initial_scale": (1e15,)}
    attempts = list(tune(graph_of(), search_in(tmp_path, grid=grid, trials=2)))
    failed = [attempt for attempt in attempts if attempt.state == "failed"]
    assert len(attempts) == 2
    assert failed
    assert "not finite" in failed[0].reason


def test_a_storage_with_another_search_of_this_name_is_refused(tmp_path: Path) -> None:
    list(tune(graph_of(), search_in(tmp_path, trials=1, epochs=2)))
    with pytest.raises(UsageError, match="another epochs"):
        list(tune(graph_of(), search_in(tmp_path, trials=1, epochs=4)))
    with pytest.raises(UsageError, match="another checksum"):
        list(tune(graph_of(valid=14), search_in(tmp_path, trials=1, epochs=2)))


def test_a_search_with_negatives_trains_with_them(tmp_path: Path) -> None:
    graph, search = graph_of(), search_in(tmp_path, trials=2, negatives=5, negatives_power=0.5, prune=False)
    drawn = [(a.settings["negatives"], a.settings["negatives_power"]) for a in tune(graph, search)]
    assert drawn == [(5, 0.5)] * 2
    winner = best_attempt(graph, search)
    settings = {**winner.settings, "epochs": winner.epoch}
    model = Model("complex", graph.n_entities, graph.n_relations, rank=settings.pop("rank"), seed=0)
    list(train(model, graph, Recipe.from_mapping(settings), seed=0))
    assert rank(model, graph, "valid").mrr() == winner.mrr


def test_negatives_of_the_grid_override_the_setting(tmp_path: Path) -> None:
    grid = {"negatives": (0, 3)}
    attempts = list(tune(graph_of(), search_in(tmp_path, grid=grid, trials=2, negatives=5)))
    assert {attempt.settings["negatives"] for attempt in attempts} == {0, 3}


def test_negatives_power_applies_to_negatives_of_the_grid(tmp_path: Path) -> None:
    search = search_in(tmp_path, grid={"negatives": (3, 5)}, trials=2, negatives_power=0.75)
    assert {attempt.settings["negatives_power"] for attempt in tune(graph_of(), search)} == {0.75}


@pytest.mark.parametrize("more", [{"negatives": 21}, {"grid": {"negatives": (5, 21)}}])
def test_more_negatives_than_entities_are_refused_before_the_first_trial(
    tmp_path: Path, more: dict[str, object]
) -> None:
    with pytest.raises(UsageError, match=r"21.*20"):
        next(tune(graph_of(), search_in(tmp_path, **more)))
    assert not (tmp_path / "tune.db").exists()


def test_rank_and_negatives_identify_a_search(tmp_path: Path) -> None:
    few = {"grid": {"lr": (0.1,)}, "epochs": 2}
    list(tune(graph_of(), search_in(tmp_path, **few)))
    with pytest.raises(UsageError, match="another negatives"):
        next(tune(graph_of(), search_in(tmp_path, **few, negatives=5)))
    with pytest.raises(UsageError, match="another rank"):
        next(tune(graph_of(), search_in(tmp_path, **few, rank=8)))


@pytest.mark.parametrize("grid", [None, {"lr": (0.1, 0.2, 0.3)}])
def test_a_storage_from_before_negatives_can_be_continued(tmp_path: Path, grid: dict[str, tuple[float, ...]]) -> None:
    list(tune(graph_of(), search_in(tmp_path, trials=1, grid=grid)))
    [kept] = optuna.load_study(study_name=None, storage=search_in(tmp_path).storage).user_attrs.values()
    for new in ("rank", "negatives", "negatives_power"):
        del kept[new]
    with closing(sqlite3.connect(tmp_path / "tune.db")) as storage, storage:
        storage.execute("UPDATE study_user_attributes SET value_json = ?", [json.dumps(kept)])
    assert [attempt.number for attempt in tune(graph_of(), search_in(tmp_path, trials=2, grid=grid))] == [1]
    with pytest.raises(UsageError, match="another negatives"):
        next(tune(graph_of(), search_in(tmp_path, trials=3, grid=grid, negatives=5)))
    if grid:  # a guided search has its rank in its name
        with pytest.raises(UsageError, match="another rank"):
            next(tune(graph_of(), search_in(tmp_path, trials=3, grid=grid, rank=8)))


def test_a_storage_of_another_optuna_is_refused(tmp_path: Path) -> None:
    list(tune(graph_of(), search_in(tmp_path, trials=1)))
    with closing(sqlite3.connect(tmp_path / "tune.db")) as storage, storage:
        storage.execute("UPDATE alembic_version SET version_num = 'v2.6.0.a'")
    with pytest.raises(UsageError, match=r"optuna storage upgrade.*--storage"):
        next(tune(graph_of(), search_in(tmp_path, trials=2)))


def test_impossible_searches_name_the_option(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="conjoin split"):
        next(tune(graph_of(valid=0), search_in(tmp_path)))
    with pytest.raises(UsageError, match="--storage"):
        next(tune(graph_of(), search_in(tmp_path, storage="nosuchbase://x")))
    with pytest.raises(UsageError, match="--trials"):
        best_attempt(graph_of(), search_in(tmp_path))
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(NotInstalled, match=r"conjoin\[tune\]"):
        next(tune(graph_of(), search_in(tmp_path)))


WORKER = """
import sys
from pathlib import Path
from tests.training.test_tuning import graph_of, search_in
from conjoin.training.tuning import tune
grid = {"lr": (0.01, 0.02, 0.05, 0.1), "n3": (0.0, 0.1, 0.2)}
for attempt in tune(graph_of(), search_in(Path(sys.argv[1]), grid=grid, trials=12, epochs=2)):
    print(sorted(attempt.settings.items()))
"""


@pytest.mark.slow
def test_two_workers_share_a_search(tmp_path: Path) -> None:
    root = str(Path(__file__).resolve().parents[2])
    command = [sys.executable, "-c", WORKER, str(tmp_path), root]
    workers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    printed = [worker.communicate(timeout=60)[0].splitlines() for worker in workers]
    assert [worker.returncode for worker in workers] == [0, 0]
    points = printed[0] + printed[1]
    assert len(set(points)) == 12
    assert len(points) <= 13


def test_a_missing_index_is_created(tmp_path: Path) -> None:
    """Optuna creates the index of names after its table. Without it the same search could be created twice."""
    search = search_in(tmp_path, trials=1)
    assert [attempt.state for attempt in tune(graph_of(), search)] == ["complete"]
    with closing(sqlite3.connect(tmp_path / "tune.db")) as database:
        database.execute("DROP INDEX ix_studies_study_name")
        database.commit()
    assert best_attempt(graph_of(), search).number == 0


def test_a_failed_storage_ends_the_search_but_no_trial(tmp_path: Path) -> None:
    search = search_in(tmp_path, trials=3)
    attempts = tune(graph_of(), search)
    next(attempts)
    file = tmp_path / "tune.db"
    kept = file.read_bytes()
    file.write_bytes(b"no database" * 1000)
    with pytest.raises(StorageError, match=r"tune\.db"):
        list(attempts)
    file.write_bytes(kept)
    assert [attempt.number for attempt in tune(graph_of(), search)] == [1, 2]


def test_a_trial_that_failed_because_of_the_storage_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sqlalchemy = pytest.importorskip("sqlalchemy")

    def fail(*_: object, **__: object) -> float:
        raise sqlalchemy.exc.OperationalError("disk I/O error", None, Exception("disk I/O error"))

    search = search_in(tmp_path, trials=1)
    with monkeypatch.context() as patched:
        patched.setattr(tuning, "_trained", fail)
        with pytest.raises(StorageError, match="disk I/O error"):
            list(tune(graph_of(), search))
    assert [attempt.state for attempt in tune(graph_of(), search)] == ["complete"]
