"""The claims of docs/results.md: each is judged by the numbers, and says so in words that the numbers choose."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from results_cells import ELSEWHERE, absent, table
from results_contrast import SEEDS, Contrast, Evidence, Verdict

from conjoin.report.collect import Findings
from conjoin.report.judge import published_value
from conjoin.report.printing import bare, mean_sd, signed

SAME = 0.003
"""Two MRRs this close count as equal: the tolerance by which a printed number counts as reproduced."""
LAYOUT = ("complex", "complex-conj", "complex-conj-published")
COMPARED = (
    ("complex", "complex-conj"),
    ("5star", "5star-conj"),
    ("5star", "5star-neg"),
    ("5star", "5star-conj-tuned"),
)
RETUNED = "5star-conj-tuned"


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A heading, the verdict where there is something to judge, and Markdown lines."""

    title: str
    verdict: Verdict | None
    lines: Sequence[str]


def layout(evidence: Evidence) -> Claim:
    """Complεx's loss on WN18RR comes from the published layout."""
    on = "WN18RR"
    verdict, words = _explained(evidence, evidence.paper, on)
    if _seeds(evidence, evidence.paper, on) < SEEDS:
        words = f"{words} {_commands(evidence.paper, on, LAYOUT)} fills it."
    return Claim(
        title="The loss of Complεx on WN18RR comes from the published layout",
        verdict=verdict,
        lines=[
            f"**{head(verdict)}:** {words}",
            "",
            "The published code reads an entity's row as (re1, im1, re2, im2) at the head and as (re1, re2, im1, im2)"
            " at the tail, so that one entity is two different vectors. `complex-conj` reads both alike,"
            " `complex-conj(layout=published)` as the paper's code does. The paper prints .488 for ComplEx and .475 for"
            " Complεx.",
            "",
            *_three_layouts(evidence),
        ],
    )


def _explained(evidence: Evidence, study: Findings, dataset: str) -> tuple[Verdict, str]:
    """Does reading heads and tails alike bring back most of what Complεx loses?"""
    lost = evidence.contrast(dataset, "complex", "complex-conj-published", study=study)
    regained = evidence.contrast(dataset, "complex-conj", "complex-conj-published", study=study)
    left = evidence.contrast(dataset, "complex", "complex-conj", study=study)
    if lost is None or regained is None or left is None:
        lack = [row for row in LAYOUT if evidence.ran(dataset, row, study=study) is None]
        return "open", f"not yet run: {', '.join(lack)} on {dataset}."
    if not lost.beyond():
        none = lost.interval is not None and lost.interval.high < SAME
        words = f"there is {'no loss' if none else 'no clear loss'} to explain here."
        return "refuted" if none else "open", f"{words} ComplEx less Complεx in the published layout: {lost.words()}."
    share, half = regained.difference / lost.difference, lost.difference / 2
    words = (
        f"ComplEx less Complεx in the published layout is {lost.words()}; Complεx with one layout less Complεx in"
        f" the published one is {regained.words()}, {100 * share:.0f} % of that loss. What is left, ComplEx less"
        f" Complεx with one layout, is {left.words()}."
    )
    if _seeds(evidence, study, dataset) < SEEDS:
        words += f" Fewer than {SEEDS} seeds so far."
    back = regained.interval
    verdict: Verdict = "open"
    if back is not None:
        verdict = "confirmed" if back.low > half else "refuted" if back.high < half else "open"
    return verdict, words


def _seeds(evidence: Evidence, study: Findings, dataset: str) -> int:
    """Of the row of the three that has the fewest."""
    found = [evidence.ran(dataset, row, study=study) for row in LAYOUT]
    return min(len(outcome.runs) if outcome else 0 for outcome in found)


def small_layout(evidence: Evidence) -> Claim:
    """The same claim where a CPU can judge it."""
    verdict, words = _explained(evidence, evidence.layout, "WN18RR")
    cell = evidence.layout.study.cells()[0]
    return Claim(
        title=f"So does its loss at rank {cell.rank}, on a CPU",
        verdict=verdict,
        lines=[
            f"**{head(verdict)}:** {words}",
            "",
            f"This is the same comparison at rank {cell.rank}, {cell.recipe.epochs} epochs and a softmax over"
            f" {cell.recipe.negatives:,} sampled entities, for which a CPU is enough: `conjoin study run"
            " studies/layout.toml`. The claim is confirmed where reading heads and tails alike brings back more than"
            " half of the loss, by the 95 % interval.",
        ],
    )


def _three_layouts(evidence: Evidence) -> list[str]:
    rows = []
    for dataset in evidence.paper.study.datasets:
        if dataset in ELSEWHERE:
            continue
        moments = [mean_of(evidence, dataset, row) for row in LAYOUT]
        gained = evidence.contrast(dataset, "complex-conj", "complex-conj-published")
        rows.append((dataset, *moments, gained.words() if gained else "not yet run"))
    small = evidence.layout
    for dataset in small.study.datasets:
        gained = evidence.contrast(dataset, "complex-conj", "complex-conj-published", study=small)
        if gained:
            moments = [mean_of(evidence, dataset, row, study=small) for row in LAYOUT]
            rows.append((f"{dataset}, small study", *moments, gained.words()))
    heads = ("dataset", "ComplEx", "Complεx, one layout", "Complεx, published layout", "one layout less published")
    return table(heads, rows)


