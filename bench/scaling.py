"""Weak and strong scaling of the training step over processes of this machine: python -m bench.scaling

Strong scaling: the same table, divided into more shards. Weak scaling: the number of entities grows with the number of
processes. Full softmax on the CPU, one thread per process, medians of steps. Writes
bench/results/scaling_<cores>cores_<date>.json.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from datetime import date
from pathlib import Path
from typing import Any

import torch

from conjoin.model.model import Model
from conjoin.runtime.device import describe, peak_bytes
from conjoin.runtime.distributed import current, joined
from conjoin.training.recipe import Recipe
from conjoin.training.steps.choose import TrainingStep

RESULTS = Path(__file__).resolve().parent / "results"


def step_seconds(entities: int, rank: int, batch: int, steps: int) -> None:
    """Run one of the processes; the first one prints the time of a step."""
    with joined():
        model = Model("complex", entities, 10, rank=rank)
        step = TrainingStep(model, Recipe(batch=batch))
        source = torch.Generator().manual_seed(0)
        seconds = []
        for _ in range(steps + 1):
            examples = torch.stack([torch.randint(n, (batch,), generator=source) for n in (entities, 20, entities)], 1)
            start = time.perf_counter()
            step(examples)
            seconds.append(time.perf_counter() - start)
        peak = int(current().most(peak_bytes(model.device)))
        if current().is_first:
            print(json.dumps({"seconds_per_step": statistics.median(seconds[1:]), "peak_bytes": peak}))


def measured(processes: int, entities: int, rank: int, batch: int, steps: int) -> dict[str, Any]:
    """The same measurement with `processes` processes."""
    words = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
    words += [__file__, "--inside", f"{entities},{rank},{batch},{steps}"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{processes} processes failed:\n{done.stderr}")
    told = done.stdout
    return {"processes": processes, "entities": entities, **json.loads(told.splitlines()[-1])}


def main() -> None:
    """Measure both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entities", type=int, default=100_000)
    parser.add_argument("--rank", type=int, default=50)
    parser.add_argument("--batch", type=int, default=500)
    parser.add_argument("--steps", type=int, default=9)
    parser.add_argument("--processes", default="1,2,4")
    parser.add_argument("--inside", default=None, help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, default=None)
    chosen = parser.parse_args()
    if chosen.inside:
        step_seconds(*map(int, chosen.inside.split(",")))
        return
    counts = list(map(int, chosen.processes.split(",")))
    sizes = chosen.rank, chosen.batch, chosen.steps
    began = os.getloadavg()[0]
    strong = [measured(n, chosen.entities, *sizes) for n in counts]
    weak = [measured(n, chosen.entities * n, *sizes) for n in counts]
    report = {
        "machine": {**describe(torch.device("cpu")), "cores": os.cpu_count(), "load_before": began},
        "settings": {"rank": chosen.rank, "batch": chosen.batch, "steps": chosen.steps},
        "strong": strong,
        "weak": weak,
    }
    out = chosen.out or RESULTS / f"scaling_{os.cpu_count()}cores_{date.today().isoformat()}.json"
    out.write_text(json.dumps(report, indent=2) + "\n")
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
