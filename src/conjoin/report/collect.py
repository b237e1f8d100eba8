"""Reads the finished runs of a study, by dataset and row. Does not import torch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conjoin.datasets.registry import dataset, is_named
from conjoin.errors import RunError
from conjoin.report.stats import Answers, Moments
from conjoin.runs.folder import RunFolder
from conjoin.runs.run import Run
from conjoin.studies.spec import Benchmark, Published, Row, Study
from conjoin.studies.status import CellStatus, cell_status, graph_facts, lacking

COUNTED = ("train", "valid", "test", "entities", "relations")
QUALITY = ("mrr", "hits1", "hits3", "hits10")
_PLACES: Mapping[str, tuple[str, ...]] = {
    "mrr": ("test", "mrr"),
    "hits1": ("test", "hits@1"),
    "hits3": ("test", "hits@3"),
    "hits10": ("test", "hits@10"),
    "last_mrr": ("last", "test", "mrr"),
    "best_mrr": ("best", "test", "mrr"),
    "seconds": ("seconds_per_epoch",),
    "seconds_last": ("seconds_last_epoch",),
    "seconds_total": ("seconds_total",),
    "parameters": ("parameters",),
    "relation_parameters": ("relation_parameters",),
    "relation_bytes": ("relation_bytes",),
    "peak_bytes": ("peak_bytes",),
    "epochs": ("epochs",),
}
"""Keys of each measure in result.json."""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A finished run of a study."""

    seed: int
    folder: RunFolder
    run: Run
    result: Mapping[str, Any]
    environment: Mapping[str, Any]
    command: str | None
    earlier: tuple[Mapping[str, Any], ...] = ()
    events: tuple[Mapping[str, Any], ...] = ()
    """One entry per epoch; empty if they cannot be read, which `Findings.flaws` then lists."""

    def value(self, measure: str) -> float | None:
        """A measure of this run; None if it was not recorded."""
        found: Any = self.result
        for key in _PLACES[measure]:
            found = found.get(key) if isinstance(found, Mapping) else None
        return None if found is None else float(found)

    @property
    def made_on(self) -> str:
        """The graphics card or processor; all of them, in order, if the run moved to another machine."""
        places = (*self.earlier, self.environment)
        names = (str(each.get("name") or each.get("device") or "unknown") for each in places)
        return ", then ".join(dict.fromkeys(names))


@dataclass(frozen=True, kw_only=True)
class RowResult:
    """All finished runs of one row on one dataset, and the published line to compare with.

    `absent` says why there are no runs; it is empty otherwise. `judged` is false if another row gets the verdict on the
    published line.
    """

    benchmark: Benchmark
    row: Row
    seeds: tuple[int, ...]
    runs: tuple[Measured, ...]
    published: Published | None
    judged: bool
    absent: str = ""

    @property
    def key(self) -> tuple[str, str]:
        return self.benchmark.name, self.row.name

    def values(self, measure: str) -> list[float]:
        """A measure of every run that has it, seed by seed."""
        return [value for run in self.runs if (value := run.value(measure)) is not None]

    def moments(self, measure: str) -> Moments | None:
        """Mean and standard deviation of a measure over the seeds; None without a run."""
        values = self.values(measure)
        return Moments.of(values) if values else None

    def answers(self) -> Answers | None:
        """Reciprocal ranks of the test questions, averaged over the seeds that stored their ranks; None if none did."""
        kept = [run.folder for run in self.runs if run.folder.holds_ranks("test")]
        return Answers.of(folder.ranks("test") for folder in kept) if kept else None


@dataclass(frozen=True, kw_only=True)
class Findings:
    """A study with its results. `graphs` has the counts of each dataset, `flaws` names runs that cannot be used."""

    study: Study
    outcomes: Mapping[tuple[str, str], RowResult]
    graphs: Mapping[str, Mapping[str, int]]
    flaws: tuple[str, ...]

    def of(self, dataset: str, row: str) -> RowResult | None:
        return self.outcomes.get((dataset, row))

    def on(self, dataset: str) -> tuple[RowResult, ...]:
        """The outcomes of a dataset in the order of the rows."""
        return tuple(outcome for (name, _), outcome in self.outcomes.items() if name == dataset)


