"""Runs are begun, stopped anywhere, continued exactly, and never repeated."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conjoin.errors import ConjoinError, Diverged, RunError, Stopped
from conjoin.forms.notation import FORMS
from conjoin.graph.graph import Graph
from conjoin.io.graph_store import open_graph
from conjoin.runs import execute as module
from conjoin.runs.execute import ExecutionOptions, execute
from conjoin.runs.folder import RunFolder
from conjoin.runs.measure import finite
from conjoin.runs.run import Run
from conjoin.training.checkpoint import load_tensors
from conjoin.training.loop import Epoch, train
from conjoin.training.recipe import OPTIMIZERS, Recipe

RECIPE = Recipe(epochs=5, batch=8, validate_every=2)


class PowerCut(Exception):
    """The power went out."""


def some_graph(*, valid: int = 4, test: int = 4, name: str = "some") -> Graph:
    random = np.random.default_rng(0)
    facts = [(f"e{h}", f"r{r}", f"e{t}") for h, r, t in random.integers(0, (9, 3, 9), size=(40, 3))]
    return Graph.from_triples(facts[8:], facts[:valid], facts[4 : 4 + test], name=name)


GRAPH = some_graph()
RUN = Run.of(GRAPH, "5star-conj", rank=4, recipe=RECIPE)


def stopping_after(number: int, **settings: Any) -> ExecutionOptions:
    def watch(epoch: Epoch) -> None:
        if epoch.number == number:
            raise PowerCut

    return ExecutionOptions(watch=watch, **settings)


def traces(folder: RunFolder) -> list[dict[str, Any]]:
    """Events but for the clock."""
    return [{key: value for key, value in event.items() if key != "seconds"} for event in folder.events]


def outcome(folder: RunFolder) -> dict[str, Any]:
    """Everything that two runs with the same settings share."""
    result = {
        k: v for k, v in folder.result.items() if not k.startswith("seconds") and k not in ("peak_bytes", "files")
    }
    weights = {file.name: file.read_bytes() for file in sorted(folder.path.glob("*.safetensors"))}
    ranks = {file.name: file.read_bytes() for file in sorted(folder.path.glob("*.parquet"))}
    return {"result": result, "events": traces(folder), **weights, **ranks}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return execute(RUN, GRAPH, tmp_path_factory.mktemp("undisturbed") / "run")


def test_a_run_folder_contains_settings_events_weights_and_ranks(undisturbed: RunFolder) -> None:
    assert {file.name for file in undisturbed.path.iterdir()} == {
        ".lock",
        "run.json",
        "events.jsonl",
        "model.safetensors",
        "best.safetensors",
        "graph",
        "ranks-valid.parquet",
        "ranks-test.parquet",
        "result.json",
    }
    told = json.loads(undisturbed.settings_file.read_text())
    assert set(told) == {"id", "run", "environment", "command", "sha256", "format_version"}
    assert {"conjoin", "torch", "python", "device", "threads", "path"} <= set(told["environment"])
    assert told["run"]["checksum"] == GRAPH.checksum == open_graph(undisturbed.graph_folder).checksum
    assert [set(event) for event in undisturbed.events] == [
        {"epoch", "loss", "penalty", "seconds"} | ({"valid", "best"} if epoch in (2, 4, 5) else set())
        for epoch in range(1, 6)
    ]
    ranks = undisturbed.ranks("test")
    assert len(ranks) == 2 * len(GRAPH.test)
    assert undisturbed.result["test"] == finite(ranks.metrics())
    assert undisturbed.result["last"]["epoch"] == undisturbed.result["epochs"] == 5


def test_a_finished_run_is_returned_not_repeated(undisturbed: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    before = {file: file.stat().st_mtime_ns for file in undisturbed.path.rglob("*")}
    monkeypatch.setattr(module, "train", None)
    monkeypatch.setattr(RunFolder, "locked", None)
    assert execute(replace(RUN, data="another name"), GRAPH, undisturbed.path) == undisturbed
    assert before == {file: file.stat().st_mtime_ns for file in undisturbed.path.rglob("*")}


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (replace(RUN, rank=6), r"\(rank is 4 there and 6 now\)"),
        (replace(RUN, seed=1), r"\(seed is 0 there and 1 now\)"),
        (replace(RUN, origin="margin loss"), r"\(origin is nothing there and margin loss now\)"),
        (
            replace(RUN, recipe=replace(RECIPE, lr=0.5, epochs=6)),
            r"\(epochs is 5 there and 6 now; lr is 0.1 there and 0.5",
        ),
        (
            Run.of(GRAPH, "5star", rank=4, recipe=RECIPE),
            r"form is FiveStar\(c=conj\(b\), d=conj\(a\)\) there and FiveStar\(\)",
        ),
    ],
)
def test_other_settings_are_refused_with_the_difference(undisturbed: RunFolder, other: Run, words: str) -> None:
    with pytest.raises(RunError, match=words):
        execute(other, GRAPH, undisturbed.path)


def test_another_graph_is_refused(undisturbed: RunFolder) -> None:
    graph = some_graph(test=3, name="other")
    with pytest.raises(RunError, match=r"'some'.*'other'"):
        execute(Run.of(graph, "5star-conj", rank=4, recipe=RECIPE), graph, undisturbed.path)
    with pytest.raises(RunError, match="other"):
        execute(RUN, graph, undisturbed.path)


@pytest.mark.parametrize("number", [1, 2, 4, 5])
def test_a_run_stopped_after_any_epoch_goes_on_exactly(tmp_path: Path, undisturbed: RunFolder, number: int) -> None:
    with pytest.raises(PowerCut):
        execute(RUN, GRAPH, tmp_path, conduct=stopping_after(number, checkpoint_epochs=1))
    half = RunFolder(tmp_path)
    assert not half.finished
    assert len(half.events) == number
    assert outcome(execute(RUN, GRAPH, tmp_path)) == outcome(undisturbed)
    assert not half.checkpoint_file.exists()


def test_epochs_after_the_last_checkpoint_are_run_again(tmp_path: Path, undisturbed: RunFolder) -> None:
    with pytest.raises(PowerCut):
        execute(RUN, GRAPH, tmp_path, conduct=stopping_after(3, checkpoint_epochs=2))
    assert len(RunFolder(tmp_path).events) == 3
    assert outcome(execute(RUN, GRAPH, tmp_path)) == outcome(undisturbed)


@pytest.mark.parametrize("optimizer", ["adagrad", "adam", "sgd"])
@pytest.mark.parametrize("form", ["complex", "FiveStar(c=conj(b), d=conj(a), quotient=mobius)"])
def test_every_optimiser_goes_on_exactly(tmp_path: Path, optimizer: Any, form: str) -> None:
    recipe = Recipe(epochs=4, batch=16, lr=0.05, optimizer=optimizer, validate_every=1, patience=3)
    run = Run.of(GRAPH, form, rank=4, recipe=recipe, weights="best")
    whole = execute(run, GRAPH, tmp_path / "whole")
    with pytest.raises(PowerCut):
        execute(run, GRAPH, tmp_path / "stopped", conduct=stopping_after(2, checkpoint_epochs=1))
    assert outcome(execute(run, GRAPH, tmp_path / "stopped")) == outcome(whole)
    assert whole.result["test"] == whole.result["best"]["test"]


def test_leftovers_of_a_killed_process_are_removed(tmp_path: Path, undisturbed: RunFolder) -> None:
    with pytest.raises(PowerCut):
        execute(RUN, GRAPH, tmp_path, conduct=stopping_after(2, checkpoint_epochs=1))
    (tmp_path / ".checkpoint.safetensors.1.part").write_bytes(b"half")
    (tmp_path / ".graph.0a.partial").mkdir()
    execute(RUN, GRAPH, tmp_path)
    assert {f.name for f in tmp_path.iterdir()} == {f.name for f in undisturbed.path.iterdir()}


class Clock:
    """A clock that an epoch moves by one second and a checkpoint by `cost`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, cost: float) -> None:
        self.now, self.cost, self.epochs = 0.0, cost, [0]
        monkeypatch.setattr("conjoin.runs.execute.time.monotonic", lambda: self.now)
        monkeypatch.setattr(module, "event", self.event)
        monkeypatch.setattr(module, "save_checkpoint", self.save)

    def event(self, epoch: Epoch) -> dict[str, Any]:
        self.now += 1
        return {"epoch": epoch.number, "seconds": 1.0}

    def save(self, _: Path, training: Any, *, words: object) -> None:  # noqa: ARG002
        self.now += self.cost
        self.epochs.append(training.progress.epoch)


