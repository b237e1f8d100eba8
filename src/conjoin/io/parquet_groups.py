"""One Parquet file that holds the row groups of many files, each byte for byte as its writer made it.

Writing a table again gives other bytes with another version of pyarrow or zstd, and a checksum of the old file no
longer holds. Here the compressed column chunks are copied, and only the index at the end of the file is written anew.
The result is plain Parquet for every reader, and each original can be put together again from its chunks and its tail
(its own index). Chunks that several originals share are stored once. Does not import torch.
"""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

from conjoin.errors import RunError
from conjoin.runtime.atomic_files import open_regular

MAGIC = b"PAR1"
SEAL = b"conjoin sha256: "
"""Stands with the checksum of the index before the index. pyarrow ends the process on some damaged indexes."""
SEAL_BYTES = len(SEAL) + 32
TYPES = {"BOOLEAN": 0, "INT32": 1, "INT64": 2, "FLOAT": 4, "DOUBLE": 5, "BYTE_ARRAY": 6}
ENCODINGS = {
    "PLAIN": 0,
    "PLAIN_DICTIONARY": 2,
    "RLE": 3,
    "BIT_PACKED": 4,
    "DELTA_BINARY_PACKED": 5,
    "DELTA_LENGTH_BYTE_ARRAY": 6,
    "DELTA_BYTE_ARRAY": 7,
    "RLE_DICTIONARY": 8,
    "BYTE_STREAM_SPLIT": 9,
}
CODECS = {"UNCOMPRESSED": 0, "SNAPPY": 1, "GZIP": 2, "BROTLI": 4, "LZ4": 5, "ZSTD": 6}
"""The numbers that the Parquet format gives to these names."""


@dataclass(frozen=True)
class Chunk:
    """The pages of one column in one row group: `size` bytes from `start` on; `data_page` counts from `start`."""

    start: int
    size: int
    unpacked: int
    values: int
    data_page: int
    dictionary: bool
    encodings: tuple[str, ...]
    codec: str


@dataclass(frozen=True)
class Column:
    """Name and type of a flat column; `text` marks UTF-8."""

    name: str
    kind: str
    text: bool
    optional: bool


Group = tuple[int, tuple[Chunk, ...]]
"""The number of rows, and a chunk per column."""


class GroupFile:
    """A Parquet file with flat columns, read as chunks of bytes. A RunError where it cannot be read."""

    def __init__(self, path: Path) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        self.path = path
        try:
            with open_regular(path) as stream:
                self.end = check_seal(stream)
                self._metadata = pq.ParquetFile(stream).metadata
            self.columns = _columns(self._metadata)
        except (pa.ArrowException, OSError, ValueError) as error:
            raise RunError(f"{path} cannot be read as Parquet: {error}. Restore it from a copy.") from error

    def __len__(self) -> int:
        return int(self._metadata.num_row_groups)

    @cached_property
    def metadata(self) -> Mapping[bytes, bytes]:
        """The key-value pairs in the index."""
        return self._metadata.metadata or {}

    def group(self, number: int) -> Group:
        """A row group; a RunError where the file has none of this number, or its chunks lie outside the file."""
        if not 0 <= number < len(self):
            raise RunError(f"{self.path} has {len(self)} row groups, not number {number}. Restore it from a copy.")
        return _group(self._metadata.row_group(number), self.end, self.path)

    def original(self, number: int, tail: bytes) -> bytes:
        """The file that a row group came from: its chunks, then its own index."""
        _, chunks = self.group(number)
        with open_regular(self.path) as stream:
            return MAGIC + b"".join(_read(stream, chunk) for chunk in chunks) + tail


