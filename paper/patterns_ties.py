"""The blocks of docs/ties.md on all ways to tie half of a relation; called by write_patterns_doc.py."""

from __future__ import annotations

from statistics import fmean, median

import numpy as np
from paper.patterns_shared import ALPHA, STUDIES, findings_of, half, rule, seeds_of, stated, table
from paper.predictions import Predictions
from paper.row_ranking import RankedRow, ranked
from paper.tie_orbits import sees_small_entities

from conjoin.datasets.load import load
from conjoin.errors import ConjoinError
from conjoin.forms.five_star import FiveStar
from conjoin.forms.notation import parse
from conjoin.forms.ties import Tie
from conjoin.graph.graph import Graph
from conjoin.report.collect import Findings, RowResult
from conjoin.report.formatting import signed
from conjoin.runtime.atomic_files import read_json, write_json
from conjoin.studies.parse import read_study
from conjoin.studies.spec import Row

PAPER = "5star-conj"
POPULARITY = STUDIES / "results" / "ties" / "popularity.json"
LATER = {
    "WN18RR": (
        "b_a.d_minus_a",
        "b_minus_a.c_a",
        "b_minus_conj_a.c_conj_a",
        "c_a.d_conj_a",
        "c_a.d_minus_a",
        "c_b.d_b",
        "c_b.d_conj_b",
        "c_conj_a.d_a",
        "c_conj_a.d_conj_a",
        "c_conj_b.d_b",
        "c_conj_b.d_conj_b",
        "c_minus_b.d_b",
        "c_minus_b.d_conj_b",
    ),
    "FB15K-237": ("c_a.d_minus_a", "c_minus_b.d_b", "c_minus_b.d_conj_b"),
}
"""Rows that had no results when the rule about d was written down: they are its test."""
KINDS = {"main": "pairs", "ablation": "three share", "control": "not tied"}


def popularity(graph: Graph) -> float:
    """Test MRR of answering with the entities that are most often tails of the relation in train, whoever asks.

    Filtered as all ranks; equal counts share their places.
    """
    counts = np.zeros((2 * graph.n_relations, graph.n_entities))
    for _, relation, tail in graph.queries("train"):
        counts[relation, tail] += 1
    places = []
    for head, relation, tail in graph.queries("test"):
        count, known = counts[relation], graph.known.tails_of(head, relation)
        better, tied = count > count[tail], count == count[tail]
        ahead = better.sum() - better[known].sum() + (tied.sum() - tied[known].sum()) / 2
        places.append(1 / (1 + ahead))
    return fmean(places)


def measure() -> None:
    """Keep the popularity of every graph of the two studies that is on this machine."""
    kept = read_json(POPULARITY) if POPULARITY.exists() else {}
    for name in ("ties", "ties-penalty"):
        study = read_study(STUDIES / f"{name}.toml")
        for graph in {dataset.graph for dataset in study.datasets.values()}:
            try:
                kept[graph] = popularity(load(graph, fetch=False))
            except ConjoinError:
                continue
    write_json(POPULARITY, kept)


def _sees(row: Row) -> bool:
    form = parse(row.form_text)
    return isinstance(form, FiveStar) and sees_small_entities(form)


def _tied(outcome: RowResult) -> bool:
    return outcome.row.group != "control"


def _places(findings: Findings) -> dict[str, dict[str, RankedRow]]:
    """Dataset to row to its place among the ties that were run there."""
    return {
        dataset: {e.outcome.row.name: e for e in ranked(findings, dataset, reference=PAPER, competes=_tied)}
        for dataset in findings.study.datasets
    }


def _mean_places(findings: Findings, places: dict[str, dict[str, RankedRow]]) -> dict[str, float]:
    """Row to its mean place among the ties that were run on every dataset."""
    shared = [name for name in findings.study.rows if all(name in found for found in places.values())]
    orders = [sorted(shared, key=lambda name, found=found: found[name].place) for found in places.values()]  # type: ignore[misc]
    return {name: fmean(1 + order.index(name) for order in orders) for name in shared}


def _decided(each: RankedRow | None) -> bool:
    return each is not None and each.holm is not None and each.holm < ALPHA


def _better(each: RankedRow | None) -> bool:
    return each is not None and _decided(each) and each.against is not None and each.against.difference > 0


def answer() -> str:
    """The answer to whether the paper's choice is best."""
    findings = findings_of("ties")
    places = _places(findings)
    return "\n".join(_answer(findings, places, _mean_places(findings, places)))


def ties() -> str:
    """The answer, and one table for both datasets."""
    findings = findings_of("ties")
    places = _places(findings)
    mean = _mean_places(findings, places)
    lines = [*_answer(findings, places, mean), "", _table(findings, places, mean)]
    absent = [
        f"{sum(not outcome.runs for outcome in findings.on(d))} of {len(findings.on(d))} rows on {d}" for d in places
    ]
    if any(not outcome.runs for d in places for outcome in findings.on(d)):
        lines += ["", f"Not run yet: {' and '.join(absent)}; their cells are empty."]
    return "\n".join(lines)


