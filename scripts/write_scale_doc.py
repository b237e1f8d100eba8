"""Fill in the tables of docs/scale.md from bench/results: python scripts/write_scale_doc.py

Between `<!-- bench: NAME -->` and `<!-- /bench -->` stands what the newest bench/results/NAME_*.json says, or that it
does not exist yet. The block `paper` is computed.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "scale.md"
RESULTS = ROOT / "bench" / "results"
BLOCK = re.compile(r"<!-- bench: (?P<name>[\w-]+) -->\n.*?<!-- /bench -->", re.DOTALL)
CARD = 141e9
"""Bytes of one H200."""
RESERVE = 6e9
"""Bytes that a step, the card's own libraries and fragments of free memory take beside the tables."""
WIDTH, BATCH = 200, 1000


def filled(text: str) -> str:
    """The page with its tables as the results are now."""

    def fill(block: re.Match[str]) -> str:
        return f"<!-- bench: {block['name']} -->\n{table_of(block['name'])}\n<!-- /bench -->"

    return BLOCK.sub(fill, text)


def table_of(name: str) -> str:
    if name == "paper":
        return paper()
    found = sorted(RESULTS.glob(f"{name}_*.json"), key=lambda file: file.name.rpartition("_")[2])
    if not found:
        return f"*Not measured yet: `bench/results` holds no {name}.*"
    return TABLES[name](json.loads(found[-1].read_text(encoding="utf-8")))


def rows(head: str, lines: list[str]) -> str:
    count = head.count("|") + 1
    return "\n".join([f"| {head} |", "|" + "---:|" * count, *(f"| {line} |" for line in lines)])


def sampled(result: dict[str, Any]) -> str:
    lines = [
        f"{row['negatives'] or 'all'} | {row['power']:g} | {row['share']:.1%} | {row['test_mrr']:.4f} | "
        f"{row['test_hits@1']:.3f} | {row['test_hits@10']:.3f} | {row['valid_mrr']:.4f} | "
        f"{row['seconds_per_epoch']:.2f}"
        for row in result["rows"]
    ]
    settings = ", ".join(f"{key} {value}" for key, value in result["settings"].items())
    head = "negatives | power | share | test MRR | Hits@1 | Hits@10 | valid MRR | s/epoch"
    return f"{result['machine']['name']}; {settings}.\n\n{rows(head, lines)}"


def largest(result: dict[str, Any]) -> str:
    line = (
        f"{result['entities']:,} | {result['rank']} | {result['batch']} | {result['precision']} | "
        f"{result['table_and_optimizer_bytes'] / 1e9:.1f} | {result['peak_bytes'] / 1e9:.1f} | "
        f"{result['seconds_per_step']:.2f} | {len(result['losses'])} | "
        f"{result['losses'][0]:.3f} → {result['losses'][-1]:.3f}"
    )
    head = "entities | rank | batch | precision | table + Adagrad, GB | peak, GB | s/step | steps | loss"
    return f"{result['machine']['name']}, torch {result['machine']['torch']}.\n\n{rows(head, [line])}"


def scaling(result: dict[str, Any]) -> str:
    parts = []
    for kind in ("strong", "weak"):
        first = result[kind][0]
        lines = []
        for row in result[kind]:
            gain = first["seconds_per_step"] / row["seconds_per_step"]
            gain *= row["entities"] / first["entities"]
            lines.append(
                f"{row['processes']} | {row['entities']:,} | {row['seconds_per_step'] * 1e3:.0f} | {gain:.2f} | "
                f"{row['peak_bytes'] / 2**20:.0f}"
            )
        head = "processes | entities | ms/step | times the work of one | peak of a process, MiB"
        parts.append(f"{kind.capitalize()}:\n\n{rows(head, lines)}")
    machine, sizes = result["machine"], result["settings"]
    about = (
        f"{machine['cores']} cores, one thread a process, rank {sizes['rank']}, batch {sizes['batch']}, full softmax, "
        f"median of {sizes['steps']} steps, load before the start {machine['load_before']:.1f}."
    )
    return about + "\n\n" + "\n\n".join(parts)


def shared_epoch(result: dict[str, Any]) -> str:
    line = (
        f"{result['entities']:,} | {result['triples']:,} | {result['rank']} | {result['batch']:,} | "
        f"{result['negatives']:,} | {result['processes']} | {result['seconds']:.0f} | "
        f"{result['peak_bytes_of_the_largest_process'] / 1e9:.2f} | {result['loss']:.3f}"
    )
    return rows("entities | facts | rank | batch | negatives | processes | s | peak of a process, GB | loss", [line])


def kill_one(result: dict[str, Any]) -> str:
    undisturbed, disturbed = result["mrr"]
    same = "bit for bit the same weights" if result["same_weights"] else "other weights"
    return (
        f"{result['data']}, {result['processes']} processes: the others had stopped after "
        f"{result['seconds_until_all_had_stopped']:.1f} s; test MRR {undisturbed:.4f} undisturbed and {disturbed:.4f} "
        f"after the restart, {same}."
    )


def paper() -> str:
    """Bytes and cards for full softmax with Adagrad at rank 100 in float32."""
    lines = []
    for entities in (10_000_000, 50_000_000, 100_000_000, 1_000_000_000):
        table = 4 * WIDTH * entities
        cards = math.ceil(2 * table / (CARD - RESERVE))
        flops = 8 * BATCH * entities * WIDTH
        lines.append(
            f"{entities:,} | {table / 1e9:,.0f} | {2 * table / 1e9:,.0f} | {3 * table / 1e9:,.0f} | {cards} | "
            f"{2 * table / cards / 1e9:.0f} | {flops / cards / 1e12:.0f}"
        )
    head = "entities | table, GB | + Adagrad, GB | + best weights, GB | H200 cards | GB a card | TFLOP a step and card"
    return rows(head, lines)


TABLES: dict[str, Callable[[dict[str, Any]], str]] = {
    "sampled_softmax": sampled,
    "largest": largest,
    "scaling": scaling,
    "shared_epoch": shared_epoch,
    "kill_one": kill_one,
}


def main() -> None:
    """Rewrite the page."""
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
