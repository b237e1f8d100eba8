"""Measure how reproducible training is: python -m bench.threads [--threads 1 2] [--forms 5star] [-o FILE.json]

Trains the demo's forms on the atlas: twice with each number of threads, then with one number of the weights changed to
the next float32 after the first epoch, then with other seeds. Prints the test MRR of each training, and whether its
weights are bit-identical to the first. Without options, the results are stored in
bench/results/threads_<cores>cores_<date>.json, the source of the table in docs/reproduce.md.
"""

from __future__ import annotations

import argparse
import os
from datetime import date
from pathlib import Path

import torch

import conjoin
from conjoin.cli.demo import FORMS, RANK, SETTINGS
from conjoin.runtime.atomic_files import write_json

RESULTS = Path(__file__).resolve().parent / "results"
THREADS = [1, 2]
NUDGES, SEEDS = 3, 3
"""The number of trainings with one changed weight, and the number of trainings with other seeds."""


def trained(form: str, graph: conjoin.Graph, *, threads: int, seed: int = 0, nudged: int | None = None) -> list[float]:
    """A model's test MRR after the demo's training, followed by its weights."""
    torch.set_num_threads(threads)
    model = conjoin.Model(form, graph.n_entities, graph.n_relations, rank=RANK, seed=seed)
    for epoch in conjoin.train(model, graph, conjoin.Recipe.from_mapping(SETTINGS), seed=seed):
        if epoch.number == 1 and nudged is not None:
            with torch.no_grad():
                number = model.entities.weight[nudged, :1]
                number.copy_(torch.nextafter(number, torch.full_like(number, torch.inf)))
    weights = torch.cat([weight.detach().reshape(-1) for weight in model.parameters()])
    return [conjoin.rank(model, graph, "test").mrr(), *weights.tolist()]


def main() -> None:
    """Print one line per form and change, and write a file with all results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, nargs="+", default=THREADS)
    parser.add_argument("--forms", nargs="+", default=list(FORMS))
    parser.add_argument("-o", "--out", type=Path)
    chosen = parser.parse_args()
    graph, few, forms = conjoin.load("atlas"), chosen.threads[0], []
    for form in chosen.forms:
        once = {threads: [trained(form, graph, threads=threads) for _ in range(2)] for threads in chosen.threads}
        first = once[few][0]
        for threads, (a, b) in once.items():
            again = "the same weights" if a == b else "other weights"
            beside = "" if threads == few else f"; beside {few}: {'the same' if a == first else 'other'} weights"
            print(f"{form}: {threads} threads: MRR {a[0]:.4f}; again: {again}{beside}", flush=True)
        nudged = [trained(form, graph, threads=few, nudged=row)[0] for row in range(NUDGES)]
        seeds = [trained(form, graph, threads=few, seed=seed)[0] for seed in range(1, 1 + SEEDS)]
        repeats = [{"threads": n, "mrr": a[0], "again": a == b, "as_first": a == first} for n, (a, b) in once.items()]
        forms.append({"form": form, "threads": repeats, "nudged": nudged, "seeds": seeds})
        for what, mrrs in (("one weight changed", nudged), ("other seeds", seeds)):
            print(f"{form}: {what}: MRR {' '.join(f'{mrr:.4f}' for mrr in mrrs)}", flush=True)
    told = {"date": date.today().isoformat(), "cores": os.cpu_count(), "torch": torch.__version__, "forms": forms}
    if chosen.out or (chosen.threads, chosen.forms) == (THREADS, list(FORMS)):
        write_json(chosen.out or RESULTS / f"threads_{told['cores']}cores_{told['date']}.json", told)


if __name__ == "__main__":
    main()
