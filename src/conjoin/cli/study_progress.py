"""Progress of a running study: bars on a terminal, lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from conjoin.cli.output import ProgressDisplay, number, say

if TYPE_CHECKING:
    from rich.progress import TaskID

    from conjoin.studies.estimate import Estimator
    from conjoin.studies.spec import Study
    from conjoin.studies.status import CellStatus
    from conjoin.studies.worker import CellOutcome, RunCallbacks
    from conjoin.training.loop import Epoch

EVERY_SECONDS = 30.0
"""Seconds between two lines about one run, if the output is not a terminal."""


class StudyProgress:
    """Shows the progress of the study and of its current run: bars on a terminal, a line per run elsewhere."""

    def __init__(self, study: Study, root: Path, wanted: Sequence[CellStatus], guess: Estimator) -> None:
        self.study, self.root, self.guess = study, root, guess
        self.left = {each.cell: each for each in wanted}
        self.total, self.watcher = len(wanted), ProgressDisplay()
        self.whole: TaskID | None = None

    @contextmanager
    def watching(self) -> Iterator[StudyProgress]:
        with self.watcher.watching():
            if self.watcher.bars is not None:
                self.whole = self.watcher.bars.add_task(self.study.name, total=self.total)
            yield self

    def begin(self, each: CellStatus) -> RunCallbacks:
        """Show that a run starts or resumes; return its callbacks."""
        from conjoin.studies.worker import RunCallbacks

        self.left[each.cell] = each
        watcher = self.watcher
        watcher.what, watcher.total, watcher.valid = each.cell.title, each.cell.recipe.epochs, ""
        if watcher.bars is not None:
            if watcher.epochs is not None:
                watcher.bars.remove_task(watcher.epochs)
            watcher.epochs = watcher.bars.add_task(
                each.cell.title, total=each.cell.recipe.epochs, completed=each.epochs
            )
        elif each.epochs:
            say(
                f"{each.cell.title} resumes from its last checkpoint; it had reached epoch {each.epochs} of"
                f" {each.cell.recipe.epochs}"
            )
        return RunCallbacks(track=watcher.track, epoch=self._epoch)

    def _epoch(self, epoch: Epoch) -> None:
        if self.watcher.bars is not None or time.monotonic() - self.watcher.spoken > EVERY_SECONDS:
            self.watcher.epoch(epoch)

    def ended(self, outcome: CellOutcome) -> None:
        """Show that a run ended, in this process or in another."""
        self.left.pop(outcome.cell, None)
        done = self.total - len(self.left)
        rest = self._rest() if self.left else ""
        if outcome.end != "stopped":
            self.watcher.line(f"{done} of {self.total}: {outcome.cell.title}: {_words(outcome)}{rest}")
        if self.watcher.bars is not None and self.whole is not None:
            self.watcher.bars.update(self.whole, completed=done, description=f"{self.study.name}{rest}")

    def _rest(self) -> str:
        from conjoin.studies.estimate import estimator

        self.guess = estimator(self.study, self.root, machine=self.guess.machine, speeds=self.guess.speeds)
        seconds = self.guess.total(self.left.values())
        return "" if seconds is None else f"; about {duration(seconds)} left"


def _words(outcome: CellOutcome) -> str:
    if outcome.end == "done":
        return f"test MRR {number(outcome.folder.result['test']['mrr'])}"
    return "done by another process" if outcome.end == "elsewhere" else f"{outcome.end}: {outcome.reason}"


def duration(seconds: float | None) -> str:
    """Seconds as text in a readable unit."""
    if seconds is None:
        return "?"
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 48 * 3600 else f"{seconds / 86400:,.0f} days"
