"""Read triples from Parquet."""

from __future__ import annotations

import tempfile
from typing import Any, BinaryIO

from conjoin.errors import GraphError
from conjoin.io.columns import choose
from conjoin.io.formats import PIECE, AnyPath, opened, split_name
from conjoin.io.parquet_pages import MAGIC, largest_page
from conjoin.io.read_report import Sink, too_long
from conjoin.runtime import file_limits

BATCH_ROWS = 1_024
"""Rows of one batch. A dictionary-encoded name of up to `file_limits.NAME` bytes is copied to each row that has it."""


def read_parquet(path: AnyPath, sink: Sink) -> None:
    """Read a Parquet file into `sink`. Names are strings, bytes in UTF-8 or whole numbers; nulls are empty names."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with opened(path) as stream:
        if not stream.read(1):
            return
        stream.seek(0)
        seekable = _unpacked(stream, sink.file) if split_name(path)[2] else stream
        try:
            table = pq.ParquetFile(seekable, page_checksum_verification=True)
            chosen = _chosen(sink, table.schema_arrow)
            leaves = {i for i in range(len(table.schema)) if table.schema.column(i).path in chosen}
            if largest_page(seekable, leaves) > file_limits.PAGE:
                raise GraphError(
                    f"{sink.file}: the columns {', '.join(map(repr, chosen))} have a page of "
                    f"{too_long(file_limits.PAGE)}. "
                    f"Write the file with smaller pages, and shorten names of more than {file_limits.NAME:,} bytes."
                )
            for batch in table.iter_batches(batch_size=BATCH_ROWS, columns=chosen):
                if not sink.add_columns([batch.column(name) for name in chosen]):
                    _take(sink, [_values(batch.column(name)) for name in chosen])
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise GraphError(f"{sink.file}: the file is damaged or not Parquet ({error}). Write it again.") from error


def _unpacked(stream: BinaryIO, shown: str) -> BinaryIO:
    """The unpacked content in a temporary file: Parquet is read from its end, and gzip can only be read forwards."""
    unpacked: BinaryIO = tempfile.TemporaryFile()  # noqa: SIM115
    unpacked.write(stream.read(len(MAGIC)))
    unpacked.seek(0)
    if unpacked.read() != MAGIC:
        raise GraphError(
            f"{shown}: the file is damaged or not Parquet (it does not begin with {MAGIC.decode()}). Write it again."
        )
    while piece := stream.read(PIECE):
        if unpacked.tell() + len(piece) > file_limits.PACKED_PARQUET:
            raise GraphError(
                f"{shown}: the file unpacks to {too_long(file_limits.PACKED_PARQUET)} of Parquet inside gzip. "
                "Remove gzip: Parquet compresses its content itself."
            )
        unpacked.write(piece)
    unpacked.seek(0)
    return unpacked


def _chosen(sink: Sink, schema: Any) -> list[str]:
    """The names of the columns of heads, relations and tails."""
    from pyarrow import types

    names: list[str] = schema.names
    text = types.is_string, types.is_large_string, types.is_binary, types.is_large_binary
    choice = choose(sink.file, names, sink.options)
    sink.choice = choice.note
    chosen = [names[i] for i in choice.positions]
    sink.columns = tuple(chosen)
    for name in chosen:
        if names.count(name) > 1:
            raise GraphError(f"{sink.file}: several columns are named {name!r}. Rename them.")
        kind = schema.field(name).type
        kind = kind.value_type if types.is_dictionary(kind) else kind
        if not any(test(kind) for test in (*text, types.is_integer, types.is_null)):
            raise GraphError(
                f"{sink.file}: the column {name!r} has the type {kind}. Names must be strings or whole numbers."
            )
    return chosen


def _values(column: Any) -> list[str | bytes]:
    """The names of a column: nulls become empty, invalid UTF-8 stays bytes."""
    import pyarrow as pa
    from pyarrow import types

    if types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if types.is_string(column.type) or types.is_large_string(column.type):
        try:
            return [name or "" for name in column.to_pylist()]
        except UnicodeDecodeError:
            column = column.cast(pa.large_binary() if types.is_large_string(column.type) else pa.binary())
    if types.is_integer(column.type):
        return ["" if value is None else str(value) for value in column.to_pylist()]
    return [_text(value or b"") for value in column.to_pylist()]


def _text(value: bytes) -> str | bytes:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value


def _take(sink: Sink, columns: list[list[str | bytes]]) -> None:
    for head, relation, tail in zip(*columns, strict=True):
        sink.lines += 1
        if isinstance(head, str) and isinstance(relation, str) and isinstance(tail, str):
            sink.add(sink.lines, head, relation, tail)
        else:
            broken = next(name for name in (head, relation, tail) if isinstance(name, bytes))
            sink.problem(sink.lines, "bad UTF-8", f"the name {broken[:60]!r}")
