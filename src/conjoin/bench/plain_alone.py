"""The published recipe in plain PyTorch in a process of its own, as anyone would run it: bench/plain.py.

`conjoin bench train` measures the same model (conjoin.bench.plain.Plain) beside ours in one process, too. On a CPU and
a small graph that is kinder to it: a process that has once freed a block of many MiB keeps what it frees later, where a
fresh one gives the scores of every step back to the system and gets untouched pages for the next.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import time

import torch

from conjoin.bench.cells import Cell, graph_of
from conjoin.bench.plain import Plain, PlainTraining
from conjoin.device import choose_device, peak_bytes, reset_peak, synchronize
from conjoin.errors import UsageError


def seconds_alone(cell: Cell, *, steps: int, rounds: int) -> float:
    """Seconds per epoch in a new process on the CPU, with as many threads as this one."""
    words = [sys.executable, "-m", __name__, "--dataset", cell.dataset, "--form", cell.form, "--device", "cpu"]
    words += ["--rank", str(cell.rank), "--batch", str(cell.batch), "--steps", str(steps), "--rounds", str(rounds)]
    threads = os.environ | {"OMP_NUM_THREADS": str(torch.get_num_threads())}
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=threads)
    if done.returncode:
        said = done.stderr.strip().splitlines() or ["it said nothing"]
        raise UsageError(f"the plain statement failed on {cell} with exit status {done.returncode}: {said[-1]}")
    return float(json.loads(done.stdout)["seconds_per_epoch"])


def main() -> None:
    """Time a part of an epoch a few times; print one JSON object."""
    import resource

    from conjoin.bench.training import part_of, recipe_of

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", default="wn18rr")
    parser.add_argument("--form", default="5star")
    parser.add_argument("--rank", type=int, default=500)
    parser.add_argument("--batch", type=int, default=1000)
    parser.add_argument("--wide", action="store_true", help="entity columns as in the published code")
    parser.add_argument("--sparse", action="store_true", help="sparse gradients of the lookups")
    parser.add_argument("--steps", type=int, default=100, help="steps of a round; an epoch is extrapolated")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--device")
    chosen = parser.parse_args()
    device = choose_device(chosen.device).device
    cell = Cell(chosen.dataset, chosen.form, chosen.rank, chosen.batch)
    graph, recipe = graph_of(cell.dataset), recipe_of(cell)
    reset_peak(device)
    sizes = graph.n_entities, graph.n_relations
    model = Plain(cell.form, *sizes, rank=cell.rank, wide=chosen.wide, sparse=chosen.sparse, device=device)
    training = PlainTraining(model, lr=recipe.lr, n3=recipe.n3, batch=cell.batch)
    queries = torch.from_numpy(part_of(graph, chosen.steps * cell.batch).queries("train"))
    taken, faults = [], 0
    for _ in range(1 + chosen.rounds):
        faults = -resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        synchronize(device)
        start = time.perf_counter()
        training.epoch(queries)
        synchronize(device)
        taken.append((time.perf_counter() - start) / len(queries) * 2 * len(graph.train))
        faults += resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    told = {"cell": str(cell), "wide": chosen.wide, "sparse": chosen.sparse, "peak_bytes": peak_bytes(device)}
    told |= {"page_faults_per_step": faults / math.ceil(len(queries) / cell.batch)}
    told |= {"seconds_per_epoch": statistics.median(taken[1:]), "rounds": taken[1:]}
    sys.stdout.write(json.dumps(told) + "\n")


if __name__ == "__main__":
    main()
