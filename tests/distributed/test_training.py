"""Several processes give the numbers of one: losses, gradients, standings, trained tables, checkpoints."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tests.distributed import work
from tests.distributed.processes import together

from conjoin.errors import RunError
from conjoin.training.checkpoint import load_model, save_checkpoint
from conjoin.training.checkpoint_distributed import load_shards, newest_shards, save_shards

pytestmark = pytest.mark.slow


@pytest.fixture(scope="session")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Checkpoints that a plain process left after the second epoch, of both kinds."""
    made = tmp_path_factory.mktemp("alone")
    half = work.halfway()
    save_checkpoint(made / "plain.safetensors", half)
    save_shards(made, half)
    return made


@pytest.fixture(scope="session")
def two(tmp_path_factory: pytest.TempPathFactory, alone: Path) -> Path:
    """What two processes computed, each with half of the table."""
    made = tmp_path_factory.mktemp("two")
    starts = alone / "plain.safetensors", alone / "000002"
    together(2, "tests.distributed.work", made, 1, ",".join(work.ALL), *starts)
    return made


@pytest.fixture(scope="session")
def four(tmp_path_factory: pytest.TempPathFactory, two: Path) -> Path:
    """What four computed, which hold two replicas of two shards, from a checkpoint of two."""
    made = tmp_path_factory.mktemp("four")
    together(4, "tests.distributed.work", made, 2, "verbs,losses", two / "half-adagrad" / "000002")
    return made


@pytest.fixture(scope="session", params=["two", pytest.param("four", marks=pytest.mark.slow)])
def folder(request: pytest.FixtureRequest) -> Path:
    made: Path = request.getfixturevalue(request.param)
    return made


BENCHMARKS = ("umls", "wn18rr")
NAMES = [pytest.param(name, marks=[pytest.mark.data] * (name in BENCHMARKS)) for name in work.ALL]


@pytest.mark.parametrize("name", NAMES)
def test_several_processes_give_the_numbers_of_one(folder: Path, name: str) -> None:
    if not (folder / f"{name}.safetensors").exists():
        pytest.skip("compared on two processes only")
    found, expected = load_file(folder / f"{name}.safetensors"), work.ALL[name]()
    if not expected:
        pytest.skip(f"the dataset {name} is not on this machine: set CONJOIN_DATA, or conjoin fetch {name}")
    assert found.keys() == expected.keys()
    assert name != "wn18rr" or (found["wn18rr tied"] > 0).any()
    for key, tensor in expected.items():
        if tensor.is_floating_point():
            torch.testing.assert_close(found[key], tensor, rtol=1e-10, atol=1e-10)
        else:
            assert torch.equal(found[key], tensor), key


def test_checkpoint_resumes_on_any_number_of_processes(folder: Path) -> None:
    undisturbed = work.training_of(epochs=4)
    losses = [epoch.loss for epoch in undisturbed]
    files = list(folder.glob("resumed-*.safetensors"))
    assert len(files) == (2 if folder.name.startswith("two") else 1)
    for file in files:
        found = load_file(file)
        assert found["losses"].tolist() == pytest.approx(losses[2:], abs=1e-10)
        torch.testing.assert_close(found["table"], undisturbed.model.entities.weight.detach(), rtol=0, atol=1e-10)


@pytest.mark.parametrize("optimizer", ["adagrad", "adam"])
def test_checkpoint_of_several_processes_resumes_in_one(folder: Path, optimizer: str) -> None:
    stored = newest_shards(folder / f"half-{optimizer}")
    assert stored is not None
    undisturbed = work.training_of(epochs=4, optimizer=optimizer)
    losses = [epoch.loss for epoch in undisturbed]
    resumed = work.training_of(epochs=4, optimizer=optimizer)
    load_shards(stored, resumed)
    assert [epoch.loss for epoch in resumed] == pytest.approx(losses[2:], abs=1e-10)
    assert resumed.progress == undisturbed.progress
    for name, tensor in undisturbed.best_weights.items():
        torch.testing.assert_close(resumed.best_weights[name], tensor, rtol=0, atol=1e-10)


def test_gathered_file_is_an_ordinary_checkpoint(folder: Path) -> None:
    half = work.training_of(epochs=2)
    for _ in half:
        pass
    model = work.model_of("5star-conj")
    load_model(folder / "adagrad.safetensors", model)
    torch.testing.assert_close(model.entities.weight, half.model.entities.weight, rtol=0, atol=1e-10)
    torch.testing.assert_close(model.relations, half.model.relations, rtol=0, atol=1e-10)


def test_a_damaged_checkpoint_is_refused(folder: Path, tmp_path: Path) -> None:
    stored = newest_shards(folder / "half-adagrad")
    assert stored is not None
    for file in sorted(stored.iterdir()):
        copy = tmp_path / file.name
        copy.mkdir()
        for each in stored.iterdir():
            (copy / each.name).write_bytes(each.read_bytes())
        changed = bytearray(file.read_bytes())
        changed[len(changed) // 2] ^= 1
        (copy / file.name).write_bytes(changed)
        with pytest.raises(RunError, match=re.escape(str(copy))):
            load_shards(copy, work.training_of(epochs=4))
        (copy / file.name).unlink()
        with pytest.raises(RunError):
            load_shards(copy, work.training_of(epochs=4))


def test_checkpoint_holds_safetensors_and_json_only(folder: Path) -> None:
    stored = newest_shards(folder / "half-adam")
    assert stored is not None
    kinds = {file.name for file in stored.iterdir()}
    assert kinds <= {"index.json", *(f"shard-{rank:05d}.safetensors" for rank in range(4))}
    with pytest.raises(RunError, match=re.escape(str(stored))):
        load_shards(stored, work.training_of(form="complex", epochs=4))
