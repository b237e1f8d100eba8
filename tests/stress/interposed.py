"""The command line as processes whose system calls fail: tests/stress/faults.c before libc, forked from a warm process.

    with Interposed(place) as processes:
        ended = processes.run(["train", "graph", "-o", "run"], root)              # only logs
        ended = processes.run(["train", "graph", "-o", "run"], root, fault)       # and fails one call

Every process is a real one. It is forked from a server that has imported everything: importing torch takes seconds, and
a stress test starts thousands of processes.
"""

from __future__ import annotations

import atexit
import ctypes
import errno
import gc
import importlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

SOURCE = Path(__file__).with_name("faults.c")
FLAGS = ("-O1", "-fPIC", "-shared", "-Wno-attribute-alias")
HOW = ("fail", "short", "torn", "lose")
"""In the order of the C enumeration."""
PRELOADED = (
    "torch",
    "duckdb",
    "pydantic.type_adapter",
    "typer._adapters",
    "optuna",
    "sqlalchemy.dialects.sqlite.pysqlite",
    "pyarrow.dataset",
    "pyarrow.parquet",
    "matplotlib.backends.backend_pdf",
    "matplotlib.backends.backend_svg",
    "conjoin.cli",
    "conjoin.io.ingest",
    "conjoin.training.checkpoint_distributed",
    "conjoin.training.tuning",
    "conjoin.planning.plan",
    "conjoin.report.build",
    "conjoin.predict.calibration",
    "conjoin.runs.export",
    "conjoin.predict.mining",
    "conjoin.studies.worker",
    "tests.stress.forged",
)
TRACEBACK = 99
"""The exit code of a process that an exception ended."""
HANGS_AFTER = 120.0
"""Seconds after which a process that takes under one counts as hanging."""


@dataclass(frozen=True)
class Call:
    """A system call: its kind, its path below the root, and the how-manieth of that kind on that path it is."""

    kind: str
    path: str
    number: int

    def __str__(self) -> str:
        return f"{self.kind} {self.path} #{self.number}"


@dataclass(frozen=True)
class Fault:
    """What happens at a call: see tests/stress/faults.c. Afterwards every call of a kind in `lasting` fails."""

    call: Call
    error: str = "EIO"
    how: str = "fail"
    lasting: tuple[str, ...] = ()

    def __str__(self) -> str:
        after = f", then every {' '.join(self.lasting)}" if self.lasting else ""
        return f"{self.call}: {self.how} {self.error}{after}"


@dataclass(frozen=True)
class Ended:
    """The exit code (negative for a signal, None for a process that hung), all that was said, and the calls."""

    code: int | None
    said: str
    calls: tuple[Call, ...]
    injected: int
    """How many calls failed."""


def missing() -> str:
    """Why this machine cannot make system calls fail; empty where it can."""
    if not sys.platform.startswith("linux"):
        return "system calls are made to fail on Linux only"
    if shutil.which("cc") is None:
        return "tests/stress/faults.c needs a C compiler, and there is no cc here"
    return ""


def built(place: Path) -> Path:
    """The compiled library."""
    library = place / "faults.so"
    words = ["cc", *FLAGS, "-o", str(library), str(SOURCE), "-ldl", "-lpthread"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return library


class Interposed:
    """A server process with the library in place; `run` forks one process at a time from it."""

    def __init__(self, place: Path) -> None:
        self.place = place
        place.mkdir(parents=True, exist_ok=True)
        self.library = built(place)
        told = {"OMP_NUM_THREADS": "1", "MPLBACKEND": "Agg", "CONJOIN_COMMIT": "unknown"}  # else every run asks git
        environment = {**os.environ, **told, "LD_PRELOAD": str(self.library)}
        self.server = subprocess.Popen(
            [sys.executable, "-m", "tests.stress.interposed", str(self.library)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            cwd=Path(__file__).resolve().parents[2],
        )
        assert self.server.stdin
        assert self.server.stdout
        self.asked, self.answered = self.server.stdin, self.server.stdout

    def __enter__(self) -> Interposed:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.asked.close()
        self.server.wait(HANGS_AFTER)
        self.answered.close()

    def run(self, words: Sequence[object], root: Path, fault: Fault | None = None, *, call: str = "") -> Ended:
        """`conjoin …` in the folder `root`, or the function `call` ("module:name") with these words."""
        said, calls = self.place / "said", self.place / "calls"
        job: dict[str, Any] = {
            "words": [str(word) for word in words],
            "root": str(root.resolve()),
            "said": str(said),
            "calls": str(calls),
            "call": call,
            "fault": None,
        }
        if fault:
            at = fault.call
            job["fault"] = [at.kind, at.path, at.number, HOW.index(fault.how), getattr(errno, fault.error)]
            job["lasting"] = ",".join(fault.lasting)
        self.asked.write(json.dumps(job).encode() + b"\n")
        self.asked.flush()
        answer = self.answered.readline()
        assert answer, "the server has ended"
        found, injected = _calls(calls)
        return Ended(json.loads(answer), said.read_text(encoding="utf-8", errors="replace"), found, injected)


def _calls(log: Path) -> tuple[tuple[Call, ...], int]:
    counts: Counter[tuple[str, str]] = Counter()
    found, injected = [], 0
    for line in log.read_text(encoding="utf-8", errors="replace").splitlines():
        mark, kind, path = line.split("\t", 2)
        injected += bool(mark)
        counts[kind, path] += 1
        found.append(Call(kind, path, counts[kind, path]))
    return tuple(found), injected


def _serve(library: str) -> None:
    """Fork a process for every line on standard input; answer with its exit code."""
    for module in PRELOADED:
        importlib.import_module(module)
    lines, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1):
        os.dup2(nowhere, stream)
    gc.freeze()
    while line := lines.readline():
        child = os.fork()
        if child == 0:
            lines.close()
            answers.close()
            os._exit(_left(json.loads(line), library))
        answers.write(json.dumps(_waited(child)).encode() + b"\n")
        answers.flush()
    os._exit(0)


def _waited(child: int) -> int | None:
    give_up = time.monotonic() + HANGS_AFTER
    while time.monotonic() < give_up:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def _left(job: dict[str, Any], library: str) -> int:
    """In the child: the exit code. Ends as the interpreter does, except that it does not take every module apart."""
    try:
        _work(job, library)
        code: Any = 0
    except SystemExit as left:
        code = 0 if left.code is None else left.code
    except BaseException:
        traceback.print_exc()
        code = TRACEBACK
    atexit._run_exitfuncs()
    gc.collect()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    return code if isinstance(code, int) else 1


def _work(job: dict[str, Any], library: str) -> None:
    """Do the work with the library armed."""
    flags = os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_APPEND
    said, calls = (os.open(job[name], flags) for name in ("said", "calls"))
    for stream in (1, 2):
        os.dup2(said, stream)
    os.chdir(job["root"])
    sys.argv = ["conjoin", *job["words"]]
    kind, path, number, how, error = job["fault"] or ("", "", 0, 0, 0)
    arm = ctypes.CDLL(library).faults_arm
    arm(
        *(job["root"].encode(), calls, kind.encode(), path.encode()),
        *(ctypes.c_long(number), how, error, job.get("lasting", "").encode()),
    )
    if job["call"]:
        module, _, name = job["call"].partition(":")
        getattr(importlib.import_module(module), name)(*job["words"])
    else:
        importlib.import_module("conjoin.cli").main()


if __name__ == "__main__":
    _serve(sys.argv[1])
