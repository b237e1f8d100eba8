"""The tables of a report as values: the content of each cell, without its markup."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from conjoin.report.best import UNPUBLISHED, best_rows, difference, hits_verdict, published_value, verdict
from conjoin.report.collect import COUNTED, QUALITY, Findings, Measured, RowResult
from conjoin.report.document import Entry, ReportTable, TableColumn
from conjoin.report.formatting import NOTHING, format_count, mean_sd, seconds, signed, size
from conjoin.studies.spec import Row

TITLES = {"main": "Main results", "ablation": "Ablations", "control": "Controls"}
HEADS = {"seconds": "s/epoch", "mrr": "MRR", "hits1": "H@1", "hits3": "H@3", "hits10": "H@10"}
OTHER = {"last": ("best_mrr", "MRR, best on valid"), "best": ("last_mrr", "MRR, last epoch")}
"""For each kind of reported weights, the measure and title of the column for the other kind."""


def datasets_table(findings: Findings) -> ReportTable:
    """The paper's table of datasets: triples per split, entities, relations, examples (both directions of train)."""
    rows = []
    for name, benchmark in findings.study.datasets.items():
        counts = dict(findings.graphs.get(name, {}))
        if counts:
            counts["examples"] = 2 * counts["train"]
        entries = [Entry(name, note=f"{benchmark.graph} used instead" if benchmark.stand_in else "")]
        for key in (*COUNTED, "examples"):
            printed = benchmark.published_counts.get(key)
            differs = printed is not None and printed != counts.get(key)
            text = f"{counts[key]:,}" if key in counts else NOTHING
            entries.append(Entry(text, note=f"paper {printed:,}" if differs else ""))
        rows.append(tuple(entries))
    heads = ("#Train", "#Valid", "#Test", "Entities", "Relations", "Examples")
    return ReportTable(
        title="Datasets",
        columns=(TableColumn("Dataset", "left"), *(TableColumn(head) for head in heads)),
        rows=tuple(rows),
        notes=("Counts of the graphs that were trained on; before the first run, counts of the published files.",),
    )


def results_table(findings: Findings, dataset: str, group: str) -> ReportTable:
    """Time and quality of a group's rows on a dataset, with the published values."""
    study = findings.study
    outcomes = [o for row in study.rows_in(group) if (o := findings.of(dataset, row.name)) is not None]
    measures = ("seconds", *QUALITY)
    bold = {measure: best_rows(findings, dataset, measure) for measure in measures}
    other, other_title = OTHER[study.weights]
    beside = any(outcome.moments(other) for outcome in outcomes)
    printed = any(published_value(outcome, "mrr") is not None for outcome in outcomes)
    words = [verdict(findings, outcome) for outcome in outcomes]
    judged = any(word != UNPUBLISHED for word in words)
    rows = [
        (
            name_entry(outcome.row),
            Entry(f"{len(outcome.runs)}/{len(outcome.seeds)}"),
            *(Entry(mean_sd(m, outcome.moments(m)), bold=outcome.row.name in bold[m]) for m in measures),
            *([Entry(mean_sd("mrr", outcome.moments(other)))] if beside else []),
            *([Entry(_plain(published_value(outcome, "mrr"))), Entry(signed(difference(outcome, "mrr")))] * printed),
            *([Entry(word)] * judged),
        )
        for outcome, word in zip(outcomes, words, strict=True)
    ]
    return ReportTable(
        title=f"{TITLES[group]} on {place(findings, dataset)}",
        columns=(
            TableColumn("Model", "left"),
            TableColumn("Seeds"),
            *(TableColumn(HEADS[measure]) for measure in measures),
            *([TableColumn(other_title)] if beside else []),
            *([TableColumn("Paper, MRR"), TableColumn("Difference")] * printed),
            *([TableColumn("Verdict", "words")] * judged),
        ),
        rows=tuple(rows),
        notes=(
            *(f"{outcome.row.label}: {outcome.row.note}." for outcome in outcomes if outcome.row.note),
            *_several_machines(outcomes),
        ),
    )


def agreement_table(findings: Findings, outcomes: Sequence[RowResult]) -> ReportTable:
    """Comparison with all printed numbers: differences of MRR and Hits@n, and the two times."""
    rows = [
        (
            Entry(outcome.benchmark.name),
            name_entry(outcome.row),
            *(Entry(signed(difference(outcome, measure))) for measure in QUALITY),
            Entry(mean_sd("seconds", outcome.moments("seconds"))),
            Entry(_times(outcome)),
            Entry(verdict(findings, outcome)),
            Entry(hits_verdict(outcome) or NOTHING),
        )
        for outcome in outcomes
    ]
    return ReportTable(
        title="Against the printed numbers",
        columns=(
            TableColumn("Dataset", "left"),
            TableColumn("Model", "left"),
            *(TableColumn(f"{HEADS[measure]} − paper") for measure in QUALITY),
            TableColumn("s/epoch"),
            TableColumn("Paper, s/epoch"),
            TableColumn("Verdict on MRR", "words"),
            TableColumn("Verdict on Hits@n", "words"),
        ),
        rows=tuple(rows),
        notes=(_cards(findings),),
    )


