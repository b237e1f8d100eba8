"""A million entities on a CPU stay within memory."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "bench" / "million.py"
LIMIT = 6e9


@pytest.mark.slow
def test_a_million_entities_train_and_rank_under_6_gb() -> None:
    words = [sys.executable, str(SCRIPT), "--entities", "1000000", "--rank", "16", "--triples", "300", "--batch", "200"]
    told = json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
    assert told["entities"] == 1_000_000
    assert told["questions"] == 100
    assert told["path"].startswith("chunked")
    assert told["peak_bytes"] < LIMIT
