"""Read tables of triples from text: tab-separated lines, and CSV with quotes."""

from __future__ import annotations

import csv
import re
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import itemgetter
from typing import Any, Protocol

from conjoin.graph.column_roles import is_header, listed_cells, names_columns
from conjoin.io.columns import CHOOSE, choose, other_delimiter
from conjoin.io.formats import is_long
from conjoin.io.read_options import ReadOptions
from conjoin.io.read_report import LONG_LINE, Sink, too_long
from conjoin.runtime import file_limits

QUOTED = re.compile(rb'"[^"]*"')
FIRST = 100
"""Lines of a CSV file in which `is_spaced` looks for a space after every delimiter."""

TextRow = tuple[int, list[str]]


class RowReader(Protocol):
    """Numbered rows of cells. `again` marks the last row as bad: all its lines but the first are read again."""

    def __iter__(self) -> Iterator[TextRow]: ...
    def again(self) -> None: ...


class TsvRows:
    """One row per line; quotes and spaces are part of the names."""

    def __init__(self, lines: Iterator[bytes], delimiter: str, sink: Sink) -> None:
        self._lines, self._delimiter, self._sink = lines, delimiter, sink

    def __iter__(self) -> Iterator[TextRow]:
        sink, delimiter = self._sink, self._delimiter
        before = number = sink.lines
        try:
            for number, raw in enumerate(self._lines, start=before + 1):
                if len(raw) > file_limits.LINE and is_long(raw, file_limits.LINE):
                    sink.problem(number, LONG_LINE, too_long(file_limits.LINE))
                    continue
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
        """Nothing to read again: a row is one line."""


class _LongRow(Exception):
    """The lines of one row have more bytes than `file_limits.LINE`."""


class CsvRows:
    """Rows by the rules of CSV: a quoted cell may hold delimiters, doubled quotes and line breaks.

    An unclosed quote would turn the rest of the file into one cell. Therefore a row has a limit, and only the first
    line of a broken row is lost: the lines after it are read again.
    """

    def __init__(self, lines: Iterator[bytes], delimiter: str, sink: Sink) -> None:
        self._lines, self._delimiter, self._sink = lines, delimiter, sink
        self._replay: deque[tuple[int, bytes]] = deque()
        self._current: list[tuple[int, bytes]] = []
        self._size = 0
        self._undecodable: tuple[int, str] | None = None

    def _begin(self) -> None:
        self._current, self._size, self._undecodable = [], 0, None

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
            self._size += len(raw)
            if self._size > file_limits.LINE and (len(self._current) > 1 or is_long(raw, file_limits.LINE)):
                raise _LongRow
            try:
                yield raw.decode()
            except UnicodeDecodeError as error:
                self._undecodable = self._undecodable or (number, broken_bytes(error))
                yield raw.decode(errors="replace")

    def __iter__(self) -> Iterator[TextRow]:
        while True:
            reader = csv.reader(
                self._feed(), delimiter=self._delimiter, strict=True, skipinitialspace=bool(self._sink.spaced)
            )
            try:
                yield from self._rows(reader)
                return
            except csv.Error as error:
                number, last = self._current[0][0], self._current[-1][0]
                where = f", in a quoted cell that ends in line {last}" if last > number else ""
                first = self._current[0][1].decode(errors="replace")
                hint = "" if self._delimiter in first else other_delimiter(first).replace(" With", "; with", 1)
                self._sink.problem(number, "broken CSV", f"{error}{where}{hint}")
                self.again()
            except _LongRow:
                (number, _), *more = self._current
                where = f", in a quoted cell that ends in line {more[-1][0]} or later" if more else ""
                self._sink.problem(number, LONG_LINE, too_long(file_limits.LINE) + where)
                self.again()

    def _rows(self, reader: Iterator[list[str]]) -> Iterator[TextRow]:
        while True:
            self._begin()
            cells = next(reader, None)
            if cells is None:
                return
            if self._undecodable:
                number, detail = self._undecodable
                first, last = self._current[0][0], self._current[-1][0]
                row = f", in the row from line {first} to {last}" if last > first else ""
                self._sink.problem(number, "bad UTF-8", detail + row)
            elif not cells or (len(cells) == 1 and not cells[0].strip()):
                self._sink.blank_lines += 1
            else:
                yield self._current[0][0], cells
                self._sink.multiline_rows += len(self._current) > 1

    def again(self) -> None:
        self._replay.extendleft(reversed(self._current[1:]))
        self._current = []


