"""Compare the speed of two versions of Conjoin on a CPU: python -m bench.side_by_side COMMIT [CELL …] [-o FILE.json]

Checks COMMIT out into a temporary folder and starts one process with its sources and one with the sources of this tree.
The two take turns, one epoch (or one ranking of the test split) each, so that other work on the machine hits both. What
is compared is the processor's time, one thread. For every cell it prints the median of the ratios of neighbouring
turns (this tree over COMMIT) with a 95 % interval from a bootstrap over the turns. Only public names of Conjoin are
used, because those are what both versions have.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
CELLS = (
    "train/atlas/complex/32/200",
    "train/atlas/complex-conj/100/1000",
    "train/atlas/5star/32/200",
    "train/atlas/5star-conj/100/1000",
    "train/atlas/quate/32/200",
    "rank/atlas/complex-conj/100/1000",
    "rank/atlas/5star-conj/32/200",
)
WORKER = """
import sys, time
import torch, conjoin
torch.set_num_threads(1)
kind, dataset, form, rank, batch = sys.argv[1].split("/")
graph = conjoin.load(dataset)
model = conjoin.Model(conjoin.form(form), graph.n_entities, graph.n_relations, rank=int(rank), seed=0)
turns = conjoin.train(model, graph, conjoin.Recipe(epochs=10_000, batch=int(batch)))
print("ready", flush=True)
for _ in sys.stdin:
    start = time.process_time()
    next(turns) if kind == "train" else conjoin.rank(model, graph, "test")
    print(time.process_time() - start, flush=True)
"""


class Worker:
    """A process that runs one cell with the sources in a folder, one turn at a time."""

    def __init__(self, sources: Path, cell: str) -> None:
        environment = {**os.environ, "PYTHONPATH": str(sources), "OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            [sys.executable, "-c", WORKER, cell],
            env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=sources,
        )  # fmt: skip
        self._answer()

    def turn(self) -> float:
        """Seconds of processor time that one epoch or ranking takes."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return float(self._answer())

    def close(self) -> None:
        """End the process."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()

    def _answer(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit("a worker ended early: see its error above")
        return line


def compared(cell: str, before: Path, *, turns: int) -> dict[str, Any]:
    """The ratio of this tree's time to the other's in one cell, with its interval."""
    workers = [Worker(before, cell), Worker(ROOT / "src", cell)]
    try:
        for worker in workers:
            worker.turn()  # the first turn loads libraries and allocates buffers
        seconds = np.array([[worker.turn() for worker in workers] for _ in range(turns)])
    finally:
        for worker in workers:
            worker.close()
    ratios = seconds[:, 1] / seconds[:, 0]
    draws = np.random.default_rng(0).choice(ratios, size=(10_000, turns))
    low, high = np.quantile(np.median(draws, axis=1), [0.025, 0.975])
    medians = np.median(seconds, axis=0)
    return {
        "cell": cell,
        "turns": turns,
        "seconds_before": float(medians[0]),
        "seconds_now": float(medians[1]),
        "ratio": float(np.median(ratios)),
        "low": float(low),
        "high": float(high),
    }


def main() -> None:
    """Measure the cells and print one line of JSON for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("commit")
    parser.add_argument("cells", nargs="*", default=CELLS, help="kind/dataset/form/rank/batch; kind is train or rank")
    parser.add_argument("--turns", type=int, default=30)
    parser.add_argument("-o", "--out", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        before = Path(folder) / "before"
        subprocess.run(["git", "worktree", "add", "--detach", "-q", before, given.commit], cwd=ROOT, check=True)
        try:
            results = []
            for cell in given.cells:
                results.append(compared(cell, before / "src", turns=given.turns))
                print(json.dumps(results[-1]), flush=True)
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", before], cwd=ROOT, check=True)
    if given.out:
        given.out.write_text(json.dumps({"commit": given.commit, "cells": results}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
