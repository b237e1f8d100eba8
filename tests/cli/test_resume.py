"""Real processes: killed, resumed, two at once, without the permission to write."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.cli.commands import TINY, assert_refused, command, conjoin
from tests.stress.kills import checkpoint_epoch

from conjoin.runs.folder import RunFolder
from conjoin.runtime.signals import ECHO

CAPABILITIES = (1, 2)
"""CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH: what lets root write everywhere."""
DROP_CAPABILITY = 24


def started(folder: Path, *words: object) -> subprocess.Popen[bytes]:
    """A training process that has finished its first epoch."""
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


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_second_process_is_refused_and_interrupted_one_advises_resume(
    lands: Path, tmp_path: Path, number: signal.Signals, code: int
) -> None:
    words = ("train", lands, "--rank", 4, "--epochs", 100_000)
    process = started(tmp_path / "run", *words)
    second = conjoin(*words, "-o", tmp_path / "run", "--resume")
    assert_refused(second, tmp_path / "run")
    process.send_signal(number)
    _, said = process.communicate(timeout=60)
    assert process.returncode == code
    assert "--resume" in said.decode().splitlines()[-1]
    assert len(RunFolder(tmp_path / "run").events) == checkpoint_epoch(tmp_path / "run") > 0


STUCK = """
import sys, time
from conjoin.runtime.signals import stopping
with stopping() as stop:
    print("ready", flush=True)
    told = False
    while True:
        time.sleep(0.01)
        if stop() and not told:
            told = True
            print("asked", flush=True)
"""


@pytest.mark.parametrize("second", [signal.SIGINT, signal.SIGTERM])
def test_second_signal_ends_the_process_at_once(second: signal.Signals) -> None:
    process = subprocess.Popen([sys.executable, "-c", STUCK], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    process.send_signal(signal.SIGINT)
    assert process.stdout.readline() == b"asked\n"
    time.sleep(2 * ECHO)
    process.send_signal(second)
    process.communicate(timeout=30)
    assert process.returncode == -second


STOPPED = """
import ctypes, os, signal, time
from conjoin.runtime.signals import LISTEN_EVERY, stopping
with stopping() as stop:
    {happens}
    time.sleep(0.2)
    print("checkpoint", stop.exit_code)
"""
TWICE = "[os.kill(os.getpid(), signal.SIGTERM) for _ in range(2)]"
TAKEN = "; ".join(
    [
        "ctypes.CDLL(None).signal(signal.SIGTERM, 0)",
        "time.sleep(2 * LISTEN_EVERY)",
        "assert not stop()",
        "os.kill(os.getpid(), signal.SIGTERM)",
    ]
)


@pytest.mark.parametrize("happens", [TWICE, TAKEN], ids=["signals twice", "a library takes them"])
def test_signals_of_gnu_timeout_count_as_one(happens: str) -> None:
    """GNU timeout signals the process, then its whole group, which contains the process again. LLVM, which compiles
    Triton kernels, installs its own handlers: it receives the first signal, and the system's default the second."""
    program = STOPPED.format(happens=happens)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (0, b"checkpoint 143\n"), done.stderr.decode()


IN_ONE_OPERATION = """
import hashlib
from conjoin.runtime.signals import stopping
with stopping() as stop:
    print("ready", flush=True)
    hashlib.pbkdf2_hmac("sha256", b"", b"", 2**31 - 1)
"""


@pytest.mark.parametrize("second", [signal.SIGINT, signal.SIGTERM])
def test_signals_arrive_during_one_long_operation(second: signal.Signals) -> None:
    """Python calls its handlers between operations; a large product takes seconds, this one an hour."""
    process = subprocess.Popen([sys.executable, "-c", IN_ONE_OPERATION], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline() == b"ready\n"
    process.send_signal(signal.SIGTERM)
    assert process.stderr.readline()
    time.sleep(2 * ECHO)
    process.send_signal(second)
    process.communicate(timeout=30)
    assert process.returncode == -second


@pytest.mark.slow
def test_stopped_search_repeats_its_unfinished_trial(lands: Path, tmp_path: Path) -> None:
    storage = f"sqlite:///{tmp_path}/tune.db"
    words = ("tune", lands, "--rank", 4, "--epochs", 300, "--validate-every", 100, "--storage", storage, "--trials", 2)
    process = subprocess.Popen(command(*words), stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)
    assert process.stderr is not None
    assert b"trial 0" in process.stderr.readline()
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 143, said.decode()
    assert "stopped: " in said.decode()
    again = conjoin(*words)
    assert again.code == 0, again.err
    assert again.err.count("trial ") == 1
    assert "trial 2 " in again.err


@pytest.mark.parametrize("file", ["run.json", "events.jsonl", "graph/graph.json", "checkpoint.safetensors"])
def test_missing_file_is_restored_or_refused_on_resume(lands: Path, tmp_path: Path, file: str) -> None:
    words = ("train", lands, "--rank", 4, "--epochs", 6, "-o", tmp_path / "run")
    whole = tmp_path / "whole"
    assert conjoin(*words[:-1], whole).code == 0
    stop = iter(range(1000))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("conjoin.runtime.signals.StopRequest.__call__", lambda _: next(stop) == 4)
        assert conjoin(*words).code == 128
    (tmp_path / "run" / file).unlink()
    again = conjoin(*words, "--resume")
    if file == "events.jsonl":
        assert_refused(again, file)
    else:
        assert again.code == 0, again.err
        assert (tmp_path / "run" / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()


def test_resume_keeps_the_precision(lands: Path, tmp_path: Path) -> None:
    words = ("train", lands, "--rank", 4, "--epochs", 6, "-o", tmp_path / "run")
    stop = iter(range(1000))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("conjoin.runtime.signals.StopRequest.__call__", lambda _: next(stop) == 4)
        patch.setattr("conjoin.training.steps.choose.usual_precision", lambda *_, **__: "bf16")  # as on another machine
        assert conjoin(*words).code == 128
    again = conjoin(*words, "--resume")
    assert again.code == 0, again.err
    assert RunFolder(tmp_path / "run").run.recipe.precision == "bf16"
    assert_refused(conjoin(*words, "--precision", "fp32"), "precision", "bf16", "fp32")


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


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="drops capabilities of Linux")
def test_read_only_folders_are_refused(lands: Path, trained: Path, tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    refused = as_mere_owner("train", lands, *TINY, "-o", closed / "run")
    assert refused.returncode == 2
    assert str(closed) in refused.stderr
    assert "Permission denied" in refused.stderr
    for folder in (trained, trained / "graph"):
        folder.chmod(0o500)
    try:
        again = as_mere_owner("train", lands, *TINY, "--validate-every", 1, "-o", trained, "--json")
    finally:
        for folder in (trained, trained / "graph"):
            folder.chmod(0o700)
    assert again.returncode == 0, again.stderr
    assert again.stdout.startswith('{"run":')
