"""Start the processes of a command on this machine, forward signals to them and wait until all have ended.

They find each other through a file in a folder that only this user can open, and communicate over the loopback
interface: nothing listens to a network. A started process notices when its launcher has ended. Does not import torch.
"""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from conjoin.errors import ProcessLost, UsageError

MEETING = "CONJOIN_MEETING"
"""The environment variable with the private folder in which launched processes find each other."""
STORE = "store"
SOCKETS = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")
"""The environment variables with the network interface on which gloo and NCCL listen."""
OTHER_LAUNCHERS = ("MASTER_ADDR", "MASTER_PORT", "GROUP_RANK", "ROLE_RANK", "TORCHELASTIC_")
"""Environment variables of torchrun, which the started processes must not inherit."""
AT_ONCE = 2
"""Failures within this number of seconds have one cause."""
ALONE = 10.0
"""Seconds for the other processes to end by themselves after one failed; then they get SIGTERM, then SIGKILL."""
LAST = 60.0
"""Seconds for a process to write its checkpoint after its launcher has ended."""
EVERY = 0.05


@dataclass(frozen=True)
class Failure:
    """The exit code of a process, negative for a signal, and the time of its end in seconds."""

    exitcode: int
    timestamp: float


def launch(words: Sequence[str], count: int) -> int:
    """Run `conjoin WORDS` in `count` processes on this machine and return the exit code; if one dies, all end.

    SIGINT and SIGTERM are forwarded to all processes. The exit code is then 130 or 143, after they have stopped.
    """
    if count < 1:
        raise UsageError(f"--processes must be at least 1, got {count}.")
    with _meeting_place() as folder, _signals() as asked:
        workers: list[subprocess.Popen[bytes]] = []
        try:
            for rank in range(count):
                workers.append(_start(words, rank, count, folder))
            failures = _waited(workers, asked)
        finally:
            for worker in workers:
                if worker.poll() is None:
                    worker.kill()
                worker.wait()
                assert worker.stdin
                worker.stdin.close()
    return _exit_code(failures, asked, count)


def _exit_code(failures: Mapping[int, Failure], asked: Sequence[int], count: int) -> int:
    if not failures:
        return 0
    if asked and any(each.exitcode in (128 + asked[0], -asked[0]) for each in failures.values()):
        return 128 + asked[0]
    rank, failure = culprit(failures)
    if failure.exitcode > 0:
        return failure.exitcode
    raise ProcessLost(
        f"Process {rank} of {count} was killed ({_name(-failure.exitcode)}), so the others were stopped. "
        "Continue from the last checkpoint: repeat the command with --resume."
    )


def culprit(failures: Mapping[int, Failure]) -> tuple[int, Failure]:
    """The process that failed first.

    If one process is killed, the others lose their connections and abort so soon that all failures are seen together.
    Then a killed process is the cause. Processes that the launcher killed later are not.
    """
    first = min(failure.timestamp for failure in failures.values())

    def order(item: tuple[int, Failure]) -> tuple[bool, int, float]:
        failure = item[1]
        gave_up = failure.exitcode in (-signal.SIGABRT, -signal.SIGTERM)
        return failure.timestamp > first + AT_ONCE, 2 if gave_up else int(failure.exitcode > 0), failure.timestamp

    return min(failures.items(), key=order)


def loopback() -> str | None:
    """The name of the loopback interface; None if the system does not report it."""
    with suppress(OSError, AttributeError):
        names = {name for _, name in socket.if_nameindex()}
        return next((name for name in ("lo", "lo0") if name in names), None)
    return None


def _start(words: Sequence[str], rank: int, count: int, folder: Path) -> subprocess.Popen[bytes]:
    """Start one process. The pipe to its standard input closes when this process ends, however it ends.

    The process starts a new session, so that a signal to this process's group reaches it once, from here. `-P` prevents
    imports from the working directory, unless this process would import from there too.
    """
    inherited = (name for name in os.environ if not name.startswith((*OTHER_LAUNCHERS, *SOCKETS)))
    environment = {name: os.environ[name] for name in inherited}
    environment.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // count)))
    environment |= {MEETING: str(folder), "RANK": str(rank), "LOCAL_RANK": str(rank)}
    environment |= dict.fromkeys(("WORLD_SIZE", "LOCAL_WORLD_SIZE"), str(count))
    if interface := loopback():
        environment |= dict.fromkeys(SOCKETS, interface)
    here = {"", str(Path.cwd())}
    trusted = [] if here & set(sys.path) else ["-P"]
    return subprocess.Popen(
        [sys.executable, *trusted, "-m", "conjoin", *words],
        stdin=subprocess.PIPE,
        env=environment,
        start_new_session=True,
    )


