"""The claims of docs/results.md: each is judged by the numbers, and says so in words that the numbers choose."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from paper.results_cells import ELSEWHERE, absent, table
from paper.results_contrast import SEEDS, SURE, Contrast, Evidence, Verdict, p_words

from conjoin.report.best import ROUNDING, published_value
from conjoin.report.collect import Findings
from conjoin.report.formatting import bare, mean_sd, signed

SAME = 0.003
"""Two MRRs this close count as equal: the tolerance by which a printed number counts as reproduced."""
LAYOUT = ("complex", "complex-conj", "complex-conj-published")


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A heading, the verdict where there is something to judge, that in one line, and Markdown lines."""

    title: str
    verdict: Verdict | None
    lines: Sequence[str]
    short: str = ""


def layout(evidence: Evidence) -> Claim:
    """Complεx's loss on WN18RR comes from the published layout."""
    on = "WN18RR"
    verdict, short, words = _explained(evidence, evidence.paper, on)
    if _seeds(evidence, evidence.paper, on) < SEEDS:
        words = f"{words} To run it: {_commands(evidence.paper, on, LAYOUT)}."
    return Claim(
        title="The loss of Complεx on WN18RR comes from the published layout",
        verdict=verdict,
        short=short,
        lines=[
            f"**{head(verdict)}:** {words}",
            "",
            "The published code reads an entity's row as (re1, im1, re2, im2) at the head and as (re1, re2, im1, im2)"
            " at the tail, so that one entity is two different vectors. `complex-conj` reads head and tail alike;"
            " `complex-conj(layout=published)` reads them as the paper's code does. The paper prints .488 for ComplEx"
            " and .475 for Complεx.",
            "",
            *_three_layouts(evidence),
        ],
    )


def _explained(evidence: Evidence, study: Findings, dataset: str) -> tuple[Verdict, str, str]:
    """Does reading heads and tails alike bring back most of what Complεx loses? In short, and with all numbers."""
    lost = evidence.contrast(dataset, "complex", "complex-conj-published", study=study)
    regained = evidence.contrast(dataset, "complex-conj", "complex-conj-published", study=study)
    left = evidence.contrast(dataset, "complex", "complex-conj", study=study)
    if lost is None or regained is None or left is None:
        lack = [row for row in LAYOUT if evidence.ran(dataset, row, study=study) is None]
        return "open", "not yet run", f"not yet run: {', '.join(lack)} on {dataset}."
    if not lost.beyond():
        none = lost.interval is not None and lost.interval.high < SAME
        short = f"there is {'no loss' if none else 'no clear loss'} to explain here"
        words = f"{short}. ComplEx minus Complεx in the published layout: {lost.words()}."
        return "refuted" if none else "open", short, words
    share = regained.difference / lost.difference
    words = (
        f"MRR of ComplEx minus Complεx in the published layout: {lost.words()}. Complεx with one layout minus Complεx"
        f" in the published layout: {regained.words()}, {100 * share:.0f} % of that loss. The rest, ComplEx minus"
        f" Complεx with one layout: {left.words()}."
    )
    over = evidence.above_halfway(regained.a, lost.a, lost.b)
    verdict: Verdict = "open"
    if over is not None:
        verdict = "confirmed" if over.low > 0 else "refuted" if over.high < 0 else "open"
        words += f" The regained part minus half of the loss: {signed(over.low)} to {signed(over.high)}, at 95 %."
    loss = bare(lost.difference, decimals=4)
    short = f"reading heads and tails alike brings back {100 * share:.0f} % of a loss of {loss}"
    if (fewest := _seeds(evidence, study, dataset)) < SEEDS:
        words += f" Fewer than {SEEDS} seeds so far."
        short += f" ({fewest} seed{'s' if fewest > 1 else ''})"
    return verdict, short, words


def _seeds(evidence: Evidence, study: Findings, dataset: str) -> int:
    """Of the row of the three that has the fewest."""
    found = [evidence.ran(dataset, row, study=study) for row in LAYOUT]
    return min(len(outcome.runs) if outcome else 0 for outcome in found)


