"""What a person sees. Results go to standard output, everything else to standard error."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table

T = TypeVar("T")
EVERY_SECONDS = 5.0
"""Plain lines, where there is no terminal, come no more often than this."""

messages = Console(stderr=True, highlight=False)


def say(text: str) -> None:
    """A message to the person, never part of the result."""
    messages.print(text, markup=False, soft_wrap=True)


def emit(value: Any) -> None:
    """The one JSON object of `--json`."""
    print(json.dumps(value, ensure_ascii=False, allow_nan=False))


def show(text: str = "") -> None:
    """A line of the result."""
    print(text)


def show_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], *, left: int = 1) -> None:
    """A table of the result: the first `left` columns are words, the others numbers."""
    table = Table(title=title, title_justify="left", title_style="bold", header_style="bold")
    for place, column in enumerate(columns):
        table.add_column(column, justify="left" if place < left else "right", no_wrap=place >= left)
    for row in rows:
        table.add_row(*(str(cell).replace("[", r"\[") for cell in row))
    console = Console(highlight=False)
    wide = console if console.is_terminal else Console(highlight=False, width=160)
    wide.print(table)


class Watcher:
    """Progress bars on a terminal, now and then a line elsewhere."""

    def __init__(self, total_epochs: int = 0, what: str = "") -> None:
        self.total, self.what = total_epochs, what
        self.spoken = time.monotonic()
        self.bars: Progress | None = None
        self.epochs: TaskID | None = None

    @contextmanager
    def watching(self) -> Iterator[Watcher]:
        if not messages.is_terminal:
            yield self
            return
        shape = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(elapsed_when_finished=True),
        )
        with Progress(*shape, console=messages, transient=True) as self.bars:
            if self.total:
                self.epochs = self.bars.add_task(self.what, total=self.total)
            yield self

    def track(self, steps: Iterable[T], what: str, total: int | None) -> Iterator[T]:
        """The library's `Track`."""
        if self.bars is None:
            yield from self._told(steps, what, total)
            return
        task = self.bars.add_task(what, total=total)
        try:
            for step in steps:
                yield step
                self.bars.advance(task)
        finally:
            self.bars.remove_task(task)

    def _told(self, steps: Iterable[T], what: str, total: int | None) -> Iterator[T]:
        for done, step in enumerate(steps, start=1):
            yield step
            if time.monotonic() - self.spoken > EVERY_SECONDS:
                self.line(f"{what}: {done}" + (f" of {total}" if total else ""))

    def epoch(self, epoch: Any) -> None:
        """An epoch has ended."""
        words = f"loss {epoch.loss:.4f}  penalty {epoch.penalty:.4f}  {epoch.seconds:.2f} s"
        if epoch.valid is not None:
            words += f"  valid MRR {epoch.valid['mrr']:.4f}" + (" (best)" if epoch.best else "")
        if self.bars is not None and self.epochs is not None:
            self.bars.update(self.epochs, completed=epoch.number, description=f"{self.what}  {words}")
        elif time.monotonic() - self.spoken > EVERY_SECONDS or epoch.valid is not None or epoch.number == self.total:
            self.line(f"{self.what}: epoch {epoch.number} of {self.total}  {words}")

    def line(self, text: str) -> None:
        self.spoken = time.monotonic()
        say(text)


def number(value: float | None, digits: int = 3) -> str:
    """A metric as papers print it: .493"""
    if value is None:
        return "-"
    text = f"{value:.{digits}f}"
    return text.removeprefix("0") if text.startswith("0.") else text


def percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f} %"
