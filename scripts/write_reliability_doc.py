"""Write the counts of `make test` and `make stress` into docs/reliability.md."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from scripts.script_words import parser, rewritten

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "reliability.md"
RESULTS = ROOT / "tests" / "stress" / "results"
BEGIN, END = "<!-- counts -->", "<!-- /counts -->"
TITLES = {
    "kills": "Training killed at random moments",
    "studies": "Studies killed at random moments",
    "ingestion": "Ingestion killed at random moments",
    "power": "Power cuts between any two operations of a run",
    "storage": "Disks that fill up",
    "faults": "Failing system calls, each call of each command once",
    "corruption": "Damaged files",
    "fuzz": "Inputs from fuzzing",
    "graphs": "Odd but valid graphs, from file to answer",
    "attack": "A service under attack",
    "lockout": "A service that clients try to lock out, beyond its limits",
    "soak": "A service under load",
}


def counts(size: str) -> dict[str, dict[str, Any]]:
    """Part to counts."""
    return {file.stem: json.loads(file.read_text(encoding="utf-8")) for file in sorted((RESULTS / size).glob("*.json"))}


def table() -> str:
    """One line a count; a dash where a size does not count it."""
    short, long = counts("short"), counts("long")
    lines = ["| what | count | `make test`, `make test-slow` | `make stress` |", "|---|---|---:|---:|"]
    for part, title in TITLES.items():
        names = {**short.get(part, {}), **long.get(part, {})}
        if not names:
            lines.append(f"| {title} | | not run | not run |")
        for place, name in enumerate(sorted(names, key=lambda each: (each == "date", each))):
            cells = [_shown(size.get(part, {}).get(name)) for size in (short, long)]
            lines.append(f"| {title if place == 0 else ''} | {name} | {cells[0]} | {cells[1]} |")
    return "\n".join(lines)


def _shown(value: Any) -> str:
    return "-" if value is None else f"{value:,}" if isinstance(value, int | float) else str(value)


def with_counts(text: str) -> str:
    """The page with its table as the counts are now."""
    return rewritten(text, f"{table()}\n", begin=BEGIN, end=END)


def main() -> None:
    PAGE.write_text(with_counts(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    parser(__doc__).parse_args()
    main()
