"""Real processes: killed, continued, in each other's way, without the right to write."""

from __future__ import annotations

import ctypes
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from tests.cli.commands import TINY, command, conjoin

from conjoin.graph.named.datasets import locate
from conjoin.study.folder import RunFolder

KILLS = 4
CAPABILITIES = (1, 2)
"""CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH: what lets root write everywhere."""
DROP_CAPABILITY = 24


def started(folder: Path, *words: object) -> subprocess.Popen[bytes]:
    """A training process that has got as far as its first epoch."""
    before = events(folder)
    process = subprocess.Popen(command(*words, "-o", folder), stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)
    give_up = time.monotonic() + 60
    while events(folder) <= before:
        assert process.poll() is None, process.communicate()[1].decode()
        assert time.monotonic() < give_up
        time.sleep(0.01)
    return process


def events(folder: Path) -> int:
    file = folder / "events.jsonl"
    return file.read_bytes().count(b"\n") if file.exists() else 0


def killed(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert process.stderr is not None
    process.stderr.close()


def traces(folder: RunFolder) -> list[dict[str, Any]]:
    return [{key: value for key, value in event.items() if key != "seconds"} for event in folder.events]


def test_a_run_that_is_killed_again_and_again_ends_the_same(tmp_path: Path) -> None:
    if locate("nations") is None:
        pytest.skip("the dataset nations is not on this machine: set CONJOIN_DATA, or conjoin fetch nations")
    words = ("train", "nations", "--rank", 8, "--epochs", 40, "--validate-every", 5, "--checkpoint-epochs", 1)
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    assert conjoin(*words, "-o", whole).code == 0
    moments = random.Random(7)
    for number in range(KILLS):
        process = started(broken, *words, *(["--resume"] if number else []))
        time.sleep(moments.uniform(0, 0.4))
        killed(process)
        assert not RunFolder(broken).finished
    refused = conjoin(*words, "-o", broken)
    assert refused.code == 2
    assert "holds a half-done run: add --resume to continue it" in refused.err
    assert conjoin(*words, "-o", broken, "--resume").code == 0
    for file in ("model.safetensors", "best.safetensors", "ranks-valid.parquet", "ranks-test.parquet"):
        assert (whole / file).read_bytes() == (broken / file).read_bytes(), file
    assert traces(RunFolder(whole)) == traces(RunFolder(broken))
    assert RunFolder(whole).result["test"] == RunFolder(broken).result["test"]
    assert {file.name for file in whole.iterdir()} == {file.name for file in broken.iterdir()}


def test_a_second_process_is_told_and_an_interrupted_one_says_how_to_go_on(lands: Path, tmp_path: Path) -> None:
    words = ("train", lands, "--rank", 4, "--epochs", 100_000)
    process = started(tmp_path / "run", *words)
    second = conjoin(*words, "-o", tmp_path / "run", "--resume")
    assert second.code == 2
    assert "error: another process is working on" in second.err
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert said.decode().endswith("goes on from its last checkpoint by the same command with --resume.\n")


def without_rights() -> None:
    """In a child: make root an ordinary owner, who may not write where the mode forbids it."""
    library = ctypes.CDLL(None, use_errno=True)
    for capability in CAPABILITIES:
        if library.prctl(DROP_CAPABILITY, capability, 0, 0, 0):
            os._exit(77)


def as_mere_owner(*words: object) -> subprocess.CompletedProcess[str]:
    prepare = without_rights if os.geteuid() == 0 else None
    done = subprocess.run(command(*words), check=False, capture_output=True, text=True, timeout=120, preexec_fn=prepare)
    if done.returncode == 77:
        pytest.skip("root's right to write everywhere cannot be dropped here")
    return done


@pytest.mark.skipif(sys.platform != "linux", reason="drops capabilities of Linux")
def test_folders_that_may_not_be_written(lands: Path, trained: Path, tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    refused = as_mere_owner("train", lands, *TINY, "-o", closed / "run")
    assert refused.returncode == 2
    assert "cannot be written to (Permission denied): choose another folder" in refused.stderr
    for folder in (trained, trained / "graph"):
        folder.chmod(0o500)
    try:
        again = as_mere_owner("train", lands, *TINY, "--validate-every", 1, "-o", trained, "--json")
    finally:
        for folder in (trained, trained / "graph"):
            folder.chmod(0o700)
    assert again.returncode == 0, again.stderr
    assert again.stdout.startswith('{"run":')