def costs_table(findings: Findings, dataset: str) -> ReportTable:
    """Cost of each row on a dataset: stored numbers, their bytes, time and memory."""
    rows = []
    for outcome in findings.on(dataset):
        stored, relations = outcome.moments("parameters"), outcome.moments("relation_parameters")
        share = f"{relations.mean / stored.mean:.1%}".replace("%", " %") if stored and relations else NOTHING
        rows.append(
            (
                name_entry(outcome.row),
                Entry(format_count(stored)),
                Entry(format_count(relations)),
                Entry(share),
                Entry(size(outcome.moments("relation_bytes"))),
                Entry(mean_sd("seconds", outcome.moments("seconds"))),
                Entry(mean_sd("seconds", outcome.moments("seconds_last"))),
                Entry(format_count(outcome.moments("epochs"))),
                Entry(size(outcome.moments("peak_bytes"))),
            )
        )
    heads = (
        "Parameters",
        "Relation parameters",
        "Share",
        "Relation bytes",
        "s/epoch",
        "s, last epoch",
        "Epochs",
        "Peak memory",
    )
    return ReportTable(
        title=f"Costs on {place(findings, dataset)}",
        columns=(TableColumn("Model", "left"), *(TableColumn(head) for head in heads)),
        rows=tuple(rows),
    )


def origins_table(outcomes: Iterable[RowResult]) -> ReportTable:
    """Origin of each number: settings, seeds, machine, versions and the graph's checksum."""
    rows = []
    for outcome in outcomes:
        if not outcome.runs:
            continue
        run = outcome.runs[0].run
        recipe = run.recipe
        rows.append(
            (
                Entry(outcome.benchmark.name),
                name_entry(outcome.row),
                Entry(run.form),
                *(Entry(f"{value:g}") for value in (run.rank, recipe.epochs, recipe.batch, recipe.lr, recipe.n3)),
                Entry(recipe.precision),
                Entry(spans([each.seed for each in outcome.runs])),
                Entry(", ".join(sorted({each.made_on for each in outcome.runs}))),
                Entry(_all(outcome.runs, "conjoin", "commit")),
                Entry(_all(outcome.runs, "torch")),
                Entry(run.checksum[:12]),
            )
        )
    heads = ("Rank", "Epochs", "Batch", "lr", "N3", "Precision", "Seeds")
    return ReportTable(
        title="Where each number comes from",
        columns=(
            TableColumn("Dataset", "left"),
            TableColumn("Model", "left"),
            TableColumn("Form", "words"),
            *(TableColumn(head) for head in heads),
            TableColumn("Made on", "words"),
            *(TableColumn(head, "left") for head in ("Conjoin", "torch", "Graph")),
        ),
        rows=tuple(rows),
        notes=("Each run's folder records these settings and the command that repeats the run.",),
    )


def spans(seeds: Sequence[int]) -> str:
    """Seeds as text with ranges: 0–4, 7."""
    parts: list[list[int]] = []
    for seed in sorted(seeds):
        if parts and parts[-1][-1] == seed - 1:
            parts[-1][1:] = [seed]
        else:
            parts.append([seed])
    return ", ".join("–".join(map(str, part)) for part in parts)


def name_entry(row: Row) -> Entry:
    """The table cell with a row's name."""
    return Entry(row.label, latex=row.latex)


def place(findings: Findings, dataset: str) -> str:
    """The name of a dataset for titles, with the graph used instead, if there is one."""
    benchmark = findings.study.datasets[dataset]
    return f"{dataset} (here {benchmark.graph})" if benchmark.stand_in else dataset


def _plain(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.3f}"


def _times(outcome: RowResult) -> str:
    if outcome.published is None or outcome.published.seconds is None:
        return NOTHING
    deviation = outcome.published.seconds_pm
    text = seconds(outcome.published.seconds) if outcome.published.seconds % 1 else f"{outcome.published.seconds:.0f}"
    return text if deviation is None else f"{text} ± {deviation:g}"


def _cards(findings: Findings) -> str:
    cards: dict[str, list[str]] = {}
    for name, benchmark in findings.study.datasets.items():
        if benchmark.published_on:
            cards.setdefault(benchmark.published_on, []).append(name)
    ours = sorted({run.made_on for outcome in findings.outcomes.values() for run in outcome.runs})
    theirs = "; ".join(f"{card} ({', '.join(names)})" for card, names in cards.items())
    machines = f"Paper: {theirs or 'not stated'}. Here: {', '.join(ours) or 'none yet'}."
    return f"The times come from different machines. {machines}"


def _several_machines(outcomes: Iterable[RowResult]) -> Iterator[str]:
    machines = sorted({run.made_on for outcome in outcomes for run in outcome.runs})
    if len(machines) > 1:
        yield f"The runs used different machines ({', '.join(machines)}), so their times do not compare."


def _all(runs: Sequence[Measured], *keys: str) -> str:
    """The different values of these keys of the environment in run.json, over all runs."""
    found = {" ".join(str(run.environment[key]) for key in keys if run.environment.get(key)) for run in runs}
    return ", ".join(sorted(word for word in found if word)) or NOTHING
