"""Epochs in spans: the same questions in the same order, whatever the size of a span, wherever a run was broken off."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeVar

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.oracle.standings import random_graph

from conjoin.errors import Stopped
from conjoin.model.model import Model
from conjoin.runtime.progress import stoppable
from conjoin.training import batches
from conjoin.training.batches import EpochQueries
from conjoin.training.checkpoint import load_checkpoint, save_checkpoint
from conjoin.training.loop import Training, train
from conjoin.training.recipe import Recipe

T = TypeVar("T")
GRAPH = random_graph(0)
CPU = torch.device("cpu")


@given(triples=st.integers(1, 30), batch=st.integers(1, 12), span=st.integers(1, 70), done=st.integers(0, 5))
def test_spans_are_the_epoch_cut_where_batches_end(triples: int, batch: int, span: int, done: int) -> None:
    facts = np.random.default_rng(triples).integers(0, 9, (triples, 3))
    order = torch.randperm(2 * triples, generator=torch.Generator().manual_seed(span))
    whole = torch.from_numpy(np.concatenate([facts, facts[:, ::-1] + [0, 9, 0]]))[order]
    done = min(done, len(order) // batch)
    asked = EpochQueries(facts, 9, batch=batch, device=CPU, span=span)
    found = list(asked.spans(order, done * batch))
    assert found or done * batch == len(order)
    first = found[0][0] if found else len(order)
    assert first <= done * batch
    assert torch.equal(torch.cat([whole[:first], *(part for _, part in found)]), whole)
    assert all(start % batch == 0 for start, _ in found)
    assert all(len(part) <= max(batch, span) for _, part in found)


def training_of(recipe: Recipe) -> Training:
    return train(Model("5star-conj", GRAPH.n_entities, GRAPH.n_relations, rank=4, scale=0.3), GRAPH, recipe, seed=2)


@pytest.mark.parametrize("negatives", [0, 5])
@pytest.mark.parametrize("span", [1, 30, 64])
def test_a_training_in_spans_is_bit_for_bit_the_same(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, span: int, negatives: int
) -> None:
    """Also when it is broken off within a span, between two and at the end, and goes on from a checkpoint."""
    recipe = Recipe(epochs=2, batch=10, negatives=negatives, negatives_power=0.5 if negatives else 0)
    whole = training_of(recipe)
    epochs = [(epoch.loss, epoch.penalty) for epoch in whole]
    steps = -(-2 * len(GRAPH.train) // recipe.batch)
    monkeypatch.setattr(batches, "CPU_SPAN", span)
    for broken in (None, 1, 3, 7, steps):
        training = training_of(recipe)
        if broken:
            left = iter(range(broken - 1))
            training.track = stoppable(training.track, lambda left=left: next(left, None) is None)  # type: ignore[misc]
            with pytest.raises(Stopped):
                next(training)
            assert len(training.costs) == broken
            save_checkpoint(tmp_path / "broken.safetensors", training)
            training = training_of(recipe)
            load_checkpoint(tmp_path / "broken.safetensors", training)
        assert [(epoch.loss, epoch.penalty) for epoch in training] == epochs
        assert torch.equal(training.model.entities.weight, whole.model.entities.weight)
        assert torch.equal(training.model.relations, whole.model.relations)


def test_progress_counts_the_steps_of_all_spans(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "CPU_SPAN", 30)
    told: list[tuple[str, int | None, int]] = []

    def track(steps: Iterable[T], what: str, total: int | None) -> Iterator[T]:
        seen = list(steps)
        told.append((what, total, len(seen)))
        return iter(seen)

    training = training_of(Recipe(epochs=1, batch=10))
    training.track = track
    next(training)
    count = -(-2 * len(GRAPH.train) // 10)
    assert told == [("epoch 1", count, count)]


def test_more_than_a_span_leaves_the_triples_where_they_are(tmp_path: Path) -> None:
    np.save(tmp_path / "train.npy", GRAPH.train)
    mapped = np.load(tmp_path / "train.npy", mmap_mode="r")
    asked = EpochQueries(mapped, GRAPH.n_relations, batch=10, device=CPU, span=20)
    assert asked.triples is mapped
    order = torch.arange(len(asked))
    assert np.array_equal(torch.cat([part for _, part in asked.spans(order)]).numpy(), GRAPH.queries("train"))
