"""Triples in Parquet."""

from __future__ import annotations

import io
from typing import Any, BinaryIO

from conjoin.errors import GraphError
from conjoin.graph.files.columns import choose
from conjoin.graph.files.report import Sink
from conjoin.graph.files.source import AnyPath, opened, split_name

BATCH_ROWS = 65_536


def read_parquet(path: AnyPath, sink: Sink) -> None:
    """Read a Parquet file into `sink`. Names are text, bytes in UTF-8 or whole numbers; nulls are empty names."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with opened(path) as stream:
        if not stream.read(1):
            return
        stream.seek(0)
        seekable: BinaryIO = io.BytesIO(stream.read()) if split_name(path)[2] else stream
        try:
            table = pq.ParquetFile(seekable, page_checksum_verification=True)
            chosen = _chosen(sink, table.schema_arrow)
            for batch in table.iter_batches(batch_size=BATCH_ROWS, columns=chosen):
                if not sink.add_columns([batch.column(name) for name in chosen]):
                    _take(sink, [_values(batch.column(name)) for name in chosen])
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise GraphError(f"{sink.file}: damaged, or not Parquet: {error}") from error


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
            raise GraphError(f"{sink.file}: several columns are named {name!r}: rename them")
        kind = schema.field(name).type
        kind = kind.value_type if types.is_dictionary(kind) else kind
        if not any(test(kind) for test in (*text, types.is_integer, types.is_null)):
            raise GraphError(f"{sink.file}: column {name!r} holds {kind}: names are text or whole numbers")
    return chosen


def _values(column: Any) -> list[str | bytes]:
    """The names of a column: nulls are empty, bytes that are not UTF-8 stay bytes."""
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
            sink.problem(sink.lines, "bad UTF-8", f"in {broken[:60]!r}")
