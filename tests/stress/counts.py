"""Where the counts are kept: one small file a part and size, under tests/stress/results/."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path

RESULTS = Path(__file__).resolve().parent / "results"
WANTED = "CONJOIN_COUNTS"
"""Set by the Makefile: only then do tests leave counts behind."""

Counts = Mapping[str, int | float | str]


def record(part: str, size: str, counts: Counts) -> None:
    """Keep what was done. The short size says the same every time; the long one is dated."""
    dated = {**counts, "date": time.strftime("%Y-%m-%d")} if size == "long" else dict(counts)
    file = RESULTS / size / f"{part}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(dated, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def record_short(part: str, counts: Counts, *, but: tuple[str, ...] = ()) -> None:
    """Record the deterministic counts of a test, so that two test runs write the same file."""
    if os.environ.get(WANTED):
        record(part, "short", {name: count for name, count in counts.items() if name not in but})
