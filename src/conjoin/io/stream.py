"""Read files of any size in bounded memory: batches of Arrow columns are passed on as they are read.

The rules are the same as in `conjoin.io.readers`, line for line. A block of plain lines is parsed at once. A block with
anything unusual goes through the ordinary reader, which reports the line and the reason of every bad line.
"""

from __future__ import annotations

import io
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np

from conjoin.errors import GraphError, ProcessLost
from conjoin.graph.column_roles import PLACES
from conjoin.io.delimited import ColumnLayout, first_lines, is_spaced, read_text_table
from conjoin.io.formats import AnyPath, blocks_of_lines, blocks_of_statements, format_of, may_have_long, opened
from conjoin.io.parquet import read_parquet
from conjoin.io.rdf import blank_scope, read_ntriples
from conjoin.io.read_options import ReadOptions
from conjoin.io.read_report import SAMPLES, ReadReport, Sink, Triples
from conjoin.io.readers import read_whole_stream
from conjoin.runtime import file_limits
from conjoin.runtime.progress import Track, silent

BLOCK_BYTES = 8 << 20
FLUSH_TRIPLES = 200_000
BATCH_TRIPLES, BATCH_BYTES = 1 << 16, 32 << 20
"""Columns are passed on as soon as they have this number of rows or bytes."""
# First bytes of the characters that count as white space; only names that begin with one can be blank.
BLANK_STARTS = np.isin(np.arange(256), [*range(9, 14), *range(28, 33), 0xC2, 0xE1, 0xE2, 0xE3])
COUNTS = (
    "lines",
    "blank_lines",
    "comments",
    "multiline_rows",
    "literals_dropped",
    "literals_kept",
    "label_statements",
    "blank_triples_dropped",
)

Take = Callable[[Any], None]
LabelRow = tuple[str, str, int]


class StreamSink(Sink):
    """A sink that passes batches (head, relation, tail) to `take` and drops them; `labelled` collects the labels."""

    def __init__(self, file: str, file_format: str, options: ReadOptions, take: Take) -> None:
        super().__init__(file, file_format, options)
        self._take, self.taken = take, 0
        self._columns: list[list[Any]] = []
        self._pending = [0, 0]  # rows and bytes of _columns
        self.labelled: list[LabelRow] = []
        self._first: tuple[str, str, str] | None = None
        self._occurrences = [0, 0, 0]

    def add(self, line: int | None, head: str, relation: str, tail: str) -> bool:
        added = super().add(line, head, relation, tail)
        if len(self.triples) >= FLUSH_TRIPLES:
            self.flush()
        return added

    def add_columns(self, columns: Sequence[Any]) -> bool:
        """Add columns of strings unchanged. False if a name in them could be bad."""
        plain = [_plain(column) for column in columns]
        if not all(column is not None and _sound(column) for column in plain):
            return False
        if len(self.triples):
            self.flush()
        self.lines += len(plain[0])
        self._columns.append(plain)
        self._pending[0] += len(plain[0])
        self._pending[1] += sum(column.nbytes for column in plain)
        if self._pending[0] >= BATCH_TRIPLES or self._pending[1] >= BATCH_BYTES:
            self.flush()
        return True

    def label(self, name: str, text: str, *, rank: int) -> None:
        self.labelled.append((name, text, rank))

    def flush(self) -> None:
        """Pass on the pending columns, and the triples that were added one by one."""
        import pyarrow as pa

        if self._columns:
            pending, self._columns, self._pending = self._columns, [], [0, 0]
            self.pass_on([pa.concat_arrays(parts) for parts in zip(*pending, strict=True)])
        if not len(self.triples):
            return
        triples, self.triples, self._names = self.triples, Triples([], [], []), {}
        try:
            columns = [pa.array(names, pa.string()) for names in (triples.heads, triples.relations, triples.tails)]
        except UnicodeEncodeError as error:
            raise GraphError(
                f"The name {error.object!r} is not valid Unicode and cannot be stored. Rename it."
            ) from error
        self.pass_on(columns)

    def pass_on(self, columns: Sequence[Any]) -> None:
        """Pass three Arrow columns (n,) to `take`."""
        import pyarrow as pa

        batch = pa.RecordBatch.from_arrays(list(columns), names=list(PLACES))
        if self.may_lack_a_header:
            self._compare_with_first(batch.columns)
        self.taken += len(batch)
        self._take(batch)

    def _compare_with_first(self, columns: Sequence[Any]) -> None:
        """Count the occurrences of each name of the first fact, until one of them occurs again."""
        import pyarrow.compute as pc

        self._first = h, r, t = self._first or tuple(column[0].as_py() for column in columns)
        if max(self._occurrences) > 1:
            return
        heads, relations, tails = columns
        for i, name, where in ((0, h, (heads, tails)), (1, r, (relations,)), (2, t, (heads, tails))):
            self._occurrences[i] += sum(pc.sum(pc.equal(column, name)).as_py() for column in where)

    def _like_a_header(self) -> tuple[str, ...] | None:
        return self._first if self.taken >= self.enough and self._occurrences == [1, 1, 1] else None

    def report(self) -> ReadReport:
        return replace(super().report(), triples=self.taken)

    def merge(self, part: _Part) -> None:
        """Add the results of a later block of the file."""
        if part.columns:
            self.pass_on(part.columns)
        for name, count in zip(COUNTS, part.counts, strict=True):
            setattr(self, name, getattr(self, name) + count)
        self._problems.update(part.problems)
        self._samples = [*self._samples, *part.samples][:SAMPLES]
        self.labelled.extend(part.labels)


