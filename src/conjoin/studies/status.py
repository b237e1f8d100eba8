"""Where a study stands: which of its runs are done, running, half done, failed, missing. Reads folders, not torch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from conjoin.datasets.load import locate
from conjoin.datasets.registry import dataset, is_named
from conjoin.errors import ConjoinError, RunError
from conjoin.graph.synthetic import is_synthetic
from conjoin.runs.folder import RunFolder
from conjoin.runtime.atomic_files import read_json, record, sealed_record
from conjoin.runtime.file_locks import is_held
from conjoin.studies.archive import run_folder, shared_file
from conjoin.studies.spec import Study, StudyCell

State = Literal["done", "running", "half done", "failed", "missing", "no data"]
STATES: tuple[State, ...] = ("done", "running", "half done", "failed", "missing", "no data")
FACT_KINDS = {"graph": str, "checksum": str, **dict.fromkeys(("train", "valid", "test", "entities", "relations"), int)}
GRAPH_FACTS = {*FACT_KINDS}
OPEN: tuple[State, ...] = ("missing", "half done", "running")


@dataclass(frozen=True, kw_only=True)
class CellStatus:
    """A cell and its state; `reason` says why where that is a question, `epochs` how far it has come."""

    cell: StudyCell
    state: State
    folder: RunFolder
    reason: str = ""
    epochs: int = 0


def cell_file(folder: RunFolder) -> Path:
    """Study, dataset, row and seed of a run folder."""
    return folder.path / "cell.json"


def failure_file(folder: RunFolder) -> Path:
    """Why a run failed; gone when it is tried again."""
    return folder.path / "failed.json"


def graph_file(study: Study, name: str, root: Path) -> Path:
    """Counts and checksum of the graph that a dataset's results are about."""
    return root / study.name / name / "graph.json"


def study_status(study: Study, root: Path, *, cells: Iterable[StudyCell] | None = None) -> list[CellStatus]:
    """Where every cell stands, in the study's order. Cells whose data are not here say what would bring them."""
    chosen = study.cells() if cells is None else list(cells)
    absent = {name: reason for name in {cell.dataset for cell in chosen} if (reason := lacking(study, name))}
    return [_placed(cell_status(cell, root), absent) for cell in chosen]


def count_states(standings: Iterable[CellStatus]) -> dict[State, int]:
    """How many cells are in each state."""
    counts = Counter(each.state for each in standings)
    return {state: counts[state] for state in STATES}


def finished(study: Study, root: Path) -> Iterator[tuple[StudyCell, RunFolder]]:
    """The runs that are done and whose folders really are about their cells: what a report rests on."""
    for cell in study.cells():
        if (each := cell_status(cell, root)).state == "done":
            yield cell, each.folder


def graph_facts(study: Study, name: str, root: Path) -> Mapping[str, Any]:
    """graph.json of a dataset: graph, checksum, train, valid, test, entities, relations; empty before the first run."""
    path = graph_file(study, name, root)
    content = shared_file(path)
    if content is None:
        return {}
    facts = record(content, path)
    if isinstance(facts, dict) and set(facts) == GRAPH_FACTS:  # written before these files carried a checksum
        return facts
    try:
        facts = sealed_record(content, path)
        if set(facts) != GRAPH_FACTS or any(type(facts[name]) is not kind for name, kind in FACT_KINDS.items()):
            raise RunError("it does not describe a graph")
    except RunError as error:
        raise RunError(f"{path} is damaged: delete it, the next run writes it again") from error
    return facts


def cell_status(cell: StudyCell, root: Path) -> CellStatus:
    """Where one cell stands, whether or not its data are here. A run in the study's archive is done."""
    folder = run_folder(root, cell.folder)
    if folder.finished:
        reason = _unfit(cell, folder)
        state: State = "failed" if reason else "done"
        return CellStatus(cell=cell, state=state, folder=folder, reason=reason, epochs=cell.recipe.epochs)
    running = is_held(folder.lock_file)
    try:
        epochs = len(folder.events)
    except RunError as error:
        return CellStatus(cell=cell, state="running" if running else "failed", folder=folder, reason=str(error))
    if running:
        return CellStatus(cell=cell, state="running", folder=folder, epochs=epochs)
    if failure_file(folder).exists():
        return CellStatus(cell=cell, state="failed", folder=folder, reason=failure(folder), epochs=epochs)
    half = folder.checkpoint_file.exists()
    return CellStatus(cell=cell, state="half done" if half else "missing", folder=folder, epochs=epochs if half else 0)


def failure(folder: RunFolder) -> str:
    """The reason in failed.json."""
    try:
        told = read_json(failure_file(folder))
        return f"{told['kind']}: {told['reason']}"
    except (RunError, KeyError, TypeError):
        return "failed.json is damaged; --retry-failed tries again"


def lacking(study: Study, name: str) -> str:
    """Why a dataset's graph cannot be loaded on this machine and what would change that; empty when it is here."""
    graph = study.source(name)
    if is_synthetic(graph):
        return ""
    if is_named(graph):
        record = dataset(graph)
        try:
            here = locate(record.name) is not None
        except ConjoinError as error:
            return str(error)
        return "" if here else f"{record.title} is not on this machine: conjoin fetch {record.name}"
    return "" if Path(graph).exists() else f"{graph} does not exist: put the graph there, or correct {study.file}"


def _placed(each: CellStatus, absent: Mapping[str, str]) -> CellStatus:
    if each.state not in ("missing", "half done") or each.cell.dataset not in absent:
        return each
    reason = absent[each.cell.dataset]
    return CellStatus(cell=each.cell, state="no data", folder=each.folder, reason=reason, epochs=each.epochs)


def _unfit(cell: StudyCell, folder: RunFolder) -> str:
    """Why a finished folder cannot be counted for its cell; empty when it can."""
    try:
        name = cell_file(folder).name
        told = folder.record(name) if folder.holds(name) else cell.to_json()
        difference = cell.difference(folder.run, told)
    except (RunError, AttributeError) as error:
        return str(error)
    return f"{folder.path} is about another run: {difference}; move it away" if difference else ""