@pytest.mark.parametrize(("cost", "farthest"), [(0.0, 1), (0.1, 1), (0.5, 5), (2.0, 18)])
def test_a_checkpoint_after_every_epoch_or_a_tenth_of_the_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cost: float, farthest: int
) -> None:
    clock = Clock(monkeypatch, cost)
    run = replace(RUN, recipe=Recipe(epochs=60, batch=100))
    execute(run, GRAPH, tmp_path)
    steps = np.diff(clock.epochs[:-1])
    assert steps[0] == 1
    assert set(steps[1:].tolist()) == {farthest}
    writing = cost * (len(clock.epochs) - 1)
    assert writing <= 0.1 * clock.now + 2 * cost


def asked_at(step: int) -> Any:
    """Says stop once, when asked for the nth time."""
    asked = 0

    def stop() -> bool:
        nonlocal asked
        asked += 1
        return asked == step

    return stop


STEPS_OF_AN_EPOCH = -(-2 * len(GRAPH.train) // RECIPE.batch)


@pytest.mark.parametrize("step", [1, 3, STEPS_OF_AN_EPOCH, STEPS_OF_AN_EPOCH + 1, 2 * STEPS_OF_AN_EPOCH + 1])
def test_a_run_asked_to_stop_does_so_between_steps_and_goes_on_exactly(
    tmp_path: Path, undisturbed: RunFolder, step: int
) -> None:
    """The last of these steps is within the validation of the second epoch."""
    with pytest.raises(Stopped, match=r"(epoch \d|rank valid), step \d+ of \d+"):
        execute(RUN, GRAPH, tmp_path, conduct=ExecutionOptions(stop=asked_at(step)))
    kept, words = load_tensors(RunFolder(tmp_path).checkpoint_file)
    done = min(step, 2 * STEPS_OF_AN_EPOCH)
    assert words["progress"]["epoch"] == (done - 1) // STEPS_OF_AN_EPOCH
    assert len(kept["costs"]) == (done - 1) % STEPS_OF_AN_EPOCH + 1
    assert outcome(execute(RUN, GRAPH, tmp_path)) == outcome(undisturbed)


def test_a_run_stopped_while_ranking_keeps_its_epochs(tmp_path: Path, undisturbed: RunFolder) -> None:
    trained: list[int] = []

    def stop() -> bool:
        return len(trained) == RECIPE.epochs

    with pytest.raises(Stopped, match=r"rank valid, step 1 of \d+.*--resume"):
        execute(
            RUN, GRAPH, tmp_path, conduct=ExecutionOptions(stop=stop, watch=lambda epoch: trained.append(epoch.number))
        )
    assert outcome(execute(RUN, GRAPH, tmp_path)) == outcome(undisturbed)


def test_a_run_stopped_at_every_fifth_step_ends_the_same(tmp_path: Path, undisturbed: RunFolder) -> None:
    stops = 0
    while stops < 100 and not RunFolder(tmp_path).finished:
        with suppress(Stopped):
            execute(RUN, GRAPH, tmp_path, conduct=ExecutionOptions(stop=asked_at(5)))
        stops += 1
    assert 5 * STEPS_OF_AN_EPOCH // 5 <= stops < 100
    assert outcome(RunFolder(tmp_path)) == outcome(undisturbed)


ALIGNED = "FiveStar(c=conj(b), d=conj(a), quotient=aligned)"


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("form", [*FORMS, "FiveStar(quotient=mobius)", ALIGNED])
def test_every_optimiser_and_form_goes_on_exactly_from_mid_epoch(tmp_path: Path, optimizer: Any, form: str) -> None:
    recipe = Recipe(epochs=2, batch=16, lr=0.05, optimizer=optimizer, validate_every=1)
    run = Run.of(GRAPH, form, rank=4, recipe=recipe)
    whole = execute(run, GRAPH, tmp_path / "whole")
    with pytest.raises(Stopped):
        execute(run, GRAPH, tmp_path / "stopped", conduct=ExecutionOptions(stop=asked_at(7)))
    assert outcome(execute(run, GRAPH, tmp_path / "stopped")) == outcome(whole)


def test_divergence_names_the_last_good_checkpoint_and_writes_no_bad_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At first a harmless run; then a weight is spoilt, as overflow would."""
    made: list[Any] = []

    def remembered(model: Any, *words: Any, **options: Any) -> Any:
        made.append(model)
        return train(model, *words, **options)

    def spoil(steps: Any, what: str, total: int | None) -> Any:
        for step in steps:
            if what == "epoch 3":
                made[0].relations.data.fill_(float("inf"))
            yield step

    monkeypatch.setattr(module, "train", remembered)
    with pytest.raises(Diverged, match=r"step 1 of epoch 3.*epoch 2"):
        execute(RUN, GRAPH, tmp_path, conduct=ExecutionOptions(track=spoil, checkpoint_epochs=1))
    assert not RunFolder(tmp_path).finished
    _, words = load_tensors(RunFolder(tmp_path).checkpoint_file)
    assert words["progress"]["epoch"] == 2


def test_checkpoints_by_the_clock(tmp_path: Path) -> None:
    with pytest.raises(PowerCut):
        execute(RUN, GRAPH, tmp_path / "often", conduct=stopping_after(1, checkpoint_minutes=1e-9))
    with pytest.raises(PowerCut):
        execute(RUN, GRAPH, tmp_path / "never", conduct=stopping_after(1, checkpoint_minutes=60))
    assert RunFolder(tmp_path / "often").checkpoint_file.exists()
    assert not RunFolder(tmp_path / "never").checkpoint_file.exists()


def test_a_half_done_run_is_not_continued_unasked(tmp_path: Path, undisturbed: RunFolder) -> None:
    with pytest.raises(PowerCut):
        execute(RUN, GRAPH, tmp_path, conduct=stopping_after(2, checkpoint_epochs=1))
    with pytest.raises(RunError, match="--resume"):
        execute(RUN, GRAPH, tmp_path, resume=False)
    assert outcome(execute(RUN, GRAPH, tmp_path, resume=True)) == outcome(undisturbed)


def damaged(whole: bytes) -> Iterator[bytes]:
    yield b""
    yield whole[: len(whole) // 2]
    yield whole[:-1]
    for place in (4, 40, len(whole) // 2, len(whole) - 3):
        flipped = bytearray(whole)
        flipped[place] ^= 4
        yield bytes(flipped)


def test_a_damaged_checkpoint_is_never_half_loaded(tmp_path: Path) -> None:
    with pytest.raises(PowerCut):
        execute(RUN, GRAPH, tmp_path, conduct=stopping_after(2, checkpoint_epochs=1))
    file = RunFolder(tmp_path).checkpoint_file
    for content in damaged(file.read_bytes()):
        file.write_bytes(content)
        with pytest.raises(RunError, match=r"checkpoint\.safetensors"):
            execute(RUN, GRAPH, tmp_path)


def test_a_checkpoint_of_another_shape_is_refused(tmp_path: Path) -> None:
    other = Run.of(GRAPH, "5star-conj", rank=6, recipe=RECIPE)
    for run, place in ((RUN, "a"), (other, "b")):
        with pytest.raises(PowerCut):
            execute(run, GRAPH, tmp_path / place, conduct=stopping_after(2, checkpoint_epochs=1))
    RunFolder(tmp_path / "b").checkpoint_file.replace(RunFolder(tmp_path / "a").checkpoint_file)
    with pytest.raises(RunError, match=r"checkpoint\.safetensors"):
        execute(RUN, GRAPH, tmp_path / "a")


def test_a_result_without_its_settings_is_refused(tmp_path: Path) -> None:
    done = execute(replace(RUN, recipe=Recipe(epochs=1)), GRAPH, tmp_path)
    done.settings_file.unlink()
    with pytest.raises(RunError, match=r"run\.json"):
        execute(RUN, GRAPH, tmp_path)


def test_without_the_model_everything_a_table_needs_is_kept(tmp_path: Path) -> None:
    lean = execute(RUN, GRAPH, tmp_path, conduct=ExecutionOptions(keep_model=False))
    assert {file.name for file in tmp_path.iterdir()} == {
        ".lock",
        "run.json",
        "events.jsonl",
        "ranks-valid.parquet",
        "ranks-test.parquet",
        "result.json",
    }
    assert len(lean.ranks("test")) == 2 * len(GRAPH.test)


@pytest.mark.parametrize(("valid", "test"), [(0, 4), (4, 0), (0, 0)])
def test_an_empty_split_has_no_metrics(tmp_path: Path, valid: int, test: int) -> None:
    graph = some_graph(valid=valid, test=test)
    done = execute(Run.of(graph, "complex", rank=4, recipe=Recipe(epochs=1)), graph, tmp_path)
    for split, size in (("valid", valid), ("test", test)):
        metrics = done.result[split]
        assert metrics["questions"] == 2 * size
        assert (metrics["mrr"] is None) == (size == 0)
        assert len(done.ranks(split)) == 2 * size


def test_a_run_can_have_zero_epochs(tmp_path: Path) -> None:
    done = execute(Run.of(GRAPH, "complex", rank=4, recipe=Recipe(epochs=0)), GRAPH, tmp_path)
    assert done.result["seconds_per_epoch"] is None
    assert done.result["epochs"] == 0
    assert done.events == []


def test_divergence_says_what_to_try_and_leaves_no_result(tmp_path: Path) -> None:
    run = Run.of(GRAPH, "complex", rank=4, recipe=Recipe(epochs=50, lr=1e30, optimizer="sgd", n3=0.0))
    with pytest.raises(Diverged, match=r"lr|learning rate") as caught:
        execute(run, GRAPH, tmp_path)
    assert isinstance(caught.value, ConjoinError)
    assert not RunFolder(tmp_path).finished


def test_costs_are_those_of_the_events(undisturbed: RunFolder) -> None:
    seconds = [event["seconds"] for event in undisturbed.events]
    result = undisturbed.result
    assert result["seconds_total"] == math.fsum(seconds)
    assert result["seconds_last_epoch"] == seconds[-1]
    assert result["seconds_per_epoch"] == statistics.median(seconds[1:]), "the first epoch pays for loading kernels"
    assert result["parameters"] == GRAPH.n_entities * 8 + result["relation_parameters"]
    assert result["relation_parameters"] == 2 * GRAPH.n_relations * 16
    assert result["relation_bytes"] == 4 * result["relation_parameters"]
