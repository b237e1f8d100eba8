"""File locks: one holder at a time, ended by a kill, looked at without being taken, never waiting for a pipe."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from conjoin.datasets.load import _alone
from conjoin.errors import RunError
from conjoin.runs.folder import RunFolder
from conjoin.runtime.file_locks import is_held, taken

HOLD = """
import sys, time
from pathlib import Path
from conjoin.runtime.file_locks import taken
with taken(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""
FLOCK = """
import fcntl, sys, time
with open(sys.argv[1], "a") as file:
    fcntl.flock(file, fcntl.LOCK_EX)
    print("held", flush=True)
    time.sleep(60)
"""


@contextmanager
def held_by_another(path: Path, script: str = HOLD) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", script, str(path)], stdout=subprocess.PIPE) as holder:
        try:
            assert holder.stdout
            assert holder.stdout.readline() == b"held\n"
            yield holder
        finally:
            holder.kill()


@pytest.mark.parametrize("script", [HOLD, FLOCK], ids=["this version", "a version that called flock"])
def test_a_lock_has_one_holder_and_ends_with_its_process(tmp_path: Path, script: str) -> None:
    if script == FLOCK:
        pytest.importorskip("fcntl")
    file = tmp_path / ".lock"
    assert not is_held(file)
    assert not file.exists(), "looking creates nothing"
    with held_by_another(file, script):
        assert is_held(file)
        with pytest.raises(BlockingIOError), taken(file):
            pass
    assert not is_held(file)
    with taken(file):
        assert is_held(file)
    assert file.exists()


def test_removed_lock_is_not_given_to_waiting_processes(tmp_path: Path) -> None:
    """Each thread opens the file for itself, so that they exclude each other as processes do."""
    file, inside, most = tmp_path / ".lock", [0], [0]

    def work() -> None:
        for _ in range(20):
            with taken(file, wait=True, remove=True):
                inside[0] += 1
                most[0] = max(most[0], inside[0])
                inside[0] -= 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1]
    assert not file.exists()


def test_checking_a_lock_does_not_block_taking_it(tmp_path: Path) -> None:
    file, done = tmp_path / ".lock", threading.Event()
    file.touch()

    def look() -> None:
        while not done.is_set():
            is_held(file)

    threads = [threading.Thread(target=look) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(100):
            with taken(file):
                pass
    finally:
        done.set()
        for thread in threads:
            thread.join()


@pytest.fixture(params=["pipe", "link to a pipe", "link to a file", "folder"])
def odd(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A folder whose .lock is not a regular file."""
    if not hasattr(os, "mkfifo"):
        pytest.skip("this system has no named pipes")
    place = tmp_path / "place"
    place.mkdir()
    file, beyond = place / ".lock", tmp_path / "beyond"
    if request.param == "folder":
        file.mkdir()
    elif request.param == "pipe":
        os.mkfifo(file)
    elif request.param == "link to a pipe":
        os.mkfifo(beyond)
        file.symlink_to(beyond)
    else:
        beyond.touch()
        file.symlink_to(beyond)
    return place


def test_a_lock_that_is_not_a_regular_file_is_refused_at_once(odd: Path) -> None:
    with pytest.raises(OSError, match=r"\.lock"), taken(odd / ".lock"):
        pass
    assert not is_held(odd / ".lock")
    with pytest.raises(RunError, match="place"), RunFolder(odd).locked():
        pass
    with pytest.raises(Exception, match="place"), _alone(odd):
        pass
