"""Checkpoints of several processes, as far as one process can show: kept while they are replaced, forged, misplaced."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.stress.forged import training
from tests.stress.readers import limited_memory

from conjoin.errors import RunError
from conjoin.runtime.atomic_files import write_sealed
from conjoin.training import checkpoint_distributed
from conjoin.training.checkpoint_distributed import load_shards, newest_shards, save_shards


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A checkpoint after the first epoch."""
    begun = training()
    next(begun)
    save_shards(tmp_path, begun)
    return tmp_path


def loaded(folder: Path) -> Any:
    newest, again = newest_shards(folder), training()
    assert newest is not None
    load_shards(newest, again)
    return again


def forge(folder: Path, name: str, **values: object) -> None:
    index = folder / "000001" / "index.json"
    told = json.loads(index.read_text(encoding="utf-8"))
    del told["sha256"]
    told["tensors"][name] |= values
    write_sealed(index, told)


def test_saving_an_epoch_again_keeps_the_existing_checkpoint(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of a run saves its last epoch twice; a kill in between must not find the folder empty."""

    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(checkpoint_distributed, "_write", killed)
    again = loaded(folder)
    save_shards(folder, again)
    assert loaded(folder).progress.epoch == 1


def test_folders_without_a_complete_checkpoint_are_skipped(folder: Path) -> None:
    for name in ("1x", "2", "new", ".000009"):
        (folder / name).mkdir()
        (folder / name / "index.json").write_text("{}", encoding="utf-8")
    assert loaded(folder).progress.epoch == 1


@pytest.mark.parametrize("shape", [[1 << 40], [1 << 20, 1 << 20], [-1, 4], [3], "3"])
@pytest.mark.parametrize("name", ["optimizer.0.sum", "model.relations", "optimizer.1.step"])
def test_a_forged_shape_is_refused_and_takes_no_memory(folder: Path, name: str, shape: object) -> None:
    forge(folder, name, shape=shape)
    with limited_memory(512), pytest.raises(RunError, match=re.escape(str(folder))):
        loaded(folder)


def test_chunks_that_do_not_cover_a_tensor_are_refused(folder: Path) -> None:
    forge(folder, "model.entities.weight", chunks=[])
    with pytest.raises(RunError, match=r"entities\.weight"):
        loaded(folder)


def test_a_wrong_dtype_raises_without_log_records(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    forge(folder, "model.relations", dtype=["float32"])
    with pytest.raises(RunError):
        loaded(folder)
    assert not caplog.records


def test_state_is_restored_and_a_changed_byte_is_detected(folder: Path) -> None:
    begun = training()
    next(begun)
    again = loaded(folder)
    assert [(epoch.loss, epoch.penalty) for epoch in again] == [(epoch.loss, epoch.penalty) for epoch in begun]
    for name, tensor in begun.model.state_dict().items():
        assert torch.equal(again.model.state_dict()[name], tensor)
    file = folder / "000001" / "shard-00000.safetensors"
    whole = file.read_bytes()
    for place in range(len(whole) - 64, len(whole), 5):
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(RunError, match="shard-00000"):
            loaded(folder)


def test_newest_checkpoint_has_the_highest_epoch(folder: Path) -> None:
    for name in ("999999", "1000000"):
        (folder / name).mkdir()
        (folder / name / "index.json").touch()
    assert newest_shards(folder) == folder / "1000000"