def split_file(content: bytes) -> tuple[tuple[Column, ...], Group, bytes]:
    """Columns, row group and tail of a Parquet file of one row group; a ValueError where it is laid out otherwise.

    The chunks must follow each other without a gap: MAGIC + chunks + tail is the content again.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        metadata = pq.ParquetFile(io.BytesIO(content)).metadata
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"not Parquet: {error}") from error
    if metadata.num_row_groups != 1:
        raise ValueError(f"{metadata.num_row_groups} row groups, not one")
    end = len(content) - metadata.serialized_size - 8
    columns, group = _columns(metadata), _group(metadata.row_group(0), end, None)
    place = len(MAGIC)
    for chunk in group[1]:
        if chunk.start != place:
            raise ValueError(f"a column starts at byte {chunk.start}, not {place}")
        place += chunk.size
    if place != end or content[: len(MAGIC)] != MAGIC:
        raise ValueError(f"the columns end at byte {place}, the index begins at {end}")
    return columns, group, content[end:]


class GroupWriter:
    """Collects row groups of files with equal columns, after the groups of an earlier file, whose numbers stay.

    `changed` says whether a row group was added.
    """

    def __init__(self, earlier: GroupFile | None = None) -> None:
        self.columns = earlier.columns if earlier else None
        self.groups: list[Group] = [earlier.group(number) for number in range(len(earlier))] if earlier else []
        self.body = bytearray()
        if earlier:
            with open_regular(earlier.path) as stream:
                stream.seek(len(MAGIC))
                self.body += stream.read(earlier.end - len(MAGIC))
        self._places = {self._digest(chunk): chunk.start for _, chunks in self.groups for chunk in chunks}
        self._numbers = {group: number for number, group in enumerate(self.groups)}
        self.changed = False

    def add(self, content: bytes) -> tuple[int, bytes]:
        """The number of the row group that holds this file's chunks, and the file's tail.

        A ValueError where the file has other columns, or a layout that cannot be put together again.
        """
        columns, (rows, chunks), tail = split_file(content)
        if self.columns is not None and columns != self.columns:
            raise ValueError(f"its columns are {columns}, not {self.columns}")
        self.columns = columns
        group = rows, tuple(self._placed(chunk, content) for chunk in chunks)
        if group not in self._numbers:
            self._numbers[group] = len(self.groups)
            self.groups.append(group)
            self.changed = True
        return self._numbers[group], tail

    def write(self, path: Path, metadata: Mapping[str, str]) -> None:
        """Write all row groups to a file."""
        index = _index(self.columns or (), self.groups, metadata)
        tail = index + len(index).to_bytes(4, "little") + MAGIC
        with path.open("wb") as stream:
            stream.write(MAGIC)
            stream.write(self.body)
            stream.write(seal(tail))
            stream.write(tail)

    def _placed(self, chunk: Chunk, content: bytes) -> Chunk:
        pages = content[chunk.start : chunk.start + chunk.size]
        key = hashlib.sha256(pages).digest()
        if key not in self._places:
            self._places[key] = len(MAGIC) + len(self.body)
            self.body += pages
        return replace(chunk, start=self._places[key])

    def _digest(self, chunk: Chunk) -> bytes:
        start = chunk.start - len(MAGIC)
        return hashlib.sha256(self.body[start : start + chunk.size]).digest()


def seal(tail: bytes) -> bytes:
    """The bytes that stand before the tail of a file (its index, the index's length, MAGIC) and hold its checksum."""
    return SEAL + hashlib.sha256(tail).digest()


def check_seal(stream: BinaryIO) -> int:
    """Where the seal of a file begins; a ValueError where the tail does not fit it, or there is none.

    Nothing of the index is parsed before its checksum holds.
    """
    size = stream.seek(0, os.SEEK_END)
    stream.seek(max(0, size - 8))
    end = stream.read(8)
    start = size - 8 - int.from_bytes(end[:4], "little") - SEAL_BYTES
    if len(end) < 8 or end[4:] != MAGIC or start < len(MAGIC):
        raise ValueError("it is not whole")
    stream.seek(start)
    found, tail = stream.read(SEAL_BYTES), stream.read()
    stream.seek(0)
    if found != seal(tail):
        raise ValueError("its index does not fit its checksum")
    return start


def _columns(metadata: Any) -> tuple[Column, ...]:
    found = []
    for number in range(metadata.num_columns):
        column = metadata.schema.column(number)
        if column.max_repetition_level or column.max_definition_level > 1 or column.physical_type not in TYPES:
            raise ValueError(f"column {column.path} is nested or of type {column.physical_type}")
        text = column.logical_type.type == "STRING"
        found.append(Column(column.name, column.physical_type, text, column.max_definition_level == 1))
    return tuple(found)


def _group(row_group: Any, end: int, path: Path | None) -> Group:
    chunks = []
    for number in range(row_group.num_columns):
        column = row_group.column(number)
        first = column.dictionary_page_offset if column.has_dictionary_page else column.data_page_offset
        known = set(column.encodings) <= {*ENCODINGS} and column.compression in CODECS
        if not (known and len(MAGIC) <= first and 0 <= column.total_compressed_size <= end - first):
            reason = f"column {column.path_in_schema} lies outside the file or has an unknown encoding"
            raise RunError(f"{path} is damaged: {reason}. Restore it from a copy.") if path else ValueError(reason)
        chunks.append(
            Chunk(
                start=first,
                size=column.total_compressed_size,
                unpacked=column.total_uncompressed_size,
                values=column.num_values,
                data_page=column.data_page_offset - first,
                dictionary=column.has_dictionary_page,
                encodings=tuple(column.encodings),
                codec=column.compression,
            )
        )
    return row_group.num_rows, tuple(chunks)


def _read(stream: io.BufferedReader, chunk: Chunk) -> bytes:
    stream.seek(chunk.start)
    return stream.read(chunk.size)


# The index in Thrift's compact protocol. A value is the code of its type and its bytes.
Value = tuple[int, bytes]


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def _i32(number: int) -> Value:
    return 5, _varint(2 * number)


def _i64(number: int) -> Value:
    return 6, _varint(2 * number)


def _text(text: str) -> Value:
    return 8, _varint(len(text.encode())) + text.encode()


def _list(code: int, values: Iterable[Value]) -> Value:
    payloads = [payload for _, payload in values]
    size = len(payloads)
    head = bytes([size << 4 | code]) if size < 15 else bytes([0xF0 | code]) + _varint(size)
    return 9, head + b"".join(payloads)


def _struct(fields: Mapping[int, Value]) -> Value:
    out, last = bytearray(), 0
    for number, (code, payload) in sorted(fields.items()):
        out += bytes([number - last << 4 | code]) + payload
        last = number
    return 12, bytes(out) + b"\0"


def _index(columns: Sequence[Column], groups: Sequence[Group], metadata: Mapping[str, str]) -> bytes:
    leaves = [
        _struct(
            {
                1: _i32(TYPES[column.kind]),
                3: _i32(int(column.optional)),
                4: _text(column.name),
                **({6: _i32(0)} if column.text else {}),
            }
        )
        for column in columns
    ]
    schema = [_struct({4: _text("schema"), 5: _i32(len(columns))}), *leaves]
    pairs = [_struct({1: _text(key), 2: _text(value)}) for key, value in metadata.items()]
    fields = {
        1: _i32(2),
        2: _list(12, schema),
        3: _i64(sum(rows for rows, _ in groups)),
        4: _list(12, [_row_group(columns, group) for group in groups]),
        **({5: _list(12, pairs)} if pairs else {}),
        6: _text("conjoin"),
    }
    return _struct(fields)[1]


def _row_group(columns: Sequence[Column], group: Group) -> Value:
    rows, chunks = group
    return _struct(
        {
            1: _list(12, [_chunk(column, chunk) for column, chunk in zip(columns, chunks, strict=True)]),
            2: _i64(sum(chunk.unpacked for chunk in chunks)),
            3: _i64(rows),
        }
    )


def _chunk(column: Column, chunk: Chunk) -> Value:
    pages = {
        1: _i32(TYPES[column.kind]),
        2: _list(5, [_i32(ENCODINGS[name]) for name in chunk.encodings]),
        3: _list(8, [_text(column.name)]),
        4: _i32(CODECS[chunk.codec]),
        5: _i64(chunk.values),
        6: _i64(chunk.unpacked),
        7: _i64(chunk.size),
        9: _i64(chunk.start + chunk.data_page),
        **({11: _i64(chunk.start)} if chunk.dictionary else {}),
    }
    return _struct({2: _i64(0), 3: _struct(pages)})