def text_rows(lines: Iterator[bytes], file_format: str, sink: Sink) -> tuple[RowReader, str]:
    """The rows of a TSV or CSV file, and the delimiter of their cells."""
    if file_format == "CSV":
        delimiter = sink.options.delimiter or ","
        if sink.spaced is None:
            first = first_lines(lines)
            sink.spaced, lines = is_spaced(first, delimiter, sink.options), chain(first, lines)
        return CsvRows(lines, delimiter, sink), delimiter
    delimiter = sink.options.delimiter or "\t"
    return TsvRows(lines, delimiter, sink), delimiter


def first_lines(lines: Iterator[bytes]) -> list[bytes]:
    """The first lines of a file, FIRST of them, or fewer if they are long."""
    first: list[bytes] = []
    size = 0
    while len(first) < FIRST and size < file_limits.LINE and (line := next(lines, b"")):
        first.append(line)
        size += len(line)
    return first


def is_spaced(lines: Sequence[bytes], delimiter: str, options: ReadOptions) -> bool:
    """Does a space follow every delimiter outside quotes? Then the space is not part of the names.

    The header may lack these spaces.
    """
    if lines and _is_header([cell.strip() for cell in lines[0].decode(errors="replace").split(delimiter)], options):
        lines = lines[1:]
    plain, mark = QUOTED.sub(b"", b"".join(lines)), delimiter.encode()
    return delimiter != " " and 0 < plain.count(mark) == plain.count(mark + b" ")


@dataclass
class ColumnLayout:
    """The positions of head, relation and tail in a line, and the number of cells of a line (`width`, 0 = unknown)."""

    positions: tuple[int, ...] = (0, 1, 2)
    width: int = 0
    begun: bool = False

    def begin(self, where: str, cells: list[str], sink: Sink) -> bool:
        """Take the layout from the first line. True if it is a header."""
        self.begun = True
        if not _is_header(cells, sink.options):
            if names_columns(cells):
                sink.enough = 2
            return False
        chosen = choose(where, cells, sink.options)
        self.positions, self.width = chosen.positions, len(cells)
        sink.header, sink.choice = tuple(cells), chosen.note
        return True

    def learn(self, cells: list[str], options: ReadOptions) -> None:
        """Take the layout from a data line, if it has enough cells."""
        if options.columns is None:
            self.width = 3
            return
        self.positions = tuple(column for column in options.columns if isinstance(column, int))
        self.width = len(cells) if max(self.positions) < len(cells) else 0


def read_text_table(lines: Iterator[bytes], file_format: str, sink: Sink, layout: ColumnLayout | None = None) -> None:
    """Read a TSV or CSV file into `sink`, or more lines of one whose `layout` is known from the lines before."""
    options, layout = sink.options, layout or ColumnLayout()
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
            detail = _wrong_count(cells, layout.width, delimiter, options)
            # Only the first line can tell that the file has another delimiter; in a later line it is a typing error.
            hint = other_delimiter(cells[0]) if len(cells) == number == 1 and layout.width else ""
            sink.problem(number, "wrong number of columns", f"{detail}.{hint}" if hint else detail)
            rows.again()
    sink.separator = delimiter
    sink.columns = tuple(sink.header[i] if sink.header else i for i in layout.positions)


def _is_header(cells: list[str], options: ReadOptions) -> bool:
    if options.header is not None:
        return options.header
    if options.columns is not None and any(isinstance(column, str) for column in options.columns):
        return True
    return is_header(cells)


def _wrong_count(cells: list[str], width: int, delimiter: str, options: ReadOptions) -> str:
    count = f"{len(cells)} {'column' if len(cells) == 1 else 'columns'}"
    if not width:
        return f"{count}, too few for columns={options.columns}"
    hint = ""
    if len(cells) == 1:
        hint = f" (is {delimiter!r} the delimiter?)"
    elif len(cells) > width == 3 and options.columns is None:
        hint = f": {listed_cells(cells)}. Does every line have {len(cells)}? {CHOOSE}"
    return f"{count} instead of {width}{hint}"


def broken_bytes(error: UnicodeDecodeError) -> str:
    """The first byte of a line that is not UTF-8, for a message."""
    return f"byte 0x{error.object[error.start]:02x} at position {error.start + 1} of the line"
