"""The parts of docs/results.md by cell: comparison with print, missing runs, and the origin of each run."""

from __future__ import annotations

import statistics
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from paper.results_contrast import Scatter, Verdict, sign_test

from conjoin.datasets.registry import dataset as catalogued
from conjoin.report.best import ROUNDING, WITHIN, difference, published_value, reproduced
from conjoin.report.collect import QUALITY, Findings, RowResult
from conjoin.report.formatting import bare, listed, mean_sd, seconds, signed
from conjoin.report.significance import UNIT
from conjoin.report.tables import HEADS, spans
from conjoin.studies.spec import Row

ELSEWHERE = ("YAGO3-10",)
"""Datasets whose files were not available."""
GOAL = 30
"""Number of printed cells on the other datasets to reproduce."""
SIX = ("complex", "complex-conj", "5star", "5star-conj", "5star-conj-tuned", "5star-neg")
ALSO = {("WN18RR", "complex-conj-published")}
"""Besides the six main rows, what a claim needs several seeds of."""
WANTED_SEEDS = 3
SHORT_SECONDS = 120
HITS = tuple(measure for measure in QUALITY if measure != "mrr")


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], *, left: int = 1) -> list[str]:
    """A Markdown table whose first `left` columns are words."""
    rules = ["---"] * left + ["---:"] * (len(heads) - left)
    return [f"| {' | '.join(line)} |" for line in (heads, rules, *rows)]


def command(study: str, dataset: str, row: str, seeds: str = "0") -> str:
    """The command that runs a cell."""
    run = f"conjoin study run studies/{study}.toml --only dataset={dataset},row={row} --seeds {seeds}"
    return f"`conjoin fetch {catalogued(dataset).name} && {run}`" if dataset in ELSEWHERE else f"`{run}`"


def absent(dataset: str) -> str:
    return "data not here" if dataset in ELSEWHERE else "not yet run"


def name_of(row: Row) -> str:
    """The row's name as typed, and what the paper calls it."""
    return f"{row.name} ({row.symbol})" if row.symbol and row.symbol != row.name else row.name


def judged(findings: Findings) -> list[RowResult]:
    """The outcomes by which a printed line is judged, in the order of the study."""
    return [o for o in findings.outcomes.values() if o.judged and published_value(o, "mrr") is not None]


def printed_cells(findings: Findings) -> tuple[list[RowResult], list[RowResult]]:
    """The judged outcomes whose data is at hand, and the others."""
    every = judged(findings)
    here = [outcome for outcome in every if outcome.benchmark.name not in ELSEWHERE]
    return here, [outcome for outcome in every if outcome not in here]


def datasets_of(outcomes: Iterable[RowResult]) -> str:
    """Their datasets in words: FB15K-237, WN18RR and WN18."""
    return listed(list(dict.fromkeys(outcome.benchmark.name for outcome in outcomes)))


def agreement(findings: Findings, tried: Mapping[str, Mapping[str, str]]) -> tuple[Verdict, str, list[str]]:
    """How many printed cells are reproduced, that in short, then each of them and the exceptions."""
    here, elsewhere = printed_cells(findings)
    ran = [outcome for outcome in here if outcome.runs]
    close = [outcome for outcome in ran if reproduced(outcome, "mrr")]
    hits = [outcome for outcome in close if all(reproduced(outcome, measure) is not False for measure in HITS)]
    off = [outcome for outcome in ran if outcome not in hits]
    missing = len(here) - len(ran)
    verdict: Verdict = "open"
    if len(close) >= GOAL:
        verdict, standing = "confirmed", f"The aim was {GOAL}: reached."
    elif len(close) + missing < GOAL:
        verdict, standing = (
            "refuted",
            f"The aim was {GOAL}: out of reach, because {len(ran) - len(close)} cells are outside.",
        )
    else:
        standing = f"The aim is {GOAL}."
    less = [f"{HEADS[measure]} − paper" for measure in QUALITY]
    lines = [
        f"**Our mean test MRR is within {bare(WITHIN['mrr'])} of the printed one in {len(close)} of {len(here)}"
        f" cells on {datasets_of(here)}** ({len(ran)} run{f', {missing} not yet run' if missing else ''};"
        f" the {len(elsewhere)} on {datasets_of(elsewhere)} are not counted). {standing} Hits@1, 3 and 10 are all"
        f" within {bare(WITHIN['hits1'])} too in {len(hits)} of these {len(close)}. Complεx is compared in the"
        " published layout; the table also has the proper layout. Means are over the listed seeds, with the weights"
        " of the last epoch. An entity with the same score as the right answer counts as better (pessimistic ranks).",
        "",
        *_by_scatter(ran),
        *_exceptions(off, tried),
        *_once_outside([outcome for outcome in ran if outcome not in off], tried),
        "",
        *table(
            ("dataset", "row", "seeds", "MRR", "paper", less[0], _within("mrr"), *less[1:], _within("hits1")),
            map(_line, _with_proper(findings)),
            left=2,
        ),
        "",
        _which_settings(findings),
    ]
    short = f"{len(close)} of {len(here)} cells within {bare(WITHIN['mrr'])}, {len(ran)} run; the aim: {GOAL}"
    return verdict, short, lines


