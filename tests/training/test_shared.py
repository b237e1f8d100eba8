"""Parameters and state that all relations share are trained, stored and resumed with the tables."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tests.model.test_form_seams import Normalised
from tests.oracle.standings import random_graph

from conjoin.graph.graph import Graph
from conjoin.model.model import Model
from conjoin.training.checkpoint import load_checkpoint, load_model, save_checkpoint, save_model
from conjoin.training.checkpoint_distributed import load_shards, newest_shards, save_shards
from conjoin.training.loop import Training, train
from conjoin.training.recipe import OPTIMIZERS, Recipe


def training_of(graph: Graph, optimizer: str, seed: int = 0) -> Training:
    settings = {"epochs": 4, "batch": 40, "optimizer": optimizer, "lr": 0.02, "validate_every": 1}
    model = Model(Normalised(), graph.n_entities, graph.n_relations, rank=4, seed=seed, scale=0.3)
    return train(model, graph, Recipe.from_mapping(settings), seed=5)


@pytest.mark.parametrize("shards", [False, True])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_resuming_with_shared_parameters_is_bit_identical(tmp_path: Path, optimizer: str, shards: bool) -> None:
    graph = random_graph(0)
    whole = training_of(graph, optimizer)
    start = {name: tensor.clone() for name, tensor in whole.model.state_dict().items()}
    epochs = [next(whole), next(whole)]
    if shards:
        save_shards(tmp_path, whole)
    else:
        save_checkpoint(tmp_path / "half.safetensors", whole)
    epochs += whole
    resumed = training_of(graph, optimizer, seed=1)
    if shards:
        target = newest_shards(tmp_path)
        assert target is not None
        load_shards(target, resumed)
    else:
        load_checkpoint(tmp_path / "half.safetensors", resumed)
    assert [(each.loss, each.penalty, each.valid) for each in resumed] == [
        (each.loss, each.penalty, each.valid) for each in epochs[2:]
    ]
    for name, tensor in whole.model.state_dict().items():
        assert torch.equal(resumed.model.state_dict()[name], tensor), name
        assert torch.equal(resumed.best_weights[name], whole.best_weights[name]), name
        assert not torch.equal(tensor, start[name]), name


def test_stored_weights_hold_shared_parameters_and_state(tmp_path: Path) -> None:
    graph = random_graph(0)
    training = training_of(graph, "adagrad")
    next(training)
    save_model(tmp_path / "last.safetensors", training.model, training.model.state_dict(), {"epoch": 1})
    model = Model(Normalised(), graph.n_entities, graph.n_relations, rank=4, seed=None)
    load_model(tmp_path / "last.safetensors", model)
    for name, tensor in training.model.state_dict().items():
        assert torch.equal(model.state_dict()[name], tensor), name