def _waited(workers: Sequence[subprocess.Popen[bytes]], asked: Sequence[int]) -> dict[int, Failure]:
    """Wait until all processes have ended, forward signals, and stop all after a failure. Returns the failures by rank.

    A second signal ends each process at once (`conjoin.runtime.signals`), so the launcher only forwards it.
    """
    failures: dict[int, Failure] = {}
    forwarded = 0
    deadlines: list[tuple[float, int]] = []
    while True:
        for rank, worker in enumerate(workers):
            code = worker.poll()
            if code and rank not in failures:
                failures[rank] = Failure(code, time.monotonic())
        running = [worker for worker in workers if worker.returncode is None]
        if not running:
            return failures
        if failures and not deadlines:
            now = time.monotonic()
            deadlines = [(now + ALONE, signal.SIGTERM), (now + 1.5 * ALONE, _KILL)]
        for number in asked[forwarded:]:
            for worker in running:
                _send(worker, number)
            forwarded += 1
        for due, number in deadlines:
            if time.monotonic() > due:
                for worker in running:
                    _send(worker, number)
        deadlines = [(due, number) for due, number in deadlines if time.monotonic() <= due] or deadlines[-1:]
        time.sleep(EVERY)


def _send(worker: subprocess.Popen[bytes], number: int) -> None:
    try:
        worker.send_signal(number)
    except ValueError:  # Windows can only terminate a process
        worker.terminate()


_KILL: int = getattr(signal, "SIGKILL", signal.SIGTERM)


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


@contextmanager
def _meeting_place() -> Iterator[Path]:
    """A folder that only this user can open, for as long as the processes run."""
    folder = Path(tempfile.mkdtemp(prefix="conjoin-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _signals() -> Iterator[list[int]]:
    """A list that receives SIGINT and SIGTERM, which no longer end this process. Works in the main thread only."""
    asked: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return

    def remember(number: int, _: FrameType | None) -> None:
        asked.append(number)

    before: dict[signal.Signals, Any] = {
        number: signal.signal(number, remember) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def store_file() -> Path | None:
    """The file through which the processes of a launcher find each other; None without a launcher.

    Raises UsageError unless only this user can open the folder: its content determines the connections of this process.
    """
    if not (path := os.environ.get(MEETING)):
        return None
    folder = Path(path)
    status = folder.lstat()
    others = hasattr(os, "getuid") and (status.st_uid != os.getuid() or stat.S_IMODE(status.st_mode) & 0o077)
    if not stat.S_ISDIR(status.st_mode) or others:
        raise UsageError(f"{MEETING} is {folder}, which is not a folder that only this user can open. Unset {MEETING}.")
    return folder / STORE


def end_with_launcher() -> None:
    """Stop this process, as SIGTERM does, when its launcher has ended. Does nothing without a launcher."""
    if os.environ.get(MEETING):
        threading.Thread(target=_wait_for_the_launcher_to_end, name="launcher", daemon=True).start()


def _wait_for_the_launcher_to_end() -> None:
    with suppress(OSError):
        while os.read(0, 1):
            pass
    atexit.register(_leave_without_launcher)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(LAST)
    _leave_without_launcher()


def _leave_without_launcher() -> None:
    """End this process at once; the last one removes the folder.

    A normal exit is not possible: torch's store waits minutes for a missing file, even when the store is deleted.
    """
    folder = Path(os.environ[MEETING])
    with suppress(OSError):
        (folder / f"left-{os.environ['RANK']}").touch()
        if len([*folder.glob("left-*")]) == int(os.environ["WORLD_SIZE"]):
            shutil.rmtree(folder, ignore_errors=True)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(1)