def _by_scatter(ran: Sequence[RowResult]) -> list[str]:
    """A stricter comparison: the differences that rounding and seeds explain."""
    apart = [(outcome, d) for outcome in ran if (d := difference(outcome, "mrr")) is not None]
    if not apart:
        return []
    sizes = [abs(d) for _, d in apart]
    at_best = [abs(d) <= WITHIN["mrr"] + ROUNDING for outcome, _ in apart if (d := _at_best(outcome)) is not None]
    beyond = [
        f"{outcome.benchmark.name} {outcome.row.name} {signed(d)} ({signed(_at_best(outcome))} at its best epoch)"
        for outcome, d in apart
        if (reach := _explained(outcome)) is not None and abs(d) > reach
    ]
    unexplained = f", but not {', '.join(beyond)}" if beyond else ""
    close = sum(size <= WITHIN["mrr"] + ROUNDING for size in sizes)
    outside = [f"{o.benchmark.name} {o.row.name} ({signed(d)})" for o in ran if (d := _outside_at_first(o)) is not None]
    but_not = f", not {', '.join(outside)}" if outside else ""
    above, below = sum(d > 0 for _, d in apart), sum(d < 0 for _, d in apart)
    return [
        f"A stricter comparison: the median distance is {bare(statistics.median(sizes), decimals=4)} and the mean"
        f" signed difference {signed(statistics.fmean(d for _, d in apart))}; {above} cells are above the printed"
        f" value and {below} below ({sign_test(above, below)}). Rounding and the printed deviations, at 95 %, explain"
        f" {len(apart) - len(beyond)} of {len(apart)}{unexplained}. With the weights of the last epoch, which the paper"
        f" reports, {close} of {len(sizes)} are within {bare(WITHIN['mrr'])}. With only the first seed of each cell,"
        f" {len(ran) - len(outside)} are{but_not}. With the weights of the best epoch on valid, {sum(at_best)} of"
        f" {len(at_best)} are.",
        "",
    ]


def _at_best(outcome: RowResult) -> float | None:
    """The same difference with the weights of the best epoch on valid."""
    best, printed = outcome.moments("best_mrr"), published_value(outcome, "mrr")
    return best.mean - printed if best and printed is not None else None


def _outside_at_first(outcome: RowResult) -> float | None:
    """The difference for the first seed alone, if it is too large; cells outside are more likely to get further"
    " seeds."""
    first = replace(outcome, runs=(min(outcome.runs, key=lambda run: run.seed),))
    return None if reproduced(first, "mrr") else difference(first, "mrr")


def _explained(outcome: RowResult) -> float | None:
    """How far our mean may lie from the printed one by rounding and the scatter of seeds alone."""
    printed = outcome.published
    if printed is None or printed.mrr_pm is None or printed.runs is None:
        return None
    scatter = Scatter(deviation=printed.mrr_pm, runs=printed.runs)
    return UNIT["mrr"] / 2 + scatter.reach(len(outcome.runs), printed.runs)


def _which_settings(findings: Findings) -> str:
    """Where more than one setting was published, the one that was run."""
    chosen = findings.study.settings["FB15K-237"]["complex"]
    return (
        "The settings of ComplEx on FB15K-237 are published twice, with the same MRR: rank 2000 with batch 100, and"
        f" rank 1000 with batch 1000. The rows here are of rank {chosen.rank} and batch {chosen.recipe.batch}."
    )


def _with_proper(findings: Findings) -> Iterator[RowResult]:
    """The judged outcomes, and the other outcomes with the same printed line."""
    for outcome in findings.outcomes.values():
        if published_value(outcome, "mrr") is not None:
            yield outcome


def _line(outcome: RowResult) -> list[str]:
    dataset, row = outcome.benchmark.name, outcome.row
    name = name_of(row) if outcome.judged else f"{name_of(row)}, for comparison"
    printed = published_value(outcome, "mrr")
    head = [dataset, name]
    paper = f"{printed:.3f}"
    if not outcome.runs:
        return [*head, absent(dataset), "", paper, "", "", "", "", "", ""]
    apart = [difference(outcome, measure) for measure in QUALITY]
    told = [signed(each) if each is not None else "" for each in apart]
    passed = [reproduced(outcome, measure) for measure in QUALITY]
    if outcome.judged:
        verdicts = [_pass(passed[0]), _pass(all(each is not False for each in passed[1:]))]
    else:
        verdicts = ["not judged", "not judged"]
    return [
        *head,
        str(len(outcome.runs)),
        mean_sd("mrr", outcome.moments("mrr")),
        paper,
        told[0],
        verdicts[0],
        *told[1:],
        verdicts[1],
    ]


def _within(measure: str) -> str:
    return f"within {bare(WITHIN[measure])}"


def _pass(passed: bool | None) -> str:
    return "pass" if passed else "**fail**"


