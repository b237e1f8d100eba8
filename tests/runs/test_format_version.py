"""Every file of a run records the version of its format. Files without one open; newer ones are refused by value."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import conjoin
from conjoin.errors import NewerFormat, RunError, Stopped
from conjoin.graph.graph import Graph
from conjoin.predict.calibration import Fitting, calibrate
from conjoin.runs.calibration_curves import FILE as CALIBRATION
from conjoin.runs.calibration_curves import write_calibration
from conjoin.runs.execute import ExecutionOptions, execute
from conjoin.runs.export import export
from conjoin.runs.folder import RunFolder
from conjoin.runs.run import Run
from conjoin.runtime.atomic_files import read_json, read_sealed, sha256_of, write_sealed
from conjoin.runtime.format_version import FORMAT_VERSION, KEY
from conjoin.training import checkpoint
from conjoin.training.recipe import Recipe

GRAPH = conjoin.load("synthetic:symmetric(entities=120)")
RUN = Run.of(GRAPH, "complex", rank=4, recipe=Recipe(epochs=2, batch=64))
BAD: tuple[tuple[Any, type[RunError]], ...] = ((FORMAT_VERSION + 6, NewerFormat), ("2", RunError), (0, RunError))
RECORDS = ("run.json", "result.json", CALIBRATION)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = execute(RUN, GRAPH, tmp_path_factory.mktemp("runs") / "original")
    write_calibration(folder, GRAPH, calibrate(conjoin.open(folder), Fitting(method="platt")), weights="last")
    return folder.path


@pytest.fixture
def folder(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(original, tmp_path / "run"))


def set_version(file: Path, version: object) -> None:
    """Rewrite a record as valid in every other respect; None removes the version."""
    content = read_sealed(file)
    del content[KEY]
    write_sealed(file, content if version is None else {**content, KEY: version})


def set_weights_version(monkeypatch: pytest.MonkeyPatch, version: object) -> None:
    monkeypatch.setattr(checkpoint, "STAMP", {} if version is None else {KEY: version})


def words(file: Path) -> dict[str, Any]:
    with file.open("rb") as stream:
        header = json.loads(stream.read(int.from_bytes(stream.read(8), "little")))
    return dict(json.loads(header["__metadata__"]["conjoin"]))


def test_every_file_records_its_version(original: Path, tmp_path: Path) -> None:
    export(original, tmp_path / "bundle")
    for place in (original, tmp_path / "bundle"):
        assert {name: read_json(place / name)[KEY] for name in RECORDS} == dict.fromkeys(RECORDS, FORMAT_VERSION)
        assert words(place / "model.safetensors")[KEY] == FORMAT_VERSION


def test_a_folder_from_before_versions_opens_and_answers_the_same(
    original: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_weights_version(monkeypatch, None)
    weights = folder / "model.safetensors"
    tensors, kept = checkpoint.load_tensors(weights)
    checkpoint.save_tensors(weights, tensors, kept)
    assert KEY not in words(weights)
    for name in ("run.json", CALIBRATION):
        set_version(folder / name, None)
    result = read_sealed(folder / "result.json")
    del result[KEY]
    result["files"][weights.name] = sha256_of(weights)
    write_sealed(folder / "result.json", result)
    before, after = conjoin.open(original), conjoin.open(folder)
    relation = GRAPH.relations.names[0]
    assert after.ask(GRAPH.entities.names[0], relation) == before.ask(GRAPH.entities.names[0], relation)
    assert RunFolder(folder).run.id == RUN.id
    assert execute(RUN, GRAPH, folder).result["test"] == RunFolder(original).result["test"]


@pytest.mark.parametrize(("version", "error"), BAD)
@pytest.mark.parametrize("name", RECORDS)
def test_another_version_of_a_record_is_refused(
    folder: Path, name: str, version: object, error: type[RunError]
) -> None:
    set_version(folder / name, version)
    with pytest.raises(error, match=f"{name}.*{version}"):
        conjoin.open(folder)


@pytest.mark.parametrize(("version", "error"), BAD)
def test_another_version_of_weights_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: object, error: type[RunError]
) -> None:
    set_weights_version(monkeypatch, version)
    checkpoint.save_tensors(tmp_path / "w", {"a": torch.ones(2)}, {})
    with pytest.raises(error, match=f"w.*{version}"):
        checkpoint.load_tensors(tmp_path / "w")


def test_a_checkpoint_of_a_newer_version_is_not_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = Graph.from_triples([("a", "r", "b"), ("b", "r", "c")])
    run = Run.of(graph, "complex", rank=4, recipe=Recipe(epochs=3))
    stop = _after(2)
    set_weights_version(monkeypatch, FORMAT_VERSION + 1)
    with pytest.raises(Stopped):
        execute(run, graph, tmp_path / "run", conduct=ExecutionOptions(stop=stop))
    with pytest.raises(NewerFormat, match=str(FORMAT_VERSION + 1)):
        execute(run, graph, tmp_path / "run")


def _after(calls: int) -> Callable[[], bool]:
    left = iter(range(calls))
    return lambda: next(left, None) is None