@dataclass(frozen=True)
class _Part:
    """The content of a block of N-Triples, in a form that can be sent between processes."""

    columns: list[Any]
    counts: tuple[int, ...]
    problems: dict[str, int]
    samples: tuple[Any, ...]
    labels: list[LabelRow]


def stream_triples(
    path: AnyPath,
    options: ReadOptions,
    take: Take,
    *,
    scope: str,
    take_labels: Callable[[list[LabelRow]], None] = lambda _: None,
    threads: int = 1,
    track: Track = silent,
) -> ReadReport:
    """Pass every triple of a file to `take`, in batches, and return the report.

    Labels of RDF go to `take_labels` as (name, text, rank), in the order of the file.
    """
    file_format = format_of(path)
    sink = StreamSink(os.fspath(path), file_format, options, take)
    scope = blank_scope(scope)

    def spill() -> None:
        if sink.labelled:
            take_labels(sink.labelled)
            sink.labelled = []

    if file_format == "Parquet":
        read_parquet(path, sink)
    else:
        with opened(path) as stream:
            if not read_whole_stream(file_format, stream, sink, scope):
                if file_format == "N-Triples":
                    pieces = blocks_of_statements(stream, sink.file, size=BLOCK_BYTES)
                else:
                    pieces = blocks_of_lines(stream, sink.file, limit=file_limits.LINE, size=BLOCK_BYTES)
                blocks = track(pieces, f"read {os.path.basename(path)}", _expected_blocks(path))  # noqa: PTH119
                if file_format == "N-Triples":
                    for part in _ntriples_parts(blocks, sink, scope, threads):
                        sink.merge(part)
                        spill()
                else:
                    _read_text(blocks, file_format, sink, threads)
    sink.flush()
    spill()
    return sink.report()


