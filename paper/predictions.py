"""Predictions that were written before a study ran, and what became of them.

A file of predictions has a `margin` and a list; each prediction has a name, a title, a reason, and claims of two kinds:

    { gain = ["pair", "complex"], on = ["dihedral"] }     the first beats the second by more than the margin in MRR
    { even = ["pair", "complex"], on = ["abelian"] }      the two differ by at most the margin

A claim is judged by the 95 % interval of the paired difference (triples of the test split, reciprocal ranks averaged
over seeds): confirmed when all of the interval fits it, refuted when none of it does, undecided otherwise.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from conjoin.errors import UsageError
from conjoin.report.collect import Findings
from conjoin.report.stats import Answers, Interval, Paired, paired_by_t
from conjoin.runtime.toml_schema import TomlTable, read_toml
from conjoin.studies.spec import Study

Verdict = Literal["confirmed", "refuted", "undecided", "not run"]
VERDICTS: tuple[Verdict, ...] = ("confirmed", "refuted", "undecided", "not run")


@dataclass(frozen=True, kw_only=True)
class Claim:
    """Row `a` against row `b` on a dataset. `gain`: a is better by more than the margin; else the two are even."""

    a: str
    b: str
    dataset: str
    gain: bool

    def judged(self, interval: Interval, margin: float) -> Verdict:
        """What an interval of differences of a − b says."""
        if self.gain:
            if interval.low > margin:
                return "confirmed"
            return "refuted" if interval.high <= margin else "undecided"
        if -margin <= interval.low and interval.high <= margin:
            return "confirmed"
        return "refuted" if interval.low > margin or interval.high < -margin else "undecided"


@dataclass(frozen=True, kw_only=True)
class Prediction:
    name: str
    title: str
    reason: str
    claims: tuple[Claim, ...]


@dataclass(frozen=True, kw_only=True)
class ClaimResult:
    """A claim and what was measured; nothing where a run is missing."""

    prediction: Prediction
    claim: Claim
    verdict: Verdict
    mrr: tuple[float, float] | None = None
    paired: Paired | None = None


@dataclass(frozen=True, kw_only=True)
class Predictions:
    margin: float
    predictions: tuple[Prediction, ...]

    @classmethod
    def read(cls, file: Path, study: Study) -> Predictions:
        """Refuses claims about rows and datasets that the study does not have."""
        table = TomlTable(read_toml(file), str(file))
        margin = table.take("margin", float)
        found = tuple(_prediction(each, study) for each in table.listed("predictions"))
        table.end()
        return cls(margin=margin, predictions=found)

    def judge(self, findings: Findings) -> tuple[ClaimResult, ...]:
        """Every claim against the runs that there are."""
        kept: dict[tuple[str, str], Answers | None] = {}

        def answers(dataset: str, row: str) -> Answers | None:
            if (dataset, row) not in kept:
                outcome = findings.of(dataset, row)
                kept[dataset, row] = outcome.answers() if outcome else None
            return kept[dataset, row]

        outcomes = []
        for prediction in self.predictions:
            for claim in prediction.claims:
                a, b = answers(claim.dataset, claim.a), answers(claim.dataset, claim.b)
                paired = paired_by_t(a, b) if a and b else None
                if a is None or b is None or paired is None:
                    outcomes.append(ClaimResult(prediction=prediction, claim=claim, verdict="not run"))
                    continue
                outcomes.append(
                    ClaimResult(
                        prediction=prediction,
                        claim=claim,
                        verdict=claim.judged(paired.interval, self.margin),
                        mrr=(float(a.reciprocal.mean()), float(b.reciprocal.mean())),
                        paired=paired,
                    )
                )
        return tuple(outcomes)


def tally(outcomes: Sequence[ClaimResult]) -> str:
    """3 confirmed, 1 refuted."""
    counts = Counter(outcome.verdict for outcome in outcomes)
    return ", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS if counts[verdict])


def _prediction(table: TomlTable, study: Study) -> Prediction:
    name, title, reason = (table.take(key, str) for key in ("name", "title", "reason"))
    claims = [claim for each in table.listed("claims") for claim in _claims(each, study)]
    table.end()
    return Prediction(name=name, title=title, reason=reason, claims=tuple(claims))


def _claims(table: TomlTable, study: Study) -> list[Claim]:
    gain, even, on = (table.words(key, ()) or () for key in ("gain", "even", "on"))
    table.end()
    rows = gain or even
    if bool(gain) == bool(even) or len(rows) != 2 or not on:
        raise UsageError(f"{table.where}: a claim has two rows under `gain` or `even`, and datasets under `on`")
    for known, named, what in ((study.rows, rows, "row"), (study.datasets, on, "dataset")):
        if strange := [name for name in named if name not in known]:
            raise UsageError(f"{table.where}: {study.file} has no {what} {strange[0]}; it has {', '.join(known)}")
    return [Claim(a=rows[0], b=rows[1], dataset=dataset, gain=bool(gain)) for dataset in on]
