"""What studies/results keeps holds together: the ranks of every run give the numbers in its result."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

RESULTS = Path(__file__).resolve().parents[2] / "studies" / "results"


@pytest.mark.parametrize("study", sorted(folder.name for folder in RESULTS.iterdir() if folder.is_dir()))
def test_ranks_give_the_kept_results(study: str) -> None:
    kept = sorted((RESULTS / study).rglob("result.json"))
    assert kept
    for file in kept:
        told = json.loads(file.read_text(encoding="utf-8"))["test"]
        counts = pq.read_table(file.with_name("ranks-test.parquet"), columns=["better", "tied"])
        ranks = 1 + sum(counts.column(name).to_numpy().astype(np.int64) for name in ("better", "tied"))
        assert len(ranks) == told["questions"], file
        assert np.mean(1 / ranks) == pytest.approx(told["mrr"], abs=1e-12), file
        for k in (1, 3, 10):
            assert np.mean(ranks <= k) == pytest.approx(told[f"hits@{k}"], abs=1e-12), file