def _expected_blocks(path: AnyPath) -> int | None:
    """The number of blocks of the file; None if it is compressed."""
    if os.fspath(path).lower().endswith(".gz"):
        return None
    return max(1, -(-os.stat(path).st_size // BLOCK_BYTES))  # noqa: PTH116


def _read_text(blocks: Iterator[bytes], file_format: str, sink: StreamSink, threads: int) -> None:
    import pyarrow.compute as pc

    layout = ColumnLayout()
    delimiter = sink.options.delimiter or ("," if file_format == "CSV" else "\t")
    if file_format == "CSV":
        blocks = _look_ahead(blocks, delimiter, sink)
    for block in blocks:
        rest = io.BytesIO(block)
        if file_format == "CSV" and b'"' in block:
            # A quoted cell may contain line ends and cross blocks, so the rest of the file is read line by line.
            later = chain.from_iterable(map(io.BytesIO, blocks))
            read_text_table(chain(rest, later), file_format, sink, layout)
            return
        while not layout.width and (line := rest.readline()):
            read_text_table(iter([line]), file_format, sink, layout)
        start = rest.tell()
        columns = _parsed(block, start, delimiter, layout, threads) if layout.width else None
        if columns is not None and sink.spaced:
            columns = [pc.utf8_ltrim(column, characters=" ") for column in columns]
        if columns is None or not sink.add_columns(columns):
            read_text_table(rest, file_format, sink, layout)


def _look_ahead(blocks: Iterator[bytes], delimiter: str, sink: StreamSink) -> Iterator[bytes]:
    """All blocks, after setting `sink.spaced` from the first lines."""
    first_blocks: list[bytes] = []

    def lines() -> Iterator[bytes]:
        for block in blocks:
            first_blocks.append(block)
            yield from io.BytesIO(block)

    sink.spaced = is_spaced(first_lines(lines()), delimiter, sink.options)
    return chain(first_blocks, blocks)


def _parsed(block: bytes, start: int, delimiter: str, layout: ColumnLayout, threads: int) -> list[Any] | None:
    """Three columns of the lines from `start` on, or None if the lines must be read one by one."""
    import pyarrow as pa
    from pyarrow import csv

    if b"\r" in block:
        block, start = block[start:].replace(b"\r\n", b"\n"), 0
    if (
        start == len(block)
        or b"\r" in block
        or b"\0" in block
        or not delimiter.isascii()
        or may_have_long(block, file_limits.LINE)
    ):
        return None
    names = [str(i) for i in range(layout.width)]
    chosen = [names[i] for i in layout.positions]
    try:
        table = csv.read_csv(
            pa.BufferReader(pa.py_buffer(block).slice(start)),
            read_options=csv.ReadOptions(column_names=names, use_threads=threads > 1, block_size=1 << 20),
            parse_options=csv.ParseOptions(delimiter=delimiter, quote_char=False, ignore_empty_lines=False),
            convert_options=csv.ConvertOptions(
                include_columns=chosen,
                column_types=dict.fromkeys(chosen, pa.string()),
                strings_can_be_null=False,
            ),
        )
    except pa.ArrowInvalid:
        return None
    return [table.column(name) for name in chosen]


def _plain(column: Any) -> Any:
    """A column as one array of strings without nulls, or None."""
    import pyarrow as pa
    from pyarrow import types

    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    if types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if types.is_large_string(column.type) and column.nbytes < 1 << 30:
        column = column.cast(pa.string())
    return column if types.is_string(column.type) and not column.null_count else None


def _sound(column: Any) -> bool:
    """Is every name valid, not blank and not too long?"""
    import pyarrow as pa

    _, offsets, content = column.buffers()
    if not len(column):
        return True
    if content is None:
        return False
    starts = np.frombuffer(offsets, np.int32, len(column) + 1, 4 * column.offset)
    lengths = np.diff(starts)
    if lengths.min() == 0 or lengths.max() > file_limits.NAME:
        return False
    first = np.frombuffer(content, np.uint8)[starts[:-1]]
    try:
        if any(column[i].as_py().isspace() for i in np.flatnonzero(BLANK_STARTS[first]).tolist()):
            return False
        column.validate(full=True)
    except (UnicodeDecodeError, pa.ArrowInvalid):
        return False
    return True


def _ntriples_parts(blocks: Iterator[bytes], sink: StreamSink, scope: str, threads: int) -> Iterator[_Part]:
    """The parts of all blocks in order, parsed in `threads` processes (1: in this process)."""

    def tasks() -> Iterator[tuple[bytes, int]]:
        line = 0
        for block in blocks:
            yield block, line
            line += len(block.splitlines()) if b"\r" in block else block.count(b"\n")

    fixed = (sink.file, sink.options, scope)
    if threads == 1:
        yield from (_ntriples_part(block, line, *fixed) for block, line in tasks())
        return
    from conjoin.io.spawn_pool import SpawnWithoutMain

    with ProcessPoolExecutor(threads, mp_context=SpawnWithoutMain()) as workers:
        futures: deque[Future[_Part]] = deque()
        try:
            for block, line in tasks():
                futures.append(workers.submit(_ntriples_part, block, line, *fixed))
                if len(futures) > 2 * threads:
                    yield futures.popleft().result()
            while futures:
                yield futures.popleft().result()
        except BrokenProcessPool as error:
            raise ProcessLost(
                f"{sink.file}: a process that parsed the file was killed, perhaps because memory ran out. "
                "Use fewer processes, or parse in this one with threads=1 (--threads 1)."
            ) from error
        finally:
            for future in futures:
                future.cancel()


def _ntriples_part(block: bytes, line: int, file: str, options: ReadOptions, scope: str) -> _Part:
    """The statements of a block whose first line has number `line` + 1."""
    batches: list[Any] = []
    sink = StreamSink(file, "N-Triples", options, batches.append)
    sink.lines = line
    read_ntriples(iter(io.BytesIO(block)), sink, scope)
    sink.flush()
    sink.lines -= line
    report = sink.report()
    columns = _joined(batches) if batches else []
    counts = tuple(getattr(sink, name) for name in COUNTS)
    return _Part(columns, counts, dict(report.problems), report.samples, sink.labelled)


def _joined(batches: list[Any]) -> list[Any]:
    import pyarrow as pa

    return [pa.concat_arrays([batch.column(i) for batch in batches]) for i in range(len(PLACES))]
