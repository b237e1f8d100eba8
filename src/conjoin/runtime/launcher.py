"""Starts the processes that share a verb on this machine, passes signals on to them and waits until all have ended.

They meet through a file in a folder that only this user can open, and talk over the loopback interface: nothing here
listens to a network. Does not import torch. A process that was started notices when its launcher is gone.
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
"""The environment variables that say on which network interface gloo and NCCL listen."""
OTHER_LAUNCHERS = ("MASTER_ADDR", "MASTER_PORT", "GROUP_RANK", "ROLE_RANK", "TORCHELASTIC_")
"""What an environment may still say about processes that torchrun started."""
AT_ONCE = 2
"""Seconds within which several processes fail for one reason."""
ALONE = 10.0
"""Seconds that the others have to end by themselves after one failed; then they get SIGTERM, then SIGKILL."""
LAST = 60.0
"""Seconds that a process has for its checkpoint once its launcher is gone."""
EVERY = 0.05


@dataclass(frozen=True)
class Failure:
    """How a process ended: its exit code, negative for a signal, and when, in seconds of any clock."""

    exitcode: int
    timestamp: float


def launch(words: Sequence[str], count: int) -> int:
    """Run `conjoin WORDS` as `count` processes of this machine and return the exit code; a lost process ends all.

    SIGINT and SIGTERM go on to all processes. The exit code is then 130 or 143, once they have stopped.
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
        f"process {rank} of {count} was killed ({_name(-failure.exitcode)}), so the others were stopped. "
        "The run goes on from its last checkpoint by the same command with --resume."
    )


def culprit(failures: Mapping[int, Failure]) -> tuple[int, Failure]:
    """Which process failed first. Who loses the network aborts so soon after one that was killed that both are found
    together: then it was the killed one. Those that had to be killed for not ending by themselves come later."""
    first = min(failure.timestamp for failure in failures.values())

    def order(item: tuple[int, Failure]) -> tuple[bool, int, float]:
        failure = item[1]
        gave_up = failure.exitcode in (-signal.SIGABRT, -signal.SIGTERM)
        return failure.timestamp > first + AT_ONCE, 2 if gave_up else int(failure.exitcode > 0), failure.timestamp

    return min(failures.items(), key=order)


def loopback() -> str | None:
    """The name of the network interface that only this machine reaches; None where the system does not tell."""
    with suppress(OSError, AttributeError):
        names = {name for _, name in socket.if_nameindex()}
        return next((name for name in ("lo", "lo0") if name in names), None)
    return None


def _start(words: Sequence[str], rank: int, count: int, folder: Path) -> subprocess.Popen[bytes]:
    """One process. The pipe to its standard input closes when this process is gone, however it ends.

    It gets a session of its own, so that a signal to this process's group reaches it once, from here. `-P` keeps
    modules in the working directory from being imported, unless this process would import them itself.
    """
    kept = (name for name in os.environ if not name.startswith((*OTHER_LAUNCHERS, *SOCKETS)))
    environment = {name: os.environ[name] for name in kept}
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
    """Wait until all have ended, pass signals on, and stop the others once one has failed; how those that failed ended.

    A second signal ends each process at once (`conjoin.runtime.signals`), so the launcher does nothing more.
    """
    failures: dict[int, Failure] = {}
    passed_on = 0
    hurry: list[tuple[float, int]] = []
    while True:
        for rank, worker in enumerate(workers):
            code = worker.poll()
            if code and rank not in failures:
                failures[rank] = Failure(code, time.monotonic())
        running = [worker for worker in workers if worker.returncode is None]
        if not running:
            return failures
        if failures and not hurry:
            now = time.monotonic()
            hurry = [(now + ALONE, signal.SIGTERM), (now + 1.5 * ALONE, _KILL)]
        for number in asked[passed_on:]:
            for worker in running:
                _send(worker, number)
            passed_on += 1
        for due, number in hurry:
            if time.monotonic() > due:
                for worker in running:
                    _send(worker, number)
        hurry = [(due, number) for due, number in hurry if time.monotonic() <= due] or hurry[-1:]
        time.sleep(EVERY)


def _send(worker: subprocess.Popen[bytes], number: int) -> None:
    try:
        worker.send_signal(number)
    except ValueError:  # Windows sends no signal but one: the end
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
    """The signals that came since, which end this process no more. Only the main thread can listen to them."""
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
    """Where this process meets those that were launched with it; None where nobody launched it.

    An error unless only this user can open the folder: who writes there tells this process whom to connect to.
    """
    if not (named := os.environ.get(MEETING)):
        return None
    folder = Path(named)
    found = folder.lstat()
    others = hasattr(os, "getuid") and (found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o077)
    if not stat.S_ISDIR(found.st_mode) or others:
        raise UsageError(f"{MEETING} names {folder}, which is not a folder of this user alone. Unset {MEETING}.")
    return folder / STORE


def end_with_launcher() -> None:
    """Stop this process, as SIGTERM would, once the process that launched it is gone. Nothing where none did."""
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
    """The last process removes the folder. None may end as usual: torch's store waits minutes for a file that is gone,
    also when the store itself is deleted."""
    folder = Path(os.environ[MEETING])
    with suppress(OSError):
        (folder / f"left-{os.environ['RANK']}").touch()
        if len([*folder.glob("left-*")]) == int(os.environ["WORLD_SIZE"]):
            shutil.rmtree(folder, ignore_errors=True)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(1)
