"""Weights come back bit for bit, or not at all."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from conjoin.errors import RunError
from conjoin.graph.graph import Graph
from conjoin.model.model import Model
from conjoin.training.checkpoint import (
    load_checkpoint,
    load_model,
    load_tensors,
    save_checkpoint,
    save_model,
    save_tensors,
)
from conjoin.training.loop import Training, train
from conjoin.training.recipe import Recipe

GRAPH = Graph.from_triples([("a", "r", "b"), ("b", "r", "c"), ("c", "s", "a")], [("a", "r", "c")])
TENSORS = {
    "table": torch.arange(12.0).reshape(4, 3),
    "part": torch.arange(20.0).reshape(4, 5)[:, 1:3],
    "one": torch.tensor(7.0),
    "half": torch.ones(2, dtype=torch.bfloat16),
    "none": torch.empty(0, 3),
}
WORDS = {"epoch": 3, "form": "5★E", "mrr": 0.1}


def training(rank: int = 4, **settings: Any) -> Training:
    model = Model("5star-conj", GRAPH.n_entities, GRAPH.n_relations, rank=rank)
    return train(model, GRAPH, Recipe(**{"epochs": 6, "batch": 4, "validate_every": 2, **settings}))


def test_tensors_and_words_are_restored(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    save_tensors(path, TENSORS, WORDS)
    tensors, words = load_tensors(path)
    assert words == WORDS
    assert set(tensors) == set(TENSORS)
    for name, tensor in TENSORS.items():
        assert tensors[name].dtype == tensor.dtype
        assert torch.equal(tensors[name], tensor)


def test_the_same_content_is_the_same_file(tmp_path: Path) -> None:
    save_tensors(tmp_path / "a", TENSORS, WORDS)
    save_tensors(tmp_path / "b", dict(reversed(TENSORS.items())), dict(reversed(WORDS.items())))
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_the_file_has_the_usual_permissions(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        save_tensors(tmp_path / "a", TENSORS, WORDS)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o640


def test_truncation_and_every_flipped_byte_are_detected(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    save_tensors(path, TENSORS, WORDS)
    whole = path.read_bytes()
    for length in (0, 7, 8, 100, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(RunError, match=r"a\.safetensors"):
            load_tensors(path)
    unnoticed = []
    for place in range(len(whole)):
        flipped = bytearray(whole)
        flipped[place] ^= 1 << (place % 8)
        path.write_bytes(flipped)
        try:
            load_tensors(path)
        except RunError:
            continue
        unnoticed.append(place)
    assert not unnoticed


def test_other_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    with pytest.raises(RunError, match=r"a\.safetensors"):
        load_tensors(path)
    for metadata in (None, {"other": "1"}, {"conjoin": "[]"}, {"conjoin": "{"}, {"conjoin": "{}"}):
        save_file({"x": torch.ones(2)}, path, metadata=metadata)
        with pytest.raises(RunError, match=r"a\.safetensors"):
            load_tensors(path)


@pytest.mark.parametrize("optimizer", ["adagrad", "adam", "sgd"])
def test_resume_from_a_checkpoint_is_bit_identical(tmp_path: Path, optimizer: str) -> None:
    whole, half = training(optimizer=optimizer), training(optimizer=optimizer)
    expected = [(epoch.loss, epoch.penalty, epoch.valid) for epoch in whole]
    for _ in range(3):
        next(half)
    save_checkpoint(tmp_path / "c", half)
    again = training(optimizer=optimizer)
    load_checkpoint(tmp_path / "c", again)
    assert again.progress == half.progress
    assert [(epoch.loss, epoch.penalty, epoch.valid) for epoch in again] == expected[3:]
    for name, tensor in whole.model.state_dict().items():
        assert torch.equal(tensor, again.model.state_dict()[name])
        assert torch.equal(whole.best_weights[name], again.best_weights[name])


def test_a_checkpoint_of_another_model_is_refused(tmp_path: Path) -> None:
    other = training(rank=6)
    next(other)
    save_checkpoint(tmp_path / "c", other)
    with pytest.raises(RunError, match=re.escape(str(tmp_path / "c"))):
        load_checkpoint(tmp_path / "c", training())
    save_tensors(tmp_path / "d", TENSORS, {})
    with pytest.raises(RunError, match=re.escape(str(tmp_path / "d"))):
        load_checkpoint(tmp_path / "d", training())


@pytest.mark.parametrize("best_epoch", [0, 2])
def test_best_weights_without_best_epoch_or_the_reverse_are_refused(tmp_path: Path, best_epoch: int) -> None:
    half = training()
    for _ in range(2):
        next(half)
    save_checkpoint(tmp_path / "c", half)
    load_checkpoint(tmp_path / "c", training())
    tensors, words = load_tensors(tmp_path / "c")
    if best_epoch:
        tensors = {name: tensor for name, tensor in tensors.items() if not name.startswith("best.")}
    words["progress"]["best_epoch"] = best_epoch
    save_tensors(tmp_path / "c", tensors, words)
    with pytest.raises(RunError, match=f"best_epoch = {best_epoch}"):
        load_checkpoint(tmp_path / "c", training())


def test_a_model_is_restored_and_every_changed_bit_is_detected(tmp_path: Path) -> None:
    path, model = tmp_path / "m.safetensors", Model("complex-conj", 3, 1, rank=2, seed=1)
    save_model(path, model, model.state_dict(), WORDS)
    again = Model("complex-conj", 3, 1, rank=2, seed=None)
    load_model(path, again)
    assert all(torch.equal(again.state_dict()[name], tensor) for name, tensor in model.state_dict().items())
    whole, unnoticed = path.read_bytes(), []
    for place in range(8, len(whole)):
        flipped = bytearray(whole)
        flipped[place] ^= 1 << (place % 8)
        path.write_bytes(flipped)
        try:
            load_model(path, again)
        except RunError:
            continue
        unnoticed.append(place)
    assert not unnoticed


@pytest.mark.parametrize(
    ("tensors", "value"),
    [
        ({}, "relations"),
        ({"relations": torch.ones(2, 4)}, r"relations.*entities\.weight"),
        ({"entities.weight": torch.ones(3, 4), "relations": torch.ones(2, 6)}, r"relations.*\(2, 6\).*\(2, 4\)"),
    ],
)
def test_weights_of_another_model_are_refused(tmp_path: Path, tensors: dict[str, torch.Tensor], value: str) -> None:
    save_tensors(tmp_path / "m", tensors, WORDS)
    with pytest.raises(RunError, match=value):
        load_model(tmp_path / "m", Model("complex", 3, 1, rank=2, seed=None))


@pytest.mark.parametrize("error", [RuntimeError("unable to mmap"), MemoryError("Cannot allocate memory")])
def test_a_file_that_cannot_be_mapped_is_refused(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """torch raises other errors than OSError for such failures."""
    save_tensors(tmp_path / "a", TENSORS, WORDS)

    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("conjoin.training.checkpoint.safe_open", fail)
    with pytest.raises(RunError, match=str(error)):
        load_tensors(tmp_path / "a")
