"""A training killed at every file operation of its run, those after its result included."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from functools import partial
from pathlib import Path
from typing import Any

from tests.stress.counts import Counts
from tests.stress.kills import same_runs, small_graph
from tests.stress.processes import conjoin, ended, start

from conjoin.runs.folder import RunFolder

WATCHED = ("open", "os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.listdir", "os.scandir")
NEVER = sys.maxsize
TRAINING = ("--rank", 4, "--batch", 200, "--epochs", 2, "--validate-every", 1, "--checkpoint-epochs", 1)


def kill_at_every_operation(place: Path, *, every: int) -> Counts:
    """One training for each file operation before result.json (each `every`th of them) and for all after it.

    SIGKILL comes in place of the operation. The same command with --resume then leaves what a run left alone leaves,
    and no other file: no checkpoint of a finished run.
    """
    log, told = place / "log", place / "operations"
    words = ("train", small_graph(place / "graph", facts=200), *TRAINING, "--device", "cpu", "--resume", "-o")
    whole, broken = place / "whole", place / "broken"
    code, said = ended(start(*words, whole, log=log, prepare=partial(_kill_at, NEVER, str(whole), str(told))), log)
    assert code == 0, said
    total, commit = map(int, told.read_text(encoding="ascii").split())
    assert 0 < commit < total
    before = after = left = 0
    for number in [*range(1, commit + 1, every), *range(commit + 1, total + 1)]:
        shutil.rmtree(broken, ignore_errors=True)
        code, said = ended(start(*words, broken, log=log, prepare=partial(_kill_at, number, str(broken), None)), log)
        assert code == -signal.SIGKILL, (number, code, said)
        folder = RunFolder(broken)
        before, after = before + (not folder.finished), after + folder.finished
        left += folder.finished and folder.half_done
        conjoin(*words, broken, log=log)
        same_runs(whole, broken)
    return {
        "SIGKILL at a file operation before the result": before,
        "SIGKILL at a file operation after the result": after,
        "of them with a checkpoint left": left,
        "checkpoints left after the next command": 0,
    }


def _kill_at(number: int, root: str, told: str | None) -> None:
    """In a new process: kill it in place of that file operation below `root`. Writes down how many there were, and
    which one of them put result.json in its place."""
    seen = commit = 0
    descriptor = os.open(told, os.O_CREAT | os.O_WRONLY) if told else None

    def hook(event: str, words: tuple[Any, ...]) -> None:
        nonlocal seen, commit
        if event not in WATCHED or not words or not str(words[0]).startswith(root):
            return
        seen += 1
        if seen == number:
            os.kill(os.getpid(), signal.SIGKILL)
        if event == "os.rename" and str(words[1]).endswith("result.json"):
            commit = seen
        if descriptor is not None:
            os.pwrite(descriptor, f"{seen:9} {commit:9}\n".encode(), 0)

    sys.addaudithook(hook)