def _answer(findings: Findings, places: dict[str, dict[str, RankedRow]], mean: dict[str, float]) -> list[str]:
    labels = {row.name: row.label for row in findings.study.rows.values()}
    if PAPER not in mean:
        return ["The paper's choice has not been run on every dataset yet."]
    both = sorted(
        (name for name in mean if all(_better(found[name]) for found in places.values())), key=mean.__getitem__
    )
    by_mean = sorted(mean, key=lambda name: mean[name])
    rank = findings.study.cells()[0].rank
    where = " and ".join(f"number {found[PAPER].place} of {len(found)} on {d}" for d, found in places.items())
    lines = [
        f"**{f'Not at rank {rank}' if both else 'As far as was run, yes'}.** 5★ε is {where}, and number"
        f" {1 + by_mean.index(PAPER)} by mean place of the {len(mean)} ties that were run on both."
    ]
    if both:
        told = [
            f"{labels[name]} ("
            + ", ".join(f"{d} {signed(_difference(found[name]), decimals=3)}" for d, found in places.items())
            + ")"
            for name in both
        ]
        lines[0] += f" Better than 5★ε on both after Holm's correction: {'; '.join(told)}."
    else:
        lines[0] += " None is better on both datasets after Holm's correction."
    lines[0] += (
        f" {seeds_of(findings)} per row, so the tests say something about other questions, not about other seeds."
    )
    paper = findings_of("paper")
    lines[0] += "".join(_full_size(paper, name, labels[name], list(places)) for name in both)
    return lines


def _full_size(paper: Findings, row: str, label: str, datasets: list[str]) -> str:
    """Whether a tie that is better here is better with the paper's rank and epochs too, where that was run."""
    found = {}
    for dataset in datasets:
        outcomes = [paper.of(dataset, name) for name in (row, PAPER)]
        ours, theirs = (each.moments("mrr") if each else None for each in outcomes)
        if ours and theirs:
            found[dataset] = ours.mean - theirs.mean
    if not found:
        return ""
    told = ", ".join(f"{dataset} {signed(apart, decimals=3)}" for dataset, apart in found.items())
    kept = "the order is kept" if min(found.values()) > 0 else "the order is not kept"
    return f" With the paper's rank and epochs {label} minus 5★ε is {told}: {kept}."


def _difference(each: RankedRow) -> float:
    return each.against.difference if each.against else 0.0


def _table(findings: Findings, places: dict[str, dict[str, RankedRow]], mean: dict[str, float]) -> str:
    everything = {d: {e.outcome.row.name: e for e in ranked(findings, d, reference=PAPER)} for d in places}
    rows = [row for row in findings.study.rows.values() if any(row.name in found for found in everything.values())]
    rows.sort(key=lambda row: -fmean(found[row.name].mrr for found in everything.values() if row.name in found))
    rows.sort(key=lambda row: mean.get(row.name, 1e9))
    lines = []
    for row in rows:
        cells = []
        for dataset, found in everything.items():
            each, own = found.get(row.name), places[dataset].get(row.name)
            cells += ["", ""] if each is None else [f"{each.mrr:.3f}", _less(own or each)]
        lines.append([row.label, KINDS[row.group], "yes" if _sees(row) else "no", *cells, _number(mean.get(row.name))])
    heads = [head for dataset in places for head in (dataset, "minus 5★ε")]
    return table(["ties", "kind", "d free of b, c", *heads, "mean place"], lines, left=3)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:g}"


def _less(each: RankedRow) -> str:
    if each.against is None:
        return ""
    text = f"{signed(each.against.difference, decimals=3)} ± {half(each.against.interval)}"
    return f"**{text}**" if _decided(each) else text


def algebra() -> str:
    """Do the two kinds of ties fall apart as the algebra says? Names exceptions, and what is expected of the rest."""
    findings = findings_of("ties")
    known = read_json(POPULARITY)
    lines = []
    for dataset, found in _places(findings).items():
        sees = [each for each in found.values() if _sees(each.outcome.row)]
        blind = [each for each in found.values() if not _sees(each.outcome.row)]
        base = known.get(findings.study.datasets[dataset].graph)
        if not sees or not blind:
            continue
        low, high = min(each.mrr for each in sees), max(each.mrr for each in blind)
        wrong = [e.outcome.row.label for e in sees if e.mrr <= high] if low <= high else []
        lines.append(
            f"- {dataset}: the {len(sees)} ties with d free have MRR {low:.3f} to {max(e.mrr for e in sees):.3f}, the"
            f" {len(blind)} others {min(e.mrr for e in blind):.3f} to {high:.3f}"
            + (f"; counting tails alone gives {base:.3f}" if base is not None else "")
            + ("." if not wrong else f". Not above all others: {'; '.join(wrong)}.")
            + (" The two kinds do not overlap." if low > high else "")
        )
        open_ = [o.row for o in findings.on(dataset) if not o.runs and o.row.group != "control"]
        if open_:
            free = [row.label for row in open_ if _sees(row)]
            lines[-1] += (
                f" Expected of the {len(open_)} not run yet: {'; '.join(free) or 'none'} with the first kind, the"
                f" {len(open_) - len(free)} others with the second."
            )
    return "\n".join(lines)


