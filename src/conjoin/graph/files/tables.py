"""Tables of triples as text: tab-separated lines, and CSV with its quotes."""

from __future__ import annotations

import csv
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Protocol

from conjoin.errors import GraphError, did_you_mean
from conjoin.graph.files.report import ReadOptions, Sink, shortened

HEADER_WORDS = (
    ("head", "subject", "source"),
    ("relation", "rel", "predicate", "property"),
    ("tail", "object", "target"),
)
HEADER_LETTERS = (("h", "s"), ("r", "p"), ("t", "o"))
CHOOSE = "choose three with columns=(...) (--columns subject,verb,object)"
DELIMITERS = ",;\t|"

Row = tuple[int, list[str]]


class Rows(Protocol):
    """Numbered rows of cells. `again` says that the last row was bad: whatever it swallowed is read again."""

    def __iter__(self) -> Iterator[Row]: ...
    def again(self) -> None: ...


class TsvRows:
    """One row per line; quotes and spaces are part of the names."""

    def __init__(self, lines: Iterator[bytes], delimiter: str, sink: Sink) -> None:
        self._lines, self._delimiter, self._sink = lines, delimiter, sink

    def __iter__(self) -> Iterator[Row]:
        sink, delimiter = self._sink, self._delimiter
        before = number = sink.lines
        try:
            for number, raw in enumerate(self._lines, start=before + 1):
                try:
                    line = raw.decode().removesuffix("\n").removesuffix("\r")
                except UnicodeDecodeError as error:
                    sink.problem(number, "bad UTF-8", broken_bytes(error))
                    continue
                cells = line.split(delimiter)
                if len(cells) == 1 and not line.strip():
                    sink.blank_lines += 1
                else:
                    yield number, cells
        finally:
            sink.lines = number

    def again(self) -> None:
        """A line swallows no other."""


class CsvRows:
    """Rows by the rules of CSV: a quoted cell may hold delimiters, doubled quotes and line breaks.

    A quote that is never closed would swallow the rest of the file. Therefore a broken row costs
    its first line only: the lines after it are read again.
    """

    def __init__(self, lines: Iterator[bytes], delimiter: str, sink: Sink) -> None:
        self._lines, self._delimiter, self._sink = lines, delimiter, sink
        self._replay: deque[tuple[int, bytes]] = deque()
        self._current: list[tuple[int, bytes]] = []
        self._undecodable: tuple[int, str] | None = None

    def _begin(self) -> None:
        self._current, self._undecodable = [], None

    def _feed(self) -> Iterator[str]:
        while True:
            if self._replay:
                number, raw = self._replay.popleft()
            else:
                raw = next(self._lines, b"")
                if not raw:
                    return
                self._sink.lines += 1
                number = self._sink.lines
            self._current.append((number, raw))
            try:
                yield raw.decode()
            except UnicodeDecodeError as error:
                self._undecodable = self._undecodable or (number, broken_bytes(error))
                yield raw.decode(errors="replace")

    def __iter__(self) -> Iterator[Row]:
        while True:
            reader = csv.reader(self._feed(), delimiter=self._delimiter, strict=True)
            try:
                yield from self._rows(reader)
                return
            except csv.Error as error:
                number, last = self._current[0][0], self._current[-1][0]
                where = f", in a quoted cell that runs to line {last}" if last > number else ""
                self._sink.problem(number, "broken CSV", f"{error}{where}")
                self.again()

    def _rows(self, reader: Iterator[list[str]]) -> Iterator[Row]:
        while True:
            self._begin()
            cells = next(reader, None)
            if cells is None:
                return
            if self._undecodable:
                number, detail = self._undecodable
                first, last = self._current[0][0], self._current[-1][0]
                spread = f", in a row from line {first} to {last}" if last > first else ""
                self._sink.problem(number, "bad UTF-8", detail + spread)
            elif not cells or (len(cells) == 1 and not cells[0].strip()):
                self._sink.blank_lines += 1
            else:
                yield self._current[0][0], cells
                self._sink.multiline_rows += len(self._current) > 1

    def again(self) -> None:
        self._replay.extendleft(reversed(self._current[1:]))
        self._current = []


def text_rows(lines: Iterator[bytes], file_format: str, sink: Sink) -> tuple[Rows, str]:
    """The rows of a TSV or CSV file, and what separates their cells."""
    if file_format == "CSV":
        delimiter = sink.options.delimiter or ","
        return CsvRows(lines, delimiter, sink), delimiter
    delimiter = sink.options.delimiter or "\t"
    return TsvRows(lines, delimiter, sink), delimiter


