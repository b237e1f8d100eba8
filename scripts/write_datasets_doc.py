"""Writes the table of datasets in docs/datasets.md from the records; --check only says whether it is up to date."""

from __future__ import annotations

import sys
from pathlib import Path

from scripts.script_words import parser, rewritten

from conjoin.datasets.registry import Dataset, catalogue

DOCUMENT = Path(__file__).parents[1] / "docs" / "datasets.md"
BEGIN, END = "<!-- begin: scripts/write_datasets_doc.py -->", "<!-- end -->"


def datasets_table_markdown() -> str:
    """One row for each dataset, in the order of the records."""
    rows = ["| name | title | train | valid | test | entities | relations | licence |"]
    rows.append("|---|---|--:|--:|--:|--:|--:|---|")
    rows += [_row(record) for record in catalogue().values()]
    return "\n".join(rows)


def _row(record: Dataset) -> str:
    counts = [f"{n:,}" for n in vars(record.counts).values()]
    return f"| {' | '.join([f'`{record.name}`', record.title, *counts, record.licence])} |"


def origins_markdown() -> str:
    """Who published each dataset and where it is fetched from."""
    lines = []
    for record in catalogue().values():
        lines.append(f"- **{record.title}**: {'; '.join(record.sources)}.")
        lines += [f"  - {mirror}" for mirror in record.mirrors] or ["  - in the package"]
    return "\n".join(lines)


def updated(document: str) -> str:
    """The document with the generated part written anew."""
    return rewritten(document, f"{datasets_table_markdown()}\n\n{origins_markdown()}\n", begin=BEGIN, end=END)


def main() -> None:
    words = parser(__doc__)
    words.add_argument("--check", action="store_true", help="write nothing; fail where it is out of date")
    check = words.parse_args().check
    written = DOCUMENT.read_text(encoding="utf-8")
    fresh = updated(written)
    if not check:
        DOCUMENT.write_text(fresh, encoding="utf-8")
    elif fresh != written:
        sys.exit(f"{DOCUMENT} is out of date: run python {sys.argv[0]}")


if __name__ == "__main__":
    main()
