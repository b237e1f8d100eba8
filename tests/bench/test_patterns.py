"""bench.patterns measures time and memory of the measured program only."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("scipy", reason="relation patterns need SciPy: pip install 'conjoin[study]'")
BENCH = Path(__file__).resolve().parents[2] / "bench"
PARENT = """
import json, sys
from bench import patterns
held = bytearray(500 << 20)
print(json.dumps(patterns.timed("synthetic:symmetric(entities=100)")))
"""


def test_memory_of_the_parent_process_is_not_measured() -> None:
    words = [sys.executable, "-c", PARENT, str(BENCH)]
    told = json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
    assert 20 << 20 < told["peak_bytes"] < 400 << 20
    assert min(told["wall_seconds"], told["processor_seconds"]) > 0
