"""The most memory of a process is its own, not that of who started it."""

from __future__ import annotations

import subprocess
import sys

from conjoin.memory import most_resident

PARENT = """
import subprocess, sys
held = bytearray(400 << 20)
child = [sys.executable, "-c", "from conjoin.memory import most_resident; print(most_resident())"]
print(subprocess.run(child, capture_output=True, text=True, check=True).stdout)
"""


def test_a_small_program_of_a_large_one_is_small() -> None:
    told = subprocess.run([sys.executable, "-c", PARENT], capture_output=True, text=True, check=True)
    assert 4 << 20 < int(told.stdout) < 200 << 20


def test_what_was_held_counts_after_it_is_gone() -> None:
    held = bytearray(b"1") * (300 << 20)
    del held
    assert most_resident() > 300 << 20
