"""Read the page headers of a Parquet file: the memory that its pages need, before any of them is unpacked.

A page header states the unpacked size in 32 bits, and Arrow allocates it. So a file of some kilobytes can allocate
gigabytes. Footer and headers are structs of Thrift's compact protocol. They are read here because pyarrow does not
expose page headers, and because its `metadata` of a damaged footer aborts the process.
"""

from __future__ import annotations

import os
from collections.abc import Container, Iterator
from typing import BinaryIO

MAGIC = b"PAR1"
HEADER = 1 << 10
LARGEST_HEADER = 16 << 20
"""The most bytes of a header, the limit of Arrow: old writers put the least and the greatest value into it."""
TRUE, FALSE, BYTE, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = 1, 2, 3, 6, 7, 8, 9, 10, 11, 12
DEEPEST = 16


def largest_page(stream: BinaryIO, columns: Container[int]) -> int:
    """Unpacked bytes of the largest page of these columns, by its header; 0 if there is none.

    `columns` are the indices of leaves in the schema. On unreadable data the search ends: Arrow reports the reason.
    """
    largest = 0
    try:
        for column, start, size in _chunks(_footer(stream)):
            if column in columns:
                largest = max(largest, *_pages(stream, start, size), 0)
    except (ValueError, IndexError):
        pass
    stream.seek(0)
    return largest


class _Compact:
    """A cursor in bytes of Thrift's compact protocol, moved by reading or skipping values."""

    def __init__(self, content: bytes) -> None:
        self.content, self.at = content, 0

    def fields(self) -> Iterator[tuple[int, int]]:
        """Number and kind of each field of a struct. The caller reads or skips its value before the next."""
        number = 0
        while True:
            byte = self._byte()
            if not byte & 15:
                return
            number = number + (byte >> 4) if byte >> 4 else self.whole()
            yield number, byte & 15

    def items(self) -> Iterator[int]:
        """The kind of each member of a list. The caller reads or skips each member before the next."""
        byte = self._byte()
        count = byte >> 4 if byte >> 4 < 15 else self._varint()
        yield from (byte & 15 for _ in self._bounded(count))

    def whole(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)

    def skip(self, kind: int, depth: int = 0, *, member: bool = False) -> None:
        """Skip a value. The kind of a boolean field is its value; a boolean in a list takes a byte."""
        if depth > DEEPEST:
            raise ValueError("nested too deep")
        if kind in (TRUE, FALSE):
            self.at += member
        elif kind in (BYTE, DOUBLE):
            self.at += 1 if kind == BYTE else 8
        elif kind <= I64:
            self._varint()
        elif kind == BINARY:
            length = self._varint()  # in its own line, because reading moves self.at
            self.at += length
        elif kind in (LIST, SET):
            for each in self.items():
                self.skip(each, depth + 1, member=True)
        elif kind == MAP:
            count = self._varint()
            byte = self._byte() if count else 0
            for _ in self._bounded(count):
                self.skip(byte >> 4, depth + 1, member=True)
                self.skip(byte & 15, depth + 1, member=True)
        elif kind == STRUCT:
            for _, each in self.fields():
                self.skip(each, depth + 1)
        else:
            raise ValueError(f"no kind {kind}")

    def _byte(self) -> int:
        self.at += 1
        return self.content[self.at - 1]

    def _varint(self) -> int:
        value = shift = 0
        while shift < 64:
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7
        raise ValueError("no number")

    def _bounded(self, count: int) -> range:
        if count > len(self.content) - self.at:
            raise IndexError("more members than bytes")
        return range(count)


def _footer(stream: BinaryIO) -> bytes:
    end = stream.seek(0, os.SEEK_END)
    stream.seek(max(0, end - 8))
    last = stream.read(8)
    size = int.from_bytes(last[:4], "little")
    if last[4:] != MAGIC or size > end - 8:
        raise ValueError("no footer")
    stream.seek(end - 8 - size)
    return stream.read(size)


def _chunks(footer: bytes) -> Iterator[tuple[int, int, int]]:
    """The chunks of all columns: index of the column, start, number of bytes."""
    cursor = _Compact(footer)
    for number, kind in cursor.fields():
        if (number, kind) != (4, LIST):
            cursor.skip(kind)
            continue
        for _ in cursor.items():
            for inner, its_kind in cursor.fields():
                if (inner, its_kind) != (1, LIST):
                    cursor.skip(its_kind)
                    continue
                for column, _ in enumerate(cursor.items()):
                    yield column, *_extent(cursor)


def _extent(cursor: _Compact) -> tuple[int, int]:
    """Start and size of a chunk, by the same fields that Arrow reads."""
    values: dict[int, int] = {}
    for number, kind in cursor.fields():
        if (number, kind) != (3, STRUCT):
            cursor.skip(kind)
            continue
        for inner, its_kind in cursor.fields():
            if inner in (7, 9, 11) and BYTE < its_kind <= I64:
                values[inner] = cursor.whole()
            else:
                cursor.skip(its_kind)
    start, dictionary = values.get(9, 0), values.get(11, 0)
    return dictionary if 0 < dictionary < start else start, values.get(7, 0)


def _pages(stream: BinaryIO, start: int, size: int) -> Iterator[int]:
    """Unpacked bytes of each page of a chunk."""
    at = start
    while 0 <= at < start + size:
        unpacked, packed, header = _header(stream, at)
        yield unpacked
        at += header + packed


def _header(stream: BinaryIO, at: int) -> tuple[int, int, int]:
    """Unpacked and packed bytes of a page, and the bytes of its header."""
    size = HEADER
    while True:
        stream.seek(at)
        cursor = _Compact(stream.read(size))
        values: dict[int, int] = {}
        try:
            for number, kind in cursor.fields():
                if number in (2, 3) and BYTE < kind <= I64:
                    values[number] = cursor.whole()
                else:
                    cursor.skip(kind)
        except IndexError:
            if len(cursor.content) < size or size >= LARGEST_HEADER:
                raise
            size *= 16
            continue
        if min(values.get(2, -1), values.get(3, -1)) < 0 or cursor.at > len(cursor.content):
            raise ValueError("not the header of a page")
        return values[2], values[3], cursor.at
