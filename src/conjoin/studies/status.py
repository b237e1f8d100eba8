"""The state of each run of a study: done, running, half done, failed or missing. Does not import torch."""

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
    """A cell and its state. `reason` explains a failure or missing data; `epochs` counts the finished epochs."""

    cell: StudyCell
    state: State
    folder: RunFolder
    reason: str = ""
    epochs: int = 0


def cell_file(folder: RunFolder) -> Path:
    """The file that names study, dataset, row and seed of a run folder."""
    return folder.path / "cell.json"


def failure_file(folder: RunFolder) -> Path:
    """The file with the reason of a failure; removed when the run is tried again."""
    return folder.path / "failed.json"


def graph_file(study: Study, name: str, root: Path) -> Path:
    """The file with counts and checksum of the graph on which a dataset's runs were trained."""
    return root / study.name / name / "graph.json"


def study_status(study: Study, root: Path, *, cells: Iterable[StudyCell] | None = None) -> list[CellStatus]:
    """The state of every cell, in the study's order. If data are missing, `reason` says how to get them."""
    chosen = study.cells() if cells is None else list(cells)
    absent = {name: reason for name in {cell.dataset for cell in chosen} if (reason := lacking(study, name))}
    return [_placed(cell_status(cell, root), absent) for cell in chosen]


def count_states(standings: Iterable[CellStatus]) -> dict[State, int]:
    """How many cells are in each state."""
    counts = Counter(each.state for each in standings)
    return {state: counts[state] for state in STATES}


def finished(study: Study, root: Path) -> Iterator[tuple[StudyCell, RunFolder]]:
    """The finished runs whose folders match their cells."""
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
            raise RunError("fields of a graph are missing or wrong")
    except RunError as error:
        raise RunError(f"{path} is damaged. Delete it; the next run writes it again.") from error
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
        record = read_json(failure_file(folder))
        return f"{record['kind']}: {record['reason']}"
    except (RunError, KeyError, TypeError):
        return "failed.json is damaged. Use --retry-failed to try the run again."


def lacking(study: Study, name: str) -> str:
    """The reason why a dataset's graph cannot be loaded and how to get it; empty if it can be loaded."""
    graph = study.source(name)
    if is_synthetic(graph):
        return ""
    if is_named(graph):
        record = dataset(graph)
        try:
            here = locate(record.name) is not None
        except ConjoinError as error:
            return str(error)
        return "" if here else f"{record.title} is not on this machine. Run `conjoin fetch {record.name}`."
    return "" if Path(graph).exists() else f"{graph} does not exist. Put the graph there, or correct {study.file}."


def _placed(each: CellStatus, absent: Mapping[str, str]) -> CellStatus:
    if each.state not in ("missing", "half done") or each.cell.dataset not in absent:
        return each
    reason = absent[each.cell.dataset]
    return CellStatus(cell=each.cell, state="no data", folder=each.folder, reason=reason, epochs=each.epochs)


def _unfit(cell: StudyCell, folder: RunFolder) -> str:
    """The reason why a finished folder does not count for its cell; empty if it does."""
    try:
        name = cell_file(folder).name
        content = folder.record(name) if folder.holds(name) else cell.to_json()
        difference = cell.difference(folder.run, content)
    except (RunError, AttributeError) as error:
        return str(error)
    return f"{folder.path} holds another run: {difference}. Move the folder away." if difference else ""