def tying(evidence: Evidence) -> Claim:
    """Complεx is tying."""
    made = {d: evidence.contrast(d, "complex-conj", "complex-twin") for d in evidence.paper.study.datasets}
    found = {dataset: each for dataset, each in made.items() if each is not None}
    verdicts = {dataset: each.within(SAME) for dataset, each in found.items()}
    verdict = all_of(verdicts.values())
    told = "; ".join(f"{dataset} {each.words()}" for dataset, each in found.items())
    if not found:
        words = _unfinished(evidence, "WN18", ("complex-conj", "complex-twin"))
    else:
        end = cases(verdicts, holds=f"equal to within {bare(SAME)}", fails="not equal")
        words = f"{end}. Complεx less its twin: {told}."
    rows = [
        (
            d,
            mean_of(evidence, d, "complex-conj"),
            mean_of(evidence, d, "complex-twin"),
            _interval(made[d]),
            verdicts.get(d, ""),
        )
        for d in evidence.paper.study.datasets
        if d not in ELSEWHERE
    ]
    return Claim(
        title="Complεx is tying: conjugation itself does nothing",
        verdict=verdict,
        lines=[
            f"**{head(verdict)}:** {words}",
            "",
            "The twin ties a2 = a1 instead of a2 = conj(a1). Conjugating the second half of every entity turns one"
            " model into the other: Re(conj(a) x conj(y)) = Re(a conj(x) y). That only flips signs, so penalty, starts"
            " and optimisers are the same for both; `tests/algebra/test_facts.py` holds scores and penalties equal."
            " Runs from one seed start at different, equally likely points, so their numbers agree in distribution, not"
            " digit by digit. That the positions of the conjugates *can be set randomly*, as the paper says, follows:"
            " which half is tied to which, and whether with a conjugate, is a renaming of coordinates. The algebra"
            " carries the claim; runs can only fail to contradict it.",
            "",
            *table(("dataset", "Complεx", "a2 = a1", "95 % of the difference", f"equal to within {bare(SAME)}"), rows),
        ],
    )


def cost(evidence: Evidence) -> Claim:
    """What tying costs in MRR at equal settings, ours beside the paper's."""
    rows, verdicts = [], dict[str, Verdict]()
    for dataset in evidence.paper.study.datasets:
        for whole, tied in COMPARED:
            ours = evidence.contrast(dataset, tied, whole)
            printed = _printed(evidence.paper, dataset, tied, whole)
            rows.append((dataset, f"{tied} less {whole}", signed(printed, decimals=3), told_on(dataset, ours)))
            if ours is not None and tied != RETUNED:
                verdicts[f"{dataset} {tied}"] = ours.no_worse(SAME)
    verdict = all_of(verdicts.values())
    words = cases(verdicts, holds=f"no worse by {bare(SAME)}", fails=f"worse by more than {bare(SAME)}")
    return Claim(
        title="Tying costs no quality at equal settings",
        verdict=verdict,
        lines=[
            f"**{head(verdict)}:** {words}. Complεx stands here in the proper layout, the paper's is the published one."
            " `5star-conj-tuned` has settings of its own: it is shown, not judged.",
            "",
            *table(("dataset", "MRR", "paper", "ours"), rows, left=2),
        ],
    )


def all_of(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict on a claim about several cases."""
    known = set(verdicts)
    if "refuted" in known:
        return "mixed" if "confirmed" in known else "refuted"
    return "confirmed" if known == {"confirmed"} else "open"


def cases(verdicts: Mapping[str, Verdict], *, holds: str, fails: str) -> str:
    """All cases that ran, by how they came out, each with its name."""
    told = {"confirmed": holds, "refuted": fails, "open": "undecided"}
    parts = [
        f"{words} in {len(names)} of {len(verdicts)} cases ({', '.join(names)})"
        for verdict, words in told.items()
        if (names := [name for name, each in verdicts.items() if each == verdict])
    ]
    return "; ".join(parts) or "not yet run"


def head(verdict: Verdict) -> str:
    return verdict.capitalize()


def mean_of(evidence: Evidence, dataset: str, row: str, *, study: Findings | None = None) -> str:
    outcome = evidence.ran(dataset, row, study=study)
    return f"{mean_sd('mrr', outcome.moments('mrr'))} (n = {len(outcome.runs)})" if outcome else absent(dataset)


def told_on(dataset: str, each: Contrast | None) -> str:
    return each.words() if each else absent(dataset)


def _interval(each: Contrast | None) -> str:
    between = each.interval if each else None
    return f"{signed(between.low)} to {signed(between.high)}" if between else ""


def _printed(findings: Findings, dataset: str, a: str, b: str) -> float | None:
    outcomes = findings.of(dataset, a), findings.of(dataset, b)
    values = [published_value(outcome, "mrr") if outcome else None for outcome in outcomes]
    return None if values[0] is None or values[1] is None else values[0] - values[1]


def _unfinished(evidence: Evidence, dataset: str, rows: Sequence[str]) -> str:
    lack = [row for row in rows if evidence.ran(dataset, row) is None]
    return f"not yet run: {', '.join(lack)} on {dataset}. {_commands(evidence.paper, dataset, lack)} fills it."


def _commands(findings: Findings, dataset: str, rows: Sequence[str]) -> str:
    part = ",".join(f"row={row}" for row in rows)
    return f"`conjoin study run studies/{findings.study.name}.toml --only dataset={dataset},{part} --seeds 0-2`"
