"""The command line as processes that can be killed, forked from one that has imported everything already.

Importing torch takes seconds; a stress test starts hundreds of processes. They are real ones all the same.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Callable
from functools import cache
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path

PRELOADED = [
    "torch",
    "conjoin.cli",
    "conjoin.runs.execute",
    "conjoin.studies.worker",
    "conjoin.predict.predictor",
    "pyarrow.parquet",
]


@cache
def _server() -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    return context


def start(*words: object, log: Path, prepare: Callable[[], None] | None = None) -> ForkServerProcess:
    """`conjoin …` as a process; what it says goes to the file `log`."""
    process = _server().Process(target=_run, args=([str(word) for word in words], str(log), prepare))
    process.start()
    return process


def ended(process: ForkServerProcess, log: Path, *, seconds: float = 1200) -> tuple[int, str]:
    """Exit code (negative for a signal) and what was said, once it has ended."""
    process.join(seconds)
    assert process.exitcode is not None, f"it did not end within {seconds} s"
    code = process.exitcode
    process.close()
    return code, log.read_text(encoding="utf-8", errors="replace")


def conjoin(*words: object, log: Path) -> None:
    """Run to the end; any other end than a good one is a failure."""
    code, said = ended(start(*words, log=log), log)
    assert code == 0, said


def _run(words: list[str], log: str, prepare: Callable[[], None] | None) -> None:
    descriptor = os.open(log, os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
    for stream in (1, 2):
        os.dup2(descriptor, stream)
    if prepare is not None:
        prepare()
    sys.argv = ["conjoin", *words]
    from conjoin.cli import main

    main()
