"""Run folders that are changed or taken away while their run is half done, and devices that are not there."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
from tests.runs.test_execute import GRAPH, RUN, PowerCut, outcome, stopping_after

from conjoin.errors import RunError, StorageError, UsageError
from conjoin.runs.execute import ExecutionOptions, execute
from conjoin.runs.folder import RunFolder
from conjoin.training.loop import Epoch


def test_changed_events_of_a_half_done_run_are_refused(tmp_path: Path) -> None:
    """Only a checksum shows that a digit of a loss changed. Events after the checkpoint are written again."""
    with pytest.raises(PowerCut):
        execute(RUN, GRAPH, tmp_path / "run", conduct=stopping_after(3, checkpoint_epochs=2))
    file = RunFolder(tmp_path / "run").events_file
    whole = file.read_bytes()
    place = whole.index(b'"loss": ') + len(b'"loss": ')
    file.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
    with pytest.raises(RunError, match=r"events\.jsonl"):
        execute(RUN, GRAPH, tmp_path / "run")
    *kept, last = whole.splitlines(keepends=True)
    file.write_bytes(b"".join(kept) + last[:-9] + b"\xff\n")
    assert outcome(execute(RUN, GRAPH, tmp_path / "run")) == outcome(execute(RUN, GRAPH, tmp_path / "undisturbed"))


def test_removing_the_folder_of_a_running_run_is_a_storage_error(tmp_path: Path) -> None:
    def vanish(_: Epoch) -> None:
        shutil.rmtree(tmp_path / "run")

    with pytest.raises(StorageError, match=tmp_path.name):
        execute(RUN, GRAPH, tmp_path / "run", conduct=ExecutionOptions(watch=vanish))


@pytest.mark.parametrize("device", ["gpu", "cuda"])
def test_a_missing_device_is_refused(tmp_path: Path, device: str) -> None:
    if device == "cuda" and torch.cuda.is_available():
        pytest.skip("it is here")
    with pytest.raises(UsageError, match=device):
        execute(RUN, GRAPH, tmp_path / "run", conduct=ExecutionOptions(device=device))
    assert not (tmp_path / "run").exists()
