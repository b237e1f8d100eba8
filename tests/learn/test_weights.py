"""Weights come back bit for bit, or not at all."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from conjoin.errors import RunError
from conjoin.graph.graph import Graph
from conjoin.learn.recipe import Recipe
from conjoin.learn.train import Training, train
from conjoin.learn.weights import load_checkpoint, load_tensors, save_checkpoint, save_tensors
from conjoin.model.model import Model

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


def test_tensors_and_words_come_back(tmp_path: Path) -> None:
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


def test_every_kind_of_damage_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    save_tensors(path, TENSORS, WORDS)
    whole = path.read_bytes()
    for length in (0, 7, 8, 100, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(RunError, match="delete the folder and run again"):
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
    with pytest.raises(RunError, match="cannot be read as weights"):
        load_tensors(path)
    for metadata in (None, {"other": "1"}, {"conjoin": "[]"}, {"conjoin": "{"}, {"conjoin": "{}"}):
        save_file({"x": torch.ones(2)}, path, metadata=metadata)
        with pytest.raises(RunError, match="cannot be read as weights"):
            load_tensors(path)


@pytest.mark.parametrize("optimizer", ["adagrad", "adam", "sgd"])
def test_a_checkpoint_continues_exactly(tmp_path: Path, optimizer: str) -> None:
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


def test_a_checkpoint_of_something_else_is_refused(tmp_path: Path) -> None:
    other = training(rank=6)
    next(other)
    save_checkpoint(tmp_path / "c", other)
    with pytest.raises(RunError, match="does not belong to this run"):
        load_checkpoint(tmp_path / "c", training())
    save_tensors(tmp_path / "d", TENSORS, {})
    with pytest.raises(RunError, match="does not belong to this run"):
        load_checkpoint(tmp_path / "d", training())
