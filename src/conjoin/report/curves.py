"""Learning curves of a row: a measure by epoch over its seeds, from the events of each run."""

from __future__ import annotations

from typing import Literal, NamedTuple

from conjoin.report.collect import Measured, RowResult

Followed = Literal["valid", "loss"]
FOLLOWED: tuple[Followed, ...] = ("valid", "loss")
"""Measures in order of preference; the loss is shown if there is no validation."""


class Point(NamedTuple):
    """One epoch: mean, smallest and largest value, and the number of seeds that have the epoch."""

    epoch: int
    mean: float
    low: float
    high: float
    seeds: int


def history(outcome: RowResult, value: Followed) -> list[Point]:
    """Validation MRR or training loss by epoch; empty if it was not recorded."""
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
