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
    "faults": "System calls that fail, each call of each command once",
    "corruption": "Damaged files",
    "fuzz": "Fuzzing",
    "graphs": "Unusual but valid graphs, from file to answer",
    "attack": "A service under attack",
    "lockout": "Clients above the limits that try to lock out others",
    "soak": "A service under load",
}

LABELS = {
    "SIGINT and SIGTERM": "kills by SIGINT or SIGTERM",
    "SIGKILL": "kills by SIGKILL",
    "SIGKILL at a file operation after the result": "kills at a file operation after the result",
    "SIGKILL at a file operation before the result": "kills at a file operation before the result",
    "checkpoints left after the next command": "checkpoints that remained after the next command",
    "epochs run again after a kill, at most": "most epochs run again after a kill",
    "of them with a checkpoint left": "kills that left a checkpoint",
    "runs that ended otherwise than undisturbed": "runs with a result unlike the undisturbed run",
    "graphs other than undisturbed": "graphs unlike the undisturbed graph",
    "different disks opened": "different states of the disk",
    "disks that could not go on": "disks from which the run could not resume",
    "of them with a finished run": "disks with a finished run",
    "of them full before the end": "disks that were full before the end",
    "runs that ended otherwise than with room": "runs with a result unlike the run on a large disk",
    "files half-written and believed": "half-written files that were used",
    "of them refused with a reason": "refused with a reason",
    "of them without effect on what is read": "without effect on the content",
    "unnoticed and harmful": "harmful but not noticed",
    "findings left": "open findings",
    "odd graphs": "unusual graphs",
    "trained, ranked and asked": "models trained, ranked and queried",
    "of them closed without an answer": "malformed requests closed without an answer",
    "of them not answered": "requests of others not answered",
    "refused requests whose body never came": "refused requests with a body that was never sent",
    "requests of others meanwhile": "requests of other clients during the attack",
    "slow clients at once": "simultaneous slow clients",
    "idle connections at once": "simultaneous idle connections",
    "slow heads and bodies at once": "simultaneous slow heads and bodies",
    "resident MiB after a third": "resident MiB after a third of the time",
}
"""Labels of counts whose name in the results is too short to stand alone."""


def counts(size: str) -> dict[str, dict[str, Any]]:
    """The counts of one size, `short` or `long`, by part."""
    return {file.stem: json.loads(file.read_text(encoding="utf-8")) for file in sorted((RESULTS / size).glob("*.json"))}


def table() -> str:
    """The table: one row per count, a dash if a size does not count it."""
    short, long = counts("short"), counts("long")
    lines = ["| test | count | `make test`, `make test-slow` | `make stress` |", "|---|---|---:|---:|"]
    for part, title in TITLES.items():
        names = {**short.get(part, {}), **long.get(part, {})}
        if not names:
            lines.append(f"| {title} | | not run | not run |")
        for row, name in enumerate(sorted(names, key=lambda each: (each == "date", each))):
            cells = [_shown(size.get(part, {}).get(name)) for size in (short, long)]
            lines.append(f"| {title if row == 0 else ''} | {LABELS.get(name, name)} | {cells[0]} | {cells[1]} |")
    return "\n".join(lines)


def _shown(value: Any) -> str:
    return "-" if value is None else f"{value:,}" if isinstance(value, int | float) else str(value)


def with_counts(text: str) -> str:
    """The text of the page with a table of the current counts."""
    return rewritten(text, f"{table()}\n", begin=BEGIN, end=END)


def main() -> None:
    PAGE.write_text(with_counts(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    parser(__doc__).parse_args()
    main()
