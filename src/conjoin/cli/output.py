"""Printing. Results go to standard output, messages and progress to standard error."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from conjoin.runtime.text_escaping import spelled

T = TypeVar("T")
CONTROLS = re.compile("[\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Control characters of terminals that JSON does not escape."""
EVERY_SECONDS = 5.0
"""Without a terminal, progress is printed as a line at most this often."""

WIDE = 160
"""Width of a table in a file or a pipe, in columns."""
NARROWEST = 16
"""Text in a table wraps at this many columns or more."""
LONGEST = 200
"""A longer name is cut, in characters."""

messages = Console(stderr=True, highlight=False, markup=False, emoji=False)

speaker = ""
"""Before an error message: the process, where several work together."""


def say(text: str) -> None:
    """Print a message on standard error."""
    messages.print(spelled(text, keep="\n"), soft_wrap=True)


def quiet(name: str) -> None:
    """Print no results and no progress from now on, and start errors with `name`. Another process prints the result."""
    sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
    messages.quiet = True
    global speaker  # noqa: PLW0603
    speaker = name


def complain(text: str) -> None:
    """Print an error, even in a process that is `quiet`."""
    messages.quiet = False
    say(f"{speaker}error: {text}")


def emit(value: Any) -> None:
    """Print the JSON object of `--json`. Control characters are escaped."""
    in_unicode = "utf" in (sys.stdout.encoding or "").casefold()
    text = json.dumps(value, ensure_ascii=not in_unicode, allow_nan=False)
    print(CONTROLS.sub(lambda match: f"\\u{ord(match[0]):04x}", text))


def show(text: str = "") -> None:
    """Print a line of the result."""
    print(spelled(text, keep="\t\n"))


def show_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], *, left: int = 1) -> None:
    """Print a table: the first `left` columns are text, which may wrap; the others are numbers, which may not."""
    cells = [[shown(cell) for cell in row] for row in rows]
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    needed = -1  # not -2: before 14.3 rich pads the last column too, and would cut a digit for it
    for place, column in enumerate(columns):
        widest = max(cell_len(text) for text in (column, *(row[place] for row in cells)))
        if place < left:
            table.add_column(Text(spelled(column)), min_width=min(widest, NARROWEST), overflow="fold")
        else:
            table.add_column(Text(spelled(column)), min_width=widest, no_wrap=True, justify="right")
        needed += 2 + (min(widest, NARROWEST) if place < left else widest)
    for row in cells:
        table.add_row(*map(Text, row))
    screen = Console(highlight=False)
    width = screen.width if screen.is_terminal else WIDE
    paper = Console(highlight=False, width=max(width, needed))
    paper.print(Text(shown(title), style="bold"), soft_wrap=True)
    paper.print(table, Text())


def shown(text: str) -> str:
    """A name with control characters escaped, cut if it is very long."""
    return spelled(text if len(text) <= LONGEST else text[: LONGEST - 1] + "…")


class ProgressDisplay:
    """Progress: bars on a terminal, a line every few seconds elsewhere."""

    def __init__(self, total_epochs: int = 0, what: str = "") -> None:
        self.total, self.what = total_epochs, what
        self.spoken = time.monotonic()
        self.valid = ""
        self.bars: Progress | None = None
        self.epochs: TaskID | None = None

    @contextmanager
    def watching(self) -> Iterator[ProgressDisplay]:
        if not messages.is_interactive:
            yield self
            return
        shape = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(elapsed_when_finished=True),
        )
        with Progress(*shape, console=messages, transient=True) as self.bars:
            if self.total:
                self.epochs = self.bars.add_task(spelled(self.what), total=self.total)
            yield self

    def track(self, steps: Iterable[T], what: str, total: int | None) -> Iterator[T]:
        """Yield the steps and show how many are done; a `Track` of the library."""
        if self.bars is None:
            yield from self._lines(steps, what, total)
            return
        task = self.bars.add_task(spelled(what), total=total)
        try:
            for step in steps:
                yield step
                self.bars.advance(task)
        finally:
            self.bars.remove_task(task)

    def _lines(self, steps: Iterable[T], what: str, total: int | None) -> Iterator[T]:
        """Print a line every few seconds while the steps take long."""
        began = time.monotonic()
        for done, step in enumerate(steps, start=1):
            yield step
            if time.monotonic() - max(self.spoken, began) > EVERY_SECONDS:
                place = f"{self.what}: " if self.what else ""
                self.line(f"{place}{what}, {done:,}" + (f" of {total:,}" if total else ""))

    def epoch(self, epoch: Any) -> None:
        """Show the loss, and the MRR on valid, of a finished epoch."""
        if epoch.valid is not None:
            self.valid = f"  valid MRR {number(epoch.valid['mrr'])}"
        if self.bars is not None and self.epochs is not None:
            description = f"{spelled(self.what)}  loss {epoch.loss:.3f}{self.valid}"
            self.bars.update(self.epochs, completed=epoch.number, description=description)
            return
        words = f"loss {epoch.loss:.4f}  penalty {epoch.penalty:.4f}  {epoch.seconds:.2f} s"
        if epoch.valid is not None:
            words += self.valid + (" (best)" if epoch.best else "")
        if time.monotonic() - self.spoken > EVERY_SECONDS or epoch.valid is not None or epoch.number == self.total:
            self.line(f"{self.what}: epoch {epoch.number} of {self.total}  {words}")

    def line(self, text: str) -> None:
        self.spoken = time.monotonic()
        say(text)


def number(value: float | None, digits: int = 3) -> str:
    """A metric without the leading zero, as papers print it: .493"""
    if value is None:
        return "-"
    return f"{value:.{digits}f}".replace("0.", ".", 1) if abs(value) < 1 else f"{value:.{digits}f}"


def first_of(lines: int, everything: int) -> str:
    """Text after the title of a table that shows only its first lines."""
    return f" ({lines} of {everything:,})" if lines < everything else ""


def percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f} %"
