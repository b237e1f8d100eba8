"""Measure the effect of a sampled softmax on the MRR: python -m bench.sampled_softmax --device cuda

Trains one form on one dataset with several numbers of negatives and with the full softmax, ranks valid and test,
and writes bench/results/sampled_softmax_<hardware>_<date>.json.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import Any

from bench.compare.results import hardware_of

import conjoin
from conjoin.graph.graph import Graph
from conjoin.runtime.device import choose_device, describe
from conjoin.training.recipe import Recipe

RESULTS = Path(__file__).resolve().parent / "results"
ALL = 0


def main() -> None:
    """Measure every sample size and store each result when it is ready."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="fb15k-237")
    parser.add_argument("--form", default="complex")
    parser.add_argument("--rank", type=int, default=200)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--batch", type=int, default=1000)
    parser.add_argument("--n3", type=float, default=0.05)
    parser.add_argument("--sizes", default="100,500,1000,2000,5000,0", help="numbers of negatives; 0: full softmax")
    parser.add_argument("--powers", default="0,0.75", help="how negatives are drawn: (1 + facts)^power")
    parser.add_argument("--device", default=None)
    parser.add_argument(
        "--shared-by", type=int, default=0, help="number of other programs on the card; above 0, times are not shown"
    )
    parser.add_argument("--out", type=Path, default=None)
    chosen = parser.parse_args()
    graph = conjoin.load(chosen.data)
    device = choose_device(chosen.device).device
    machine = describe(device)
    hardware = hardware_of(machine, os.cpu_count() or 1)
    out = chosen.out or RESULTS / f"sampled_softmax_{hardware}_{date.today().isoformat()}.json"
    settings = {key: getattr(chosen, key) for key in ("data", "form", "rank", "epochs", "batch", "n3")}
    rows = _rows_of(out, settings)
    done = {(row["negatives"], row["power"]) for row in rows}
    for size in map(int, chosen.sizes.split(",")):
        for power in [0.0] if size == ALL else map(float, chosen.powers.split(",")):
            if (size, power) in done:
                continue
            recipe = Recipe(
                epochs=chosen.epochs, batch=chosen.batch, n3=chosen.n3, negatives=size, negatives_power=power
            )
            rows.append(measured(graph, chosen.form, chosen.rank, recipe, str(device)))
            if chosen.shared_by:
                rows[-1]["card_shared_by"] = chosen.shared_by
            print(json.dumps(rows[-1]), flush=True)
            out.write_text(json.dumps({"machine": machine, "settings": settings, "rows": rows}, indent=2) + "\n")
    print(f"→ {out}")


def _rows_of(file: Path, settings: dict[str, Any]) -> list[dict[str, Any]]:
    """Results of an earlier start with the same settings."""
    before = json.loads(file.read_text()) if file.exists() else {}
    return list(before["rows"]) if before.get("settings") == settings else []


def measured(graph: Graph, form: str, rank: int, recipe: Recipe, device: str) -> dict[str, Any]:
    """Train once; last weights."""
    model = conjoin.Model(form, graph.n_entities, graph.n_relations, rank=rank, device=device)
    seconds = [epoch.seconds for epoch in conjoin.train(model, graph, recipe)]
    metrics = {split: conjoin.rank(model, graph, split).metrics() for split in ("valid", "test")}
    return {
        "negatives": recipe.negatives,
        "power": recipe.negatives_power,
        "share": (recipe.negatives or graph.n_entities) / graph.n_entities,
        "seconds_per_epoch": statistics.median(seconds),
        "valid_mrr": metrics["valid"]["mrr"],
        **{f"test_{name}": metrics["test"][name] for name in ("mrr", "hits@1", "hits@3", "hits@10")},
        "recipe": asdict(recipe),
    }


if __name__ == "__main__":
    main()