@dataclass
class Layout:
    """Where the names stand in a line, and how many cells every line has; 0 until a line told it."""

    positions: tuple[int, ...] = (0, 1, 2)
    width: int = 0
    begun: bool = False

    def begin(self, where: str, cells: list[str], sink: Sink) -> bool:
        """Look at the first line. Says whether it is a header."""
        self.begun = True
        if not _is_header(cells, sink.options):
            return False
        self.positions, self.width = column_positions(where, cells, sink.options), len(cells)
        sink.header = tuple(cells)
        return True

    def learn(self, cells: list[str], options: ReadOptions) -> None:
        """Take the layout from a line without a header, if it is long enough."""
        if options.columns is None:
            self.width = 3
            return
        self.positions = tuple(column for column in options.columns if isinstance(column, int))
        self.width = len(cells) if max(self.positions) < len(cells) else 0


def read_text_table(lines: Iterator[bytes], file_format: str, sink: Sink, layout: Layout | None = None) -> None:
    """Read a TSV or CSV file into `sink`, or more lines of one whose `layout` is known from the lines before."""
    options, layout = sink.options, layout or Layout()
    rows, delimiter = text_rows(lines, file_format, sink)
    pick: itemgetter[Any] = itemgetter(*layout.positions)
    for number, cells in rows:
        if not layout.begun and layout.begin(f"{sink.file}:{number}", cells, sink):
            pick = itemgetter(*layout.positions)
            continue
        if not layout.width:
            layout.learn(cells, options)
            pick = itemgetter(*layout.positions)
        if len(cells) == layout.width:
            head, relation, tail = pick(cells)
            sink.add(number, head, relation, tail)
        else:
            sink.problem(number, "wrong number of columns", _miscounted(cells, layout.width, delimiter, options))
            rows.again()


def _is_header(cells: list[str], options: ReadOptions) -> bool:
    if options.header is not None:
        return options.header
    if options.columns is not None and any(isinstance(column, str) for column in options.columns):
        return True
    return _named(cells, HEADER_WORDS) is not None


def _named(cells: Sequence[str], words: Sequence[Sequence[str]]) -> tuple[int, int, int] | None:
    """The positions of the cells that say head, relation and tail, when there is exactly one of each."""
    folded = [cell.strip().casefold() for cell in cells]
    found = [[i for i, cell in enumerate(folded) if cell in choices] for choices in words]
    if any(len(places) != 1 for places in found):
        return None
    return found[0][0], found[1][0], found[2][0]


def column_positions(where: str, names: Sequence[str], options: ReadOptions) -> tuple[int, int, int]:
    """Where head, relation and tail stand among columns with these names."""
    if options.columns is None:
        letters = tuple(a + b for a, b in zip(HEADER_WORDS, HEADER_LETTERS, strict=True))
        found = _named(names, HEADER_WORDS) or _named(names, letters)
        if found is None and len(names) != 3:
            raise GraphError(f"{where}: {len(names)} columns ({_listed(names)}): {CHOOSE}")
        return found or (0, 1, 2)
    head, relation, tail = (_position(where, names, column) for column in options.columns)
    return head, relation, tail


def _position(where: str, names: Sequence[str], column: int | str) -> int:
    if isinstance(column, int):
        if column >= len(names):
            raise GraphError(f"{where}: no column {column}, counted from 0: there are {len(names)} ({_listed(names)})")
        return column
    places = [i for i, name in enumerate(names) if name == column]
    if len(places) != 1:
        count = f"{len(places)} columns are" if places else "no column is"
        guess = "" if places else did_you_mean(column, names) + (_other_delimiter(names[0]) if len(names) == 1 else "")
        raise GraphError(f"{where}: {count} named {column!r}; there are {_listed(names)}.{guess}")
    return places[0]


def _listed(cells: Sequence[str]) -> str:
    return ", ".join(shortened(cell, limit=30) for cell in cells[:12]) + (", …" if len(cells) > 12 else "")


def _miscounted(cells: list[str], width: int, delimiter: str, options: ReadOptions) -> str:
    count = f"{len(cells)} {'column' if len(cells) == 1 else 'columns'}"
    if not width:
        return f"{count}, too few for columns={options.columns}"
    hint = ""
    if len(cells) == 1:
        hint = f" (is {delimiter!r} the delimiter?)" + _other_delimiter(cells[0])
    elif len(cells) > width == 3 and options.columns is None:
        hint = f" (where all lines have more, {CHOOSE})"
    return f"{count} instead of {width}{hint}"


def _other_delimiter(line: str) -> str:
    """What else may separate the cells of a line that has only one."""
    likely = max(DELIMITERS, key=line.count)
    count = line.count(likely) + 1
    return f" With {likely!r} it has {count}: try delimiter={likely!r} (--delimiter {likely!r})" if count >= 3 else ""


def broken_bytes(error: UnicodeDecodeError) -> str:
    """What is wrong with the bytes of a line."""
    return f"byte 0x{error.object[error.start]:02x} at position {error.start + 1} of the line"