def tested() -> str:
    """Do the rows that came later fall where the rule puts them: with the earlier ones of their kind?"""
    lines = []
    for dataset, found in _places(findings_of("ties")).items():
        later = [each for name in LATER.get(dataset, ()) if (each := found.get(name))]
        known = [each for name, each in found.items() if name not in LATER.get(dataset, ())]
        low = min((e.mrr for e in known if _sees(e.outcome.row)), default=0.0)
        high = max((e.mrr for e in known if not _sees(e.outcome.row)), default=1.0)
        right = [e for e in later if (e.mrr > high if _sees(e.outcome.row) else e.mrr < low)]
        wrong = [f"{e.outcome.row.label} ({e.mrr:.3f})" for e in later if e not in right]
        said = f"{len(right)} of the {len(later)} later rows have an MRR in the range of their kind"
        first = [f"{e.outcome.row.label} {e.mrr:.3f}" for e in later if _sees(e.outcome.row)]
        rest = [e.mrr for e in later if not _sees(e.outcome.row)]
        numbers = [*first, *([f"{len(rest)} others {min(rest):.3f} to {max(rest):.3f}"] if rest else [])]
        lines.append(f"- {dataset}: {said} ({'; '.join(numbers)})." + (f" Not: {'; '.join(wrong)}." if wrong else ""))
    return "\n".join(lines)


def turns() -> str:
    """MRR of the ties that see small entities, by what ties c to b."""
    lines = []
    for dataset, found in _places(findings_of("ties")).items():
        kinds: dict[str, list[float]] = {"c = ±conj(b)": [], "c = b": [], "c = −b": []}
        for each in found.values():
            if _sees(each.outcome.row):
                kinds[_between(each.outcome.row)].append(each.mrr)
        told = [f"{kind} {min(mrrs):.3f} to {max(mrrs):.3f} ({len(mrrs)})" for kind, mrrs in kinds.items() if mrrs]
        lines.append(f"- {dataset}: MRR with {', '.join(told)}.")
    return "\n".join(lines)


def _between(row: Row) -> str:
    form = parse(row.form_text)
    assert isinstance(form, FiveStar)
    ties = form.ties
    b, c = (ties.get(slot, Tie(slot)) for slot in ("b", "c"))
    if b.conjugated != c.conjugated:
        return "c = ±conj(b)"
    return "c = b" if b.negated == c.negated else "c = −b"


def penalty() -> str:
    """The predictions about a growing penalty, and what became of them."""
    findings = findings_of("ties-penalty")
    asked = Predictions.read(STUDIES / "ties-penalty-predictions.toml", findings.study)
    outcomes = asked.judge(findings)
    names = list(findings.study.datasets)
    labels = {row.name: row.label for row in findings.study.rows.values()}
    rows = []
    for row in sorted(findings.study.rows.values(), key=lambda row: not _sees(row)):
        found = [findings.of(name, row.name) for name in names]
        means = [outcome.moments("mrr") if outcome else None for outcome in found]
        rows.append([row.label, "yes" if _sees(row) else "no", *(f"{m.mean:.3f}" if m else "-" for m in means)])
    base = read_json(POPULARITY).get("atlas")
    rows.append(["counting tails alone", "", *([f"{base:.3f}" if base is not None else "-"] * len(names))])
    lines = [table(["test MRR on the atlas", "d free of b, c", *map(_strength, names)], rows, left=2)]
    lines += ["", *(_ranges(findings, name) for name in names)]
    for prediction in asked.predictions:
        mine = [outcome for outcome in outcomes if outcome.prediction == prediction]
        fell = [
            f"({labels[o.claim.a]}) {'>' if o.claim.gain else '='} ({labels[o.claim.b]}) at"
            f" {_strength(o.claim.dataset)}, {signed(o.paired.difference, decimals=3)}, {o.verdict}"
            for o in mine
            if o.paired and o.verdict != "confirmed"
        ]
        lines += ["", stated(prediction, mine)]
        lines += ["", "Not confirmed:", "", *(f"- {each}" for each in fell)] if fell else []
    return "\n".join([*lines, "", f"{rule(asked.margin)} {seeds_of(findings)} per row."])


def _strength(dataset: str) -> str:
    return dataset.replace("n3-", "N3 ")


def _ranges(findings: Findings, dataset: str) -> str:
    """The MRR of both kinds of ties at one strength of the penalty."""
    told = []
    for words, sees in (("d free", True), ("others", False)):
        mine = [o for o in findings.on(dataset) if _sees(o.row) == sees]
        mrrs = [moments.mean for o in mine if (moments := o.moments("mrr"))]
        if mrrs:
            told.append(f"{words} {min(mrrs):.3f} to {max(mrrs):.3f}, median {median(mrrs):.3f}")
    return f"- {_strength(dataset)}: {'; '.join(told) or 'not run'}."
