"""One of several processes is killed: the others stop and say so, and the run goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.cli.commands import command, conjoin

from conjoin.runs.folder import RunFolder
from conjoin.runtime.launcher import culprit

EPOCHS = 200
PATIENCE = 90


def children(pid: int) -> list[int]:
    """Processes that a process has started, as Linux tells it."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            words = status.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(words[1]) == pid:
            found.append(int(status.parent.name))
    return found


@pytest.mark.slow
def test_killed_process_stops_the_others_and_the_run_resumes(tmp_path: Path) -> None:
    if not Path("/proc/self/stat").exists():
        pytest.skip("this system does not tell who started a process")
    facts = tmp_path / "facts.tsv"
    facts.write_text("".join(f"e{i}\tr{i % 3}\te{(i * 7 + 1) % 40}\n" for i in range(40)))
    run = tmp_path / "run"
    words = ("train", facts, "--rank", 4, "--batch", 16, "--checkpoint-epochs", 5, "--device", "cpu", "-o", run)
    started = subprocess.Popen(
        command(*words, "--epochs", EPOCHS, "--processes", 2), stderr=subprocess.PIPE, stdout=subprocess.DEVNULL
    )
    give_up = time.monotonic() + PATIENCE
    while not list(run.glob("checkpoint/0*/index.json")):
        assert started.poll() is None, started.communicate()[1]
        assert time.monotonic() < give_up
        time.sleep(0.02)
    os.kill(children(started.pid)[-1], signal.SIGKILL)
    said = started.communicate(timeout=60)[1].decode()
    assert started.returncode == 1
    assert "SIGKILL" in said
    assert "--resume" in said
    assert "Traceback" not in said
    assert not RunFolder(run).finished
    refused = conjoin(*words, "--epochs", EPOCHS)
    assert refused.code == 2
    assert str(run) in refused.err
    resumed = conjoin(*words, "--epochs", EPOCHS, "--resume", "--json")
    assert resumed.json["epochs"] == EPOCHS
    assert len(RunFolder(run).events) == EPOCHS
    assert not (run / "checkpoint").exists()


@pytest.mark.parametrize(
    ("words", "processes"),
    [
        (("--processes", 3, "--replicas", 2), "3"),
        (("--replicas", 2), "1"),
    ],
)
def test_replicas_that_do_not_divide_processes_are_refused(words: tuple[object, ...], processes: str) -> None:
    refused = conjoin("train", "atlas", "--epochs", 1, *words)
    assert refused.code == 2
    assert processes in refused.err
    assert "2" in refused.err


@pytest.mark.parametrize(
    ("failures", "blamed"),
    [
        ({0: (-signal.SIGABRT, 100), 1: (-signal.SIGKILL, 100)}, 1),
        ({0: (1, 100), 1: (-signal.SIGKILL, 101)}, 1),
        ({0: (-signal.SIGABRT, 100), 1: (2, 101)}, 1),
        ({0: (-signal.SIGABRT, 100), 1: (-signal.SIGTERM, 101)}, 0),
        ({0: (2, 100), 1: (-signal.SIGKILL, 130)}, 0),
    ],
)
def test_error_names_the_process_that_failed_first(failures: dict[int, tuple[int, int]], blamed: int) -> None:
    """Exit codes and seconds. Of 130, thirty seconds later: it was killed for not ending by itself."""
    found = {rank: SimpleNamespace(exitcode=code, timestamp=second) for rank, (code, second) in failures.items()}
    assert culprit(found)[0] == blamed  # type: ignore[arg-type]
