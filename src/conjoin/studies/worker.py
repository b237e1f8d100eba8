"""Runs a study: a process takes one run after the other. Several processes may share a results folder."""

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

LATER = "stopped; repeat the command to continue"
TOO_LONG = "not started, because it would exceed the time limit; repeat the command to continue"

End = Literal["done", "elsewhere", "failed", "no data", "stopped"]


@dataclass(frozen=True)
class CellOutcome:
    """How a cell ended: done by this process, done by another one, failed, without data, or stopped."""

    cell: StudyCell
    end: End
    folder: RunFolder
    reason: str = ""


@dataclass(frozen=True)
class RunCallbacks:
    """Callbacks of one run: `track` wraps iterables for progress bars, `epoch` is called after each epoch."""

    track: Track = silent
    epoch: Callable[[Epoch], None] = lambda _: None


@dataclass(frozen=True, kw_only=True)
class WorkerOptions:
    """Settings of a worker process. None of them changes a result.

    At `until` (a value of `time.monotonic`) the current run writes a checkpoint and stops, and no further run starts.
    The same happens when `stop`, called between steps, returns true. `seconds` estimates the duration of a run; a run
    that would end after `until` is not started. `command` gives the command line that run.json records. `begin` is
    called before each run and returns its callbacks. `note` receives messages for the user.
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
    """Raise UsageError for an invalid form or rank, before any run starts."""
    for row, rank in {(cell.row, cell.rank) for cell in cells}:
        try:
            parse(row.form_text).check_rank(rank)
        except UsageError as error:
            raise UsageError(f"{study.file}, row {row.name}: {error}") from error


def run_cells(study: Study, cells: Iterable[StudyCell], root: Path, *, means: WorkerOptions) -> Iterator[CellOutcome]:
    """Run the cells in their order and yield the outcome of each.

    A cell that another process works on is checked again later, until that process has finished it or has exited. If a
    run fails, its error is recorded and the next run starts. An error that would also hit the other runs (of the driver
    or of this program) is recorded and then raised.
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
    """The outcome of a cell that needs no work now: done, failed without --retry-failed, or out of time."""
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
    """Run one cell; None if another process holds it."""
    folder = RunFolder(root / cell.folder)
    if cell.dataset not in graphs:
        graphs[cell.dataset] = _graph(study, cell.dataset, root)
    graph = graphs[cell.dataset]
    if isinstance(graph, str):
        return CellOutcome(cell, "no data", folder, graph)
    try:
        with folder.locked():
            if run_folder(root, cell.folder).finished:  # by another process, after cell_status read the folder
                return CellOutcome(cell, "elsewhere", folder)
            failure_file(folder).unlink(missing_ok=True)
            write_json(cell_file(folder), cell.to_json())
        watch = means.begin(cell_status(cell, root))
        execute(cell.run(graph), graph, folder.path, conduct=_conduct(cell, folder, watch, means))
        return CellOutcome(cell, "done", folder)
    except Stopped:
        return CellOutcome(cell, "stopped", folder, LATER)
    except Exception as error:
        cause = error if isinstance(error, OSError) else error.__cause__
        if isinstance(cause, BlockingIOError):
            return None
        if isinstance(cause, OSError):
            raise _unworkable(root, cause) from error
        _record(folder, error)
        if not isinstance(error, ConjoinError | MemoryError | torch.OutOfMemoryError):
            raise
        return CellOutcome(cell, "failed", folder, failure(folder))


def _graph(study: Study, name: str, root: Path) -> Graph | str:
    """The graph of a dataset, or the reason why it cannot be loaded."""
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
            f"{name} on this machine differs from the graph of the existing results (checksum in {path})."
            " Use the same files, or another results folder (--root)."
        )
    if before != facts:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_sealed(path, facts)
        except OSError as error:
            raise _unworkable(root, error) from error
    return graph


def _unworkable(root: Path, cause: OSError) -> RunError:
    return RunError(f"Cannot write to {root}: {cause}. Correct this, then repeat the command to continue.")


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
    """Write failed.json with the reason of a failure; `study status` shows it."""
    content: dict[str, Any] = {
        "kind": type(error).__name__,
        "reason": str(error).strip() or "no reason given",
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
    write_json(failure_file(folder), content)


def measure_speed(device: str) -> float:
    """Estimate the operations per second of training: a third of the speed of a matrix product of its shape."""
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
