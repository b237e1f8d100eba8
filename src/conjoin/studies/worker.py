"""Doing a study: one process takes run after run, beside others on the same folder, until none is left."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch

from conjoin.datasets.load import load
from conjoin.datasets.registry import Counts
from conjoin.errors import ConjoinError, RunError, Stopped, UsageError
from conjoin.forms.notation import parse
from conjoin.graph.graph import Graph
from conjoin.runs.execute import ExecutionOptions, execute, warn
from conjoin.runs.folder import RunFolder
from conjoin.runtime.atomic_files import write_json, write_sealed
from conjoin.runtime.progress import Track, never, silent
from conjoin.studies.archive import run_folder
from conjoin.studies.spec import Study, StudyCell
from conjoin.studies.status import (
    CellStatus,
    cell_file,
    cell_status,
    failure,
    failure_file,
    graph_facts,
    graph_file,
    lacking,
)
from conjoin.training.loop import Epoch

AGAIN_AFTER = 1.0
"""Seconds before looking again at runs that other processes are doing."""

LATER = "stopped; the same command goes on"
TOO_LONG = "it would not end in time; the same command goes on"

End = Literal["done", "elsewhere", "failed", "no data", "stopped"]


@dataclass(frozen=True)
class CellOutcome:
    """What became of a cell: done by this process, done elsewhere meanwhile, failed, without data, or stopped."""

    cell: StudyCell
    end: End
    folder: RunFolder
    reason: str = ""


@dataclass(frozen=True)
class RunCallbacks:
    """How one run is watched."""

    track: Track = silent
    epoch: Callable[[Epoch], None] = lambda _: None


@dataclass(frozen=True, kw_only=True)
class WorkerOptions:
    """How a process does its share. Nothing here changes a number.

    `until` is a reading of `time.monotonic` after which nothing more is begun; the run under way stops there, with a
    checkpoint. So it does once `stop` says so, which is asked between steps. `seconds` estimates a run: one that would
    not end in time is not begun. `command` gives what is kept in run.json, `begin` is told what comes next and watches,
    `note` gets sentences for the person.
    """

    device: str = "cpu"
    checkpoint_epochs: int = 0
    checkpoint_minutes: float = 0.0
    retry_failed: bool = False
    until: float = math.inf
    seconds: Callable[[CellStatus], float | None] = lambda _: None
    stop: Callable[[], bool] = never
    command: Callable[[StudyCell], str | None] = lambda _: None
    begin: Callable[[CellStatus], RunCallbacks] = lambda _: RunCallbacks()
    note: Callable[[str], None] = warn


def check_forms(study: Study, cells: Iterable[StudyCell]) -> None:
    """Refuse a form or rank that cannot be, before hours are spent on the others."""
    for row, rank in {(cell.row, cell.rank) for cell in cells}:
        try:
            parse(row.form_text).check_rank(rank)
        except UsageError as error:
            raise UsageError(f"{study.file}, row {row.name}: {error}") from error


def run_cells(study: Study, cells: Iterable[StudyCell], root: Path, *, means: WorkerOptions) -> Iterator[CellOutcome]:
    """Bring the cells to their ends, in their order, each step of the iterator one of them.

    Cells that another process is doing are left for later and looked at again, until they are done there or that
    process has gone. A run that fails is recorded and the rest goes on; an error that is no fault of the run (of the
    driver, of this program) is recorded too and then raised, for it would spoil the others as well.
    """
    begun = time.time()
    graphs: dict[str, Graph | str] = {}
    waiting = list(cells)
    check_forms(study, waiting)
    while waiting:
        busy: list[StudyCell] = []
        for cell in waiting:
            outcome = _settled(cell, root, means=means, begun=begun) or _attempt(study, cell, root, graphs, means)
            if outcome is None:
                busy.append(cell)
            else:
                yield outcome
        if len(busy) == len(waiting):
            time.sleep(AGAIN_AFTER)
        waiting = busy


def _settled(cell: StudyCell, root: Path, *, means: WorkerOptions, begun: float) -> CellOutcome | None:
    """What needs no work: done already, failed and not to be tried again, or no time left."""
    now = cell_status(cell, root)
    if now.state == "done":
        now.folder.clear()
        return CellOutcome(cell, "elsewhere", now.folder)
    if now.state == "failed":
        recorded = failure_file(now.folder)
        again = means.retry_failed and recorded.exists() and recorded.stat().st_mtime < begun
        if not again:
            return CellOutcome(cell, "failed", now.folder, now.reason)
    if _enough(means):
        return CellOutcome(cell, "stopped", now.folder, LATER)
    if time.monotonic() + (means.seconds(now) or 0.0) > means.until:
        return CellOutcome(cell, "stopped", now.folder, TOO_LONG)
    return None


def _attempt(
    study: Study, cell: StudyCell, root: Path, graphs: dict[str, Graph | str], means: WorkerOptions
) -> CellOutcome | None:
    """Do one cell; None when another process is doing it."""
    folder = RunFolder(root / cell.folder)
    if cell.dataset not in graphs:
        graphs[cell.dataset] = _graph(study, cell.dataset, root)
    graph = graphs[cell.dataset]
    if isinstance(graph, str):
        return CellOutcome(cell, "no data", folder, graph)
    try:
        with folder.locked():
            if run_folder(root, cell.folder).finished:  # by another process, since it was looked at
                return CellOutcome(cell, "elsewhere", folder)
            failure_file(folder).unlink(missing_ok=True)
            write_json(cell_file(folder), cell.to_json())
        watch = means.begin(cell_status(cell, root))
        execute(cell.run(graph), graph, folder.path, conduct=_conduct(cell, folder, watch, means))
        return CellOutcome(cell, "done", folder)
    except Stopped:
        return CellOutcome(cell, "stopped", folder, LATER)
    except Exception as error:
        fault = error if isinstance(error, OSError) else error.__cause__
        if isinstance(fault, BlockingIOError):
            return None
        if isinstance(fault, OSError):
            raise _unworkable(root, fault) from error
        _record(folder, error)
        if not isinstance(error, ConjoinError | MemoryError | torch.OutOfMemoryError):
            raise
        return CellOutcome(cell, "failed", folder, failure(folder))


def _graph(study: Study, name: str, root: Path) -> Graph | str:
    """The graph of a dataset, or why it cannot be had here."""
    if reason := lacking(study, name):
        return reason
    try:
        graph = load(study.source(name), fetch=False)
    except ConjoinError as error:
        return str(error)
    facts = {
        "graph": study.datasets[name].graph,
        "checksum": graph.checksum,
        **vars(Counts.of(graph)),
    }
    path, before = graph_file(study, name, root), graph_facts(study, name, root)
    if before and before["graph"] == facts["graph"] and before["checksum"] != facts["checksum"]:
        return (
            f"the results so far are about other files of {name} than those on this machine (see {path}):"
            " use the same files, or another root (--root)"
        )
    if before != facts:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_sealed(path, facts)
        except OSError as error:
            raise _unworkable(root, error) from error
    return graph


def _unworkable(root: Path, fault: OSError) -> RunError:
    return RunError(f"{root} cannot be worked in ({fault}); the same command goes on once it can")


def _enough(means: WorkerOptions) -> bool:
    return time.monotonic() >= means.until or means.stop()


def _conduct(cell: StudyCell, folder: RunFolder, watch: RunCallbacks, means: WorkerOptions) -> ExecutionOptions:
    return ExecutionOptions(
        device=means.device,
        checkpoint_epochs=means.checkpoint_epochs,
        checkpoint_minutes=means.checkpoint_minutes,
        command=means.command(cell),
        keep_model=False,
        questions=folder.path.parents[1],
        track=watch.track,
        stop=lambda: _enough(means),
        watch=watch.epoch,
        note=means.note,
    )


def _record(folder: RunFolder, error: Exception) -> None:
    """failed.json: the reason, for `study status` and for whoever opens the folder."""
    told: dict[str, Any] = {
        "kind": type(error).__name__,
        "reason": str(error).strip() or "no reason given",
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
    write_json(failure_file(folder), told)


def measure_speed(device: str) -> float:
    """Operations per second that training may hope for: a product like its own, timed, and a third of it taken."""
    from conjoin.runtime.device import synchronize

    where = torch.device(device)
    left, right = torch.ones(256, 256, device=where), torch.ones(256, 8192, device=where)
    best = math.inf
    for _ in range(5):
        synchronize(where)
        start = time.perf_counter()
        left @ right
        synchronize(where)
        best = min(best, time.perf_counter() - start)
    return 2 * 256 * 256 * 8192 / best / 3
