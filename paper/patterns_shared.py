"""Shared by the scripts that write docs/patterns.md."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from paper.predictions import ClaimResult, Prediction, tally

from conjoin.report.collect import Findings, collect
from conjoin.report.stats import Interval
from conjoin.studies.parse import read_study

ROOT = Path(__file__).resolve().parents[1]
STUDIES = ROOT / "studies"
DATASETS = ("FB15K-237", "WN18RR", "FB15K", "WN18")
ALPHA = 0.05


def table(heads: list[str], rows: list[list[str]], *, left: int = 1) -> str:
    rule = ["---" if place < left else "---:" for place in range(len(heads))]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [heads, rule, *rows])


def findings_of(name: str) -> Findings:
    study = read_study(STUDIES / f"{name}.toml")
    return collect(study, study.root)


def half(interval: Interval) -> str:
    return f"{(interval.high - interval.low) / 2:.3f}"


def seeds_of(findings: Findings) -> str:
    """One seed; 1 to 3 seeds."""
    counts = sorted({len(outcome.runs) for outcome in findings.outcomes.values() if outcome.runs}) or [0]
    if counts == [1]:
        return "One seed"
    return f"{counts[0]} seeds" if len(counts) == 1 else f"{counts[0]} to {counts[-1]} seeds"


def stated(prediction: Prediction, outcomes: Sequence[ClaimResult]) -> str:
    """A prediction, marked as such, with its reason and its outcome."""
    return (
        f"**Predicted: {prediction.title}.**\n\nReason: {prediction.reason}\n\n*Outcome:"
        f" {tally(outcomes).capitalize()}.*"
    )


def rule(margin: float) -> str:
    """How claims are judged."""
    return (
        f"A claim a > b says that a is better than b by more than {margin} in MRR; a = b says that they differ by at"
        " most that. A claim is confirmed if the whole 95 % interval of the difference satisfies it, and refuted if"
        " no part of the interval does."
    )