def collect(study: Study, root: Path) -> Findings:
    """Read every finished run of the study under the results root."""
    measured: dict[tuple[str, str], list[Measured]] = {}
    failures: dict[tuple[str, str], str] = {}
    flaws: list[str] = []
    for cell in study.cells():
        key = cell.dataset, cell.row.name
        runs = measured.setdefault(key, [])
        try:
            if (each := cell_status(cell, root)).state == "done":
                runs.append(_read(each, cell.title, flaws))
            elif each.state == "failed":
                raise RunError(each.reason)
        except RunError as error:
            failures.setdefault(key, str(error))
            flaws.append(f"{cell.title}: {error}")
    flaws += _keep_one_graph(study, measured)
    ran = {name for (name, _), runs in measured.items() if runs}
    elsewhere = {name: "" if name in ran else _not_here(study, name) for name in study.datasets}
    outcomes = {
        (name, row): RowResult(
            benchmark=study.datasets[name],
            row=study.rows[row],
            seeds=study.seeds_of(study.rows[row]),
            runs=tuple(runs),
            published=study.published_for(name, study.rows[row]),
            judged=study.judged(study.rows[row]),
            absent="" if runs else _absent(elsewhere[name], failures.get((name, row), "")),
        )
        for (name, row), runs in measured.items()
    }
    graphs = {name: counts for name in study.datasets if (counts := _counts(study, root, name))}
    return Findings(study=study, outcomes=outcomes, graphs=graphs, flaws=tuple(flaws))


def _read(each: CellStatus, title: str, flaws: list[str]) -> Measured:
    """The finished run of a cell. Events that cannot be read are added to `flaws`; the run still counts."""
    settings = each.folder.settings
    run, result = each.folder.run, each.folder.result
    try:
        events = tuple(each.folder.events)
    except RunError as error:
        events = ()
        flaws.append(f"{title} has no learning curve: {error}")
    return Measured(
        seed=each.cell.seed,
        folder=each.folder,
        run=run,
        result=result,
        environment=settings.get("environment") or {},
        command=settings.get("command"),
        earlier=tuple(settings.get("earlier") or ()),
        events=events,
    )


def _absent(elsewhere: str, failure: str) -> str:
    return elsewhere or (f"failed: {failure}" if failure else "not run")


def _keep_one_graph(study: Study, measured: dict[tuple[str, str], list[Measured]]) -> list[str]:
    """Remove runs on the rarer version of a graph, because a table must not mix two versions; say which."""
    flaws = []
    for name in study.datasets:
        checksums = Counter(run.run.checksum for (data, _), runs in measured.items() if data == name for run in runs)
        if len(checksums) < 2:
            continue
        kept = max(sorted(checksums), key=lambda checksum: checksums[checksum])
        for (data, row), runs in measured.items():
            for other in [run for run in runs if data == name and run.run.checksum != kept]:
                runs.remove(other)
                flaws.append(
                    f"{name} {row} seed {other.seed} is left out: it was trained on another version of the graph"
                )
    return flaws


def _counts(study: Study, root: Path, name: str) -> Mapping[str, int]:
    """Counts of the trained graph; before the first run, of the known dataset; empty for an unknown graph."""
    if facts := graph_facts(study, name, root):
        return {key: int(facts[key]) for key in COUNTED}
    graph = study.datasets[name].graph
    if is_named(graph):
        return vars(dataset(graph).counts)
    return {}


def _not_here(study: Study, name: str) -> str:
    """Why a dataset without runs cannot be run on this machine; empty if it can."""
    if not lacking(study, name):
        return ""
    graph = study.datasets[name].graph
    reason = f"conjoin fetch {dataset(graph).name}" if is_named(graph) else f"{graph} does not exist"
    return f"data not here: {reason}"
