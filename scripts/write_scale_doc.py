"""Fill in the tables of docs/scale.md from bench/results: python -m scripts.write_scale_doc

The script fills each block between `<!-- bench: NAME -->` and `<!-- /bench -->` from the newest
bench/results/NAME_*.json. Without such a file the block says that it was not measured. The block `paper` is computed.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from scripts.script_words import parser

from conjoin.forms.notation import form
from conjoin.planning.memory_model import PlannedSetting, PlannedSizes, memory
from conjoin.planning.plan import USABLE

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "scale.md"
RESULTS = ROOT / "bench" / "results"
BLOCK = re.compile(r"<!-- bench: (?P<name>[\w-]+) -->\n.*?<!-- /bench -->", re.DOTALL)
CARD = 141e9
"""Bytes of one H200."""
STEP = 3e9
"""Bytes that a step needs in addition to the tables: 2 GiB of scores, a tile's gradient, a span of questions."""
WIDTH, BATCH = 200, 1000
GRAPHS = ((10**7, 4 * 10**7), (5 * 10**7, 2 * 10**8), (10**8, 3 * 10**8), (10**9, 10**9))
"""Entities and training triples."""


def filled(text: str) -> str:
    """The page with current tables."""

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
        + (f"{row['seconds_per_epoch']:.2f}" if not row.get("card_shared_by") else "†")
        for row in sorted(result["rows"], key=lambda row: (row["share"], row["power"]))
    ]
    shared = [row for row in result["rows"] if row.get("card_shared_by")]
    note = "\n\n† Measured while other programs used the card: the time is not comparable." if shared else ""
    settings = ", ".join(f"{key} {value}" for key, value in result["settings"].items())
    head = "negatives | power | share | test MRR | Hits@1 | Hits@10 | valid MRR | s/epoch"
    return f"{result['machine']['name']}; {settings}.\n\n{rows(head, lines)}{note}"


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
        f"{machine['cores']} cores, one thread per process, rank {sizes['rank']}, batch {sizes['batch']}, full "
        f"softmax, median of {sizes['steps']} steps, load before the start {machine['load_before']:.1f}."
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
    same = "bit-identical weights" if result["same_weights"] else "different weights"
    return (
        f"{result['data']}, {result['processes']} processes: the others stopped after "
        f"{result['seconds_until_all_had_stopped']:.1f} s. The test MRR is {undisturbed:.4f} without a kill "
        f"and {disturbed:.4f} after the restart, with {same}."
    )


def same_numbers(result: dict[str, Any]) -> str:
    lines = []
    for row in result["rows"]:
        real = f"{row['largest_difference']:.1g}" if row["real_numbers"] else "–"
        lines.append(
            f"{row['processes']} | {WORK[row['what']]} | {row['real_numbers']:,} | {real} | {row['whole_numbers']:,} | "
            f"{row['different']}"
        )
    return rows("processes | compared with one process | reals | largest difference | whole numbers | different", lines)


def by_hand(entities: int) -> tuple[float, int]:
    """Bytes of the table in float32 at rank 100, and the number of cards for the table and Adagrad's state."""
    table = 4 * WIDTH * entities
    return table, math.ceil(2 * table / (USABLE * CARD - STEP))


def by_planner(entities: int, triples: int) -> tuple[int, int]:
    """The number of cards, and the peak bytes of each."""
    sizes = PlannedSizes(entities=entities, relations=1000, train=triples)
    setting = PlannedSetting(form=form("5star-conj"), rank=WIDTH // 2, batch=BATCH, device="cuda")
    cards = 1
    while memory(sizes, replace(setting, processes=cards)).peak > USABLE * CARD:
        cards += 1
    return cards, memory(sizes, replace(setting, processes=cards)).peak


def paper() -> str:
    """Bytes and cards for full softmax with Adagrad, by hand and by the planner."""
    lines = []
    for entities, triples in GRAPHS:
        table, cards = by_hand(entities)
        planned, peak = by_planner(entities, triples)
        flops = 8 * BATCH * entities * WIDTH
        lines.append(
            f"{entities:,} | {triples:,} | {table / 1e9:,.0f} | {2 * table / 1e9:,.0f} | {cards} | "
            f"{2 * table / cards / 1e9:.0f} | {planned} | {peak / 1e9:.0f} | {flops / cards / 1e12:.0f}"
        )
    head = "entities | triples | table, GB | + Adagrad, GB | H200s by hand | GB each | H200s by the planner"
    return rows(f"{head} | peak, GB each | TFLOP a step, each", lines)


WORK = {
    "answers": "ask, score, similar, mine",
    "verbs": "look-up, scores, ranks with ties, best",
    "losses": "losses and gradients, ComplEx and 5★ε, uneven shards",
    "trained": "tables after two epochs, three optimisers, full and sampled",
    "umls": "UMLS after two epochs: MRR, and counts of better entities",
    "wn18rr": "WN18RR, many equal rows: counts of better and tied entities",
}
TABLES: dict[str, Callable[[dict[str, Any]], str]] = {
    "sampled_softmax": sampled,
    "largest": largest,
    "scaling": scaling,
    "shared_epoch": shared_epoch,
    "kill_one": kill_one,
    "same_numbers": same_numbers,
}


def main() -> None:
    """Rewrite the page."""
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    parser(__doc__).parse_args()
    main()
