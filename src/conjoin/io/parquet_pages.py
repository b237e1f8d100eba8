"""The page headers of a Parquet file: how much memory its pages will take, before any of them is unpacked.

A page says its size when unpacked in 32 bits, and Arrow makes room for that. A file of some kilobytes can thus ask for
gigabytes. Footer and headers are structs of Thrift's compact protocol. They are read here because pyarrow does not show
page headers, and ends the process where a damaged footer is looked at through its `metadata`.
"""

from __future__ import annotations

import os
from collections.abc import Container, Iterator
from typing import BinaryIO

MAGIC = b"PAR1"
HEADER = 1 << 10
LARGEST_HEADER = 16 << 20
"""Bytes of a header, as much as Arrow reads: old writers put the least and the greatest value into it."""
TRUE, FALSE, BYTE, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = 1, 2, 3, 6, 7, 8, 9, 10, 11, 12
DEEPEST = 16


def largest_page(stream: BinaryIO, columns: Container[int]) -> int:
    """Bytes of the largest page of these columns when it is unpacked, as its header says; 0 where there is none.

    Columns are the places of leaves in the schema. Where something cannot be read the walk ends: Arrow says why.
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
    """A place in bytes of Thrift's compact protocol that moves on as values are read or skipped."""

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
        """The kind of each member of a list, as often as there are members, each to be read or skipped."""
        byte = self._byte()
        count = byte >> 4 if byte >> 4 < 15 else self._varint()
        yield from (byte & 15 for _ in self._bounded(count))

    def whole(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)

    def skip(self, kind: int, depth: int = 0, *, member: bool = False) -> None:
        """Pass over a value. Of a field that is true or false the kind is the value; a member of a list has a byte."""
        if depth > DEEPEST:
            raise ValueError("nested too deep")
        if kind in (TRUE, FALSE):
            self.at += member
        elif kind in (BYTE, DOUBLE):
            self.at += 1 if kind == BYTE else 8
        elif kind <= I64:
            self._varint()
        elif kind == BINARY:
            length = self._varint()  # before the place is read: reading moves it
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
    """Each chunk of a column: the column's place, where it starts, and how many bytes it has."""
    place = _Compact(footer)
    for number, kind in place.fields():
        if (number, kind) != (4, LIST):
            place.skip(kind)
            continue
        for _ in place.items():
            for inner, its_kind in place.fields():
                if (inner, its_kind) != (1, LIST):
                    place.skip(its_kind)
                    continue
                for column, _ in enumerate(place.items()):
                    yield column, *_extent(place)


def _extent(place: _Compact) -> tuple[int, int]:
    """Start and size of a chunk, where Arrow looks for it."""
    told: dict[int, int] = {}
    for number, kind in place.fields():
        if (number, kind) != (3, STRUCT):
            place.skip(kind)
            continue
        for inner, its_kind in place.fields():
            if inner in (7, 9, 11) and BYTE < its_kind <= I64:
                told[inner] = place.whole()
            else:
                place.skip(its_kind)
    start, dictionary = told.get(9, 0), told.get(11, 0)
    return dictionary if 0 < dictionary < start else start, told.get(7, 0)


def _pages(stream: BinaryIO, start: int, size: int) -> Iterator[int]:
    """Bytes of each page of a chunk when unpacked."""
    at = start
    while 0 <= at < start + size:
        unpacked, packed, header = _header(stream, at)
        yield unpacked
        at += header + packed


def _header(stream: BinaryIO, at: int) -> tuple[int, int, int]:
    """Bytes of a page unpacked, packed, and of its header."""
    size = HEADER
    while True:
        stream.seek(at)
        place = _Compact(stream.read(size))
        told: dict[int, int] = {}
        try:
            for number, kind in place.fields():
                if number in (2, 3) and BYTE < kind <= I64:
                    told[number] = place.whole()
                else:
                    place.skip(kind)
        except IndexError:
            if len(place.content) < size or size >= LARGEST_HEADER:
                raise
            size *= 16
            continue
        if min(told.get(2, -1), told.get(3, -1)) < 0 or place.at > len(place.content):
            raise ValueError("not the header of a page")
        return told[2], told[3], place.at
