"""Fill the tables of docs/ingest.md and docs/plan.md from bench/results: python scripts/write_bench_tables.py"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from conjoin.algebra.notation import form
from conjoin.plan.memory import Setting, Sizes, memory
from conjoin.plan.plan import make_plan, sized

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "bench" / "results"
PAGES = ("docs/ingest.md", "docs/plan.md")
BLOCK = re.compile(r"<!-- table: (?P<name>\w+) -->\n.*?<!-- /table -->", re.DOTALL)
H200 = 141 * 10**9


def results(pattern: str) -> list[Any]:
    """The content of the matching result files, in the order of their names."""
    return [json.loads(file.read_text(encoding="utf-8")) for file in sorted(RESULTS.glob(pattern))]


def ingest_table() -> str:
    """One row per measured ingest."""
    lines = [
        "| format | triples | entities | seconds | CPU seconds | peak | opening, s | load before |",
        "|---|" + "---:|" * 7,
    ]
    for row in results("ingest_*.json"):
        cells = [row["format"], f"{row['triples']:,}", f"{row['entities']:,}", f"{row['seconds']:.0f}"]
        cells += [f"{row['cpu_seconds']:.0f}", sized(row["peak_bytes"])]
        cells += [f"{row['seconds_to_open']:.1f}", f"{row['load_before']:.1f}"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def plan_table() -> str:
    """One row per configuration that was planned and measured."""
    lines = [
        "| device | configuration | form | rank | batch | planned | measured | off |",
        "|---|---|---|" + "---:|" * 5,
    ]
    for file in sorted(RESULTS.glob("plan_*.json")):
        for row in json.loads(file.read_text(encoding="utf-8")):
            cells = [file.stem.split("_")[1], row["name"], row["form"], str(row["rank"]), f"{row['batch']:,}"]
            cells += [sized(row["planned"]), sized(row["measured"]), f"{100 * row['off']:+.1f} %"]
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def paper_table() -> str:
    """Graphs that nobody trained here, on as few H200s as hold them."""
    lines = ["| entities | training triples | H200s | table, each | peak, each |", "|---:|---:|---:|---:|---:|"]
    for entities, triples in ((50_000_000, 200_000_000), (100_000_000, 300_000_000), (1_000_000_000, 1_000_000_000)):
        sizes = Sizes(entities=entities, relations=1000, train=triples)
        setting = Setting(form=form("5star-conj"), rank=100, batch=1000, device="cuda", processes=2)
        cards = make_plan(sizes, setting, available=H200).recommendation.shards
        chosen = Setting(form=setting.form, rank=100, batch=1000, device="cuda", processes=cards)
        needed = memory(sizes, chosen)
        row = [f"{entities:,}", f"{triples:,}", str(cards), sized(needed.table), sized(needed.peak)]
        lines.append("| " + " | ".join(row) + " |")
    return "\n".join(lines)


def filled(text: str) -> str:
    """The text with every table as the results are now."""
    tables = {"ingest": ingest_table, "plan": plan_table, "paper": paper_table}

    def fill(block: re.Match[str]) -> str:
        return f"<!-- table: {block['name']} -->\n{tables[block['name']]()}\n<!-- /table -->"

    return BLOCK.sub(fill, text)


def main() -> None:
    """Renew the pages."""
    for page in PAGES:
        file = ROOT / page
        file.write_text(filled(file.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