def small_layout(evidence: Evidence) -> Claim:
    """The same claim where a CPU can judge it."""
    verdict, short, words = _explained(evidence, evidence.layout, "WN18RR")
    cell = evidence.layout.study.cells()[0]
    return Claim(
        title=f"So does most of its loss at rank {cell.rank}, on a CPU",
        verdict=verdict,
        short=short,
        lines=[
            f"**{head(verdict)}:** {words}",
            "",
            f"This is the same comparison at rank {cell.rank}, {cell.recipe.epochs} epochs and a softmax over"
            f" {cell.recipe.negatives:,} sampled entities, for which a CPU is enough: `conjoin study run"
            " studies/layout.toml`. The claim is confirmed if the regained part exceeds"
            " half of the loss over the whole interval.",
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
    heads = ("dataset", "ComplEx", "Complεx, one layout", "Complεx, published layout", "one layout minus published")
    return table(heads, rows)


def tying(evidence: Evidence) -> Claim:
    """Complεx is tying. Algebra proves it; runs could only show that it is not what was run."""
    made = {d: evidence.contrast(d, "complex-conj", "complex-twin") for d in evidence.paper.study.datasets}
    found = {dataset: each for dataset, each in made.items() if each is not None}
    verdicts = {dataset: each.within(SAME) for dataset, each in found.items()}
    verdict: Verdict = "refuted" if "refuted" in verdicts.values() else "proved"
    holds, fails = f"equal to within {bare(SAME)}", "not equal"
    runs = in_short(verdicts, holds=holds, fails=fails)
    why = "by the algebra below, and no run contradicts it. The runs:"
    if verdict == "refuted":
        why = "runs contradict the algebra below, so they are not runs of these forms:"
    if not found:
        words = _unfinished(evidence, "WN18", ("complex-conj", "complex-twin"))
    else:
        told = "; ".join(f"{dataset} {each.words()}" for dataset, each in found.items())
        words = f"{cases(verdicts, holds=holds, fails=fails)}. Complεx minus its twin: {told}.{_one_model(found)}"
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
        short=f"by algebra, checked by tests; runs: {runs}",
        lines=[
            f"**{head(verdict)}:** {why} {words}",
            "",
            "The twin ties a2 = a1 instead of a2 = conj(a1). Conjugating the second half of every entity turns one"
            " model into the other: Re(conj(a) x conj(y)) = Re(a conj(x) y). That only flips signs, so penalty, initial"
            " distribution and optimisers are the same for both. Two tests check this. Scores and penalties are equal"
            " (`tests/forms/test_facts.py`). From matched starts both models train along one path, with Adagrad, Adam"
            " and SGD, to the same ranks (`tests/training/test_loop.py`).",
            "",
            "Runs from one seed start at different, equally likely points, so their numbers agree in distribution, not"
            f" digit by digit. An interval that still crosses {bare(SAME)} needs more seeds, not another proof. The"
            " paper says that the positions of the conjugates *can be set randomly*. This follows: which half is tied"
            " to which, and whether with a conjugate, only renames coordinates.",
            "",
            *table(("dataset", "Complεx", "a2 = a1", "95 % of the difference", f"equal to within {bare(SAME)}"), rows),
        ],
    )


def _one_model(found: Mapping[str, Contrast]) -> str:
    """What a small p between two models that are one teaches about such p."""
    small = [
        f"{dataset} ({p_words(each.questions.p)})"
        for dataset, each in found.items()
        if each.questions is not None and each.questions.p < SURE and not each.by_seeds
    ]
    if not small:
        return ""
    return (
        f" The paired test tells the two apart on {', '.join(small)}, though they are one model, because the"
        " test does not account for seeds. Therefore no verdict on this page rests on such a p."
    )


def compared(
    evidence: Evidence,
    *,
    title: str,
    pairs: Sequence[tuple[str, str]],
    judge: Callable[[Contrast], Verdict],
    holds: str,
    fails: str,
    words: str = "",
) -> Claim:
    """A claim about the first row of each pair less the second, on every dataset, ours beside the paper's."""
    rows, verdicts, against = [], dict[str, Verdict](), list[str]()
    one_first = len({a for a, _ in pairs}) == 1
    for dataset in evidence.paper.study.datasets:
        for a, b in pairs:
            ours, printed = evidence.contrast(dataset, a, b), _printed(evidence.paper, dataset, a, b)
            case = f"{dataset} {b if one_first else a}" if len(pairs) > 1 else dataset
            if printed is not None and printed < -SAME - ROUNDING:
                against.append(f"{case} ({signed(printed, decimals=3)})")
            if ours is not None:
                verdicts[case] = judge(ours)
            judged = verdicts.get(case, "")
            rows.append((dataset, f"{a} − {b}", signed(printed, decimals=3), told_on(dataset, ours), judged))
    verdict = all_of(verdicts.values())
    print_says = f"contradict it on {', '.join(against)}" if against else "do not contradict it"
    return Claim(
        title=title,
        verdict=verdict,
        short=in_short(verdicts, holds=holds, fails=fails),
        lines=[
            f"**{head(verdict)}:** {cases(verdicts, holds=holds, fails=fails)}. The printed numbers"
            f" {print_says}.{words}",
            "",
            *table(("dataset", "MRR", "paper", "ours", "verdict"), rows, left=2),
        ],
    )


def all_of(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict on a claim about several cases."""
    known = set(verdicts)
    if "refuted" in known:
        return "mixed" if "confirmed" in known else "refuted"
    return "confirmed" if known == {"confirmed"} else "open"


def cases(
    verdicts: Mapping[str, Verdict],
    *,
    holds: str,
    fails: str,
    named: Collection[str] = ("confirmed", "refuted", "open"),
) -> str:
    """All cases that ran, by verdict, with the names of the cases whose verdict is in `named`."""
    told: dict[Verdict, str] = {"confirmed": holds, "refuted": fails, "open": "undecided"}
    parts = [
        f"{words} in {len(names)} of {len(verdicts)} cases" + (f" ({', '.join(names)})" if verdict in named else "")
        for verdict, words in told.items()
        if (names := [name for name, each in verdicts.items() if each == verdict])
    ]
    return "; ".join(parts) or "not yet run"


def in_short(verdicts: Mapping[str, Verdict], *, holds: str, fails: str) -> str:
    """The counts, and the names of the failing cases."""
    return cases(verdicts, holds=holds, fails=fails, named=("refuted",))


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
    return f"not yet run: {', '.join(lack)} on {dataset}. To run it: {_commands(evidence.paper, dataset, lack)}."


def _commands(findings: Findings, dataset: str, rows: Sequence[str]) -> str:
    part = ",".join(f"row={row}" for row in rows)
    return f"`conjoin study run studies/{findings.study.name}.toml --only dataset={dataset},{part} --seeds 0-2`"
