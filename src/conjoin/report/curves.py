"""How the runs of a row learnt: a measure by epoch over its seeds, from the events that each run kept."""

from __future__ import annotations

from typing import Literal, NamedTuple

from conjoin.report.collect import Measured, RowResult

Followed = Literal["valid", "loss"]
FOLLOWED: tuple[Followed, ...] = ("valid", "loss")
"""What is shown first, and what is shown where that is missing."""


class Point(NamedTuple):
    """An epoch: mean, least and greatest value over the seeds that have it."""

    epoch: int
    mean: float
    low: float
    high: float
    seeds: int


def history(outcome: RowResult, value: Followed) -> list[Point]:
    """Validation MRR or training loss, epoch by epoch; empty where it was not kept."""
    found: dict[int, list[float]] = {}
    for run in outcome.runs:
        for epoch, number in _values(run, value):
            found.setdefault(epoch, []).append(number)
    return [
        Point(epoch, sum(values) / len(values), min(values), max(values), len(values))
        for epoch, values in sorted(found.items())
    ]


def _values(run: Measured, value: Followed) -> list[tuple[int, float]]:
    events = run.events
    numbers = [(e["epoch"], (e.get("valid") or {}).get("mrr") if value == "valid" else e.get("loss")) for e in events]
    return [(int(epoch), float(number)) for epoch, number in numbers if number is not None]