def _exceptions(off: Sequence[RowResult], tried: Mapping[str, Mapping[str, str]]) -> list[str]:
    if not off:
        return ["Exceptions so far: none."]
    lines = ["Exceptions so far, and what was tried:", ""]
    for outcome in off:
        beyond = [measure for measure in QUALITY if reproduced(outcome, measure) is False]
        parts = [f"{HEADS[measure]} {signed(difference(outcome, measure))}" for measure in beyond]
        note = tried.get(outcome.benchmark.name, {}).get(outcome.row.name, "nothing yet")
        seeds = len(outcome.runs)
        lines.append(
            f"- {outcome.benchmark.name} {name_of(outcome.row)}, {seeds} seed{'s' if seeds > 1 else ''}: ours minus the"
            f" paper's: {', '.join(parts)}. Tried: {note}."
        )
    return lines


def _once_outside(close: Sequence[RowResult], tried: Mapping[str, Mapping[str, str]]) -> list[str]:
    """What was tried about cells that lie within now: a reader should know that they were looked at again."""
    notes = [(outcome, tried.get(outcome.benchmark.name, {}).get(outcome.row.name)) for outcome in close]
    told = [f"{outcome.benchmark.name} {name_of(outcome.row)}: {note}" for outcome, note in notes if note]
    return ["", f"Cells that were outside at first, and what was tried: {'; '.join(told)}."] if told else []


def read_tried(file: Path) -> dict[str, dict[str, str]]:
    """What was tried about the exceptions: `["WN18RR"]`, then `row = "words"`."""
    return tomllib.loads(file.read_text(encoding="utf-8")) if file.exists() else {}


def missing(findings: Findings, tried: Mapping[str, Mapping[str, str]]) -> list[str]:
    """A command for every row that has no run, and for main rows with too few seeds."""
    study = findings.study
    lines = []
    for (dataset, name), outcome in findings.outcomes.items():
        have = {run.seed for run in outcome.runs}
        several = name in SIX or (dataset, name) in ALSO
        wanted = [seed for seed in outcome.seeds[: WANTED_SEEDS if several else 1] if seed not in have]
        if not wanted:
            continue
        why = _few(outcome) if have else tried.get(dataset, {}).get(name, absent(dataset))
        lines.append((dataset, name, why, command(study.name, dataset, name, spans(wanted).replace("–", "-"))))
    if not lines:
        return ["None: every row has a run, and the six main rows have three seeds."]
    return table(("dataset", "row", "state", "command"), lines, left=4)


def _few(outcome: RowResult) -> str:
    told = f"{len(outcome.runs)} of {WANTED_SEEDS} seeds"
    took = outcome.moments("seconds_total")
    return f"{told}; {took.mean / 60:.1f} minutes each" if took else told


def seeds_of_short_runs(findings: Findings) -> str:
    """How many of the six main rows have three seeds, of those that train within two minutes."""
    took = [
        (outcome.moments("seconds_total"), outcome) for (_, name), outcome in findings.outcomes.items() if name in SIX
    ]
    short = [outcome for moments, outcome in took if moments and moments.mean < SHORT_SECONDS]
    done = sum(len(outcome.runs) >= WANTED_SEEDS for outcome in short)
    return (
        f"Three seeds are the aim for the six main rows where a run trains in under {SHORT_SECONDS // 60} minutes:"
        f" {done} of these {len(short)} cells have them."
    )


def origins(*studies: Findings) -> list[str]:
    """One line per run: everything that someone who doubts it needs."""
    rows = []
    for findings in studies:
        for outcome in findings.outcomes.values():
            for run in outcome.runs:
                told = run.environment
                total = run.value("seconds_total")
                rows.append(
                    (
                        findings.study.name,
                        outcome.benchmark.name,
                        outcome.row.name,
                        str(run.seed),
                        f"{run.value('mrr') or 0:.4f}",
                        seconds(total) if total is not None else "",
                        run.made_on,
                        run.run.recipe.precision,
                        str(told.get("commit") or "not kept"),
                        f"`{run.run.checksum[:12]}`",
                        f"`{run.command}`",
                    )
                )
    heads = ("study", "dataset", "row", "seed", "MRR", "seconds", "card", "products", "commit", "data", "command")
    return table(heads, rows, left=3)


def card_minutes(*studies: Findings) -> list[str]:
    """Minutes of training per cell, from the seconds in the result files."""
    rows, total = [], 0.0
    for findings in studies:
        for outcome in findings.outcomes.values():
            if not outcome.runs:
                continue
            spent = sum(outcome.values("seconds_total")) / 60
            total += spent
            epoch = outcome.moments("seconds")
            rows.append(
                (
                    findings.study.name,
                    outcome.benchmark.name,
                    outcome.row.name,
                    ", ".join(sorted({run.made_on for run in outcome.runs})),
                    str(len(outcome.runs)),
                    str(outcome.runs[0].run.recipe.epochs),
                    mean_sd("seconds", epoch),
                    f"{spent:.1f}",
                )
            )
    rows.append(("all", "", "", "", str(sum(int(row[4]) for row in rows)), "", "", f"{total:.1f}"))
    heads = ("study", "dataset", "row", "card", "runs", "epochs", "s/epoch", "minutes")
    return table(heads, rows, left=4)
