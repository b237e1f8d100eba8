"""bench/side_by_side.py: two versions take turns."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_side_by_side_compares_a_tree_with_its_commit(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    done = subprocess.run(
        [sys.executable, "-m", "bench.side_by_side", "HEAD", "train/atlas/complex/4/1000", "--turns", "3", "-o", out],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if "not a git repository" in done.stderr:
        pytest.skip("needs git, in a clone of the repository")
    assert done.returncode == 0, done.stderr
    (cell,) = json.loads(out.read_text(encoding="utf-8"))["cells"]
    assert cell["turns"] == 3
    assert 0 < cell["low"] <= cell["ratio"] <= cell["high"]
    left = subprocess.run(["git", "worktree", "list"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert "/before " not in left
