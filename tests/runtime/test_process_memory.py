"""The most memory of a process is its own, not that of who started it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from conjoin.runtime.process_memory import most_resident, resident

PARENT = """
import subprocess, sys
held = bytearray(400 << 20)
child = [sys.executable, "-c", "from conjoin.runtime.process_memory import most_resident; print(most_resident())"]
print(subprocess.run(child, capture_output=True, text=True, check=True).stdout)
"""


def test_small_child_of_a_large_process_is_measured_as_small() -> None:
    told = subprocess.run([sys.executable, "-c", PARENT], capture_output=True, text=True, check=True)
    assert 4 << 20 < int(told.stdout) < 200 << 20


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system does not tell it there")
def test_resident_memory_of_any_process_is_measured() -> None:
    before = resident()
    held = bytearray(b"1") * (100 << 20)
    assert before + (90 << 20) < resident() < before + (len(held) + (50 << 20))
    small = [sys.executable, "-c", "input(1)"]
    with subprocess.Popen(small, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.read(1)
        assert 1 << 20 < resident(child.pid) < resident()
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        with pytest.raises(ProcessLookupError):
            resident(child.pid)


def test_peak_memory_includes_released_memory() -> None:
    held = bytearray(b"1") * (300 << 20)
    del held
    assert most_resident() > 300 << 20
