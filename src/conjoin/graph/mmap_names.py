"""Names that stay on disk: a memory-mapped array of UTF-8 bytes, and one with the start of each name.

A name is decoded on access. The names of a vocabulary are sorted, so an id is found by bisection, without a dictionary
of all names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from conjoin.errors import GraphError

Bytes = npt.NDArray[np.uint8]
Starts = npt.NDArray[np.int64]
CHUNK = 50_000


class MmapNames(Sequence[str]):
    """Name i is the text of content[starts[i]:starts[i + 1]]."""

    def __init__(self, content: Bytes, starts: Starts) -> None:
        self.content, self.starts = content, starts

    def __len__(self) -> int:
        return len(self.starts) - 1

    @overload
    def __getitem__(self, i: int) -> str: ...
    @overload
    def __getitem__(self, i: slice) -> tuple[str, ...]: ...
    def __getitem__(self, i: int | slice) -> str | tuple[str, ...]:
        if isinstance(i, slice):
            return tuple(self[j] for j in range(*i.indices(len(self))))
        if not -len(self) <= i < len(self):
            raise IndexError(i)
        return _decoded(self.encoded(i % len(self)))

    def __iter__(self) -> Iterator[str]:
        for first in range(0, len(self), CHUNK):
            starts = self.starts[first : first + CHUNK + 1].tolist()
            text = self.content[starts[0] : starts[-1]].tobytes()
            for start, stop in pairwise(starts):
                yield _decoded(text[start - starts[0] : stop - starts[0]])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and len(self) == len(other) and all(map(str.__eq__, self, other))

    __hash__ = None  # type: ignore[assignment]

    def encoded(self, i: int) -> bytes:
        """Name i as it is stored."""
        return self.content[self.starts[i] : self.starts[i + 1]].tobytes()


def _decoded(name: bytes) -> str:
    try:
        return name.decode()
    except UnicodeDecodeError as error:
        raise GraphError(f"A name in the stored graph is not valid UTF-8: {error}. Store the graph again.") from error


class SortedIndex(Mapping[str, int]):
    """Name to id over sorted packed names, by bisection. UTF-8 sorts as its characters do."""

    def __init__(self, names: MmapNames) -> None:
        self._names = names

    def __getitem__(self, name: str) -> int:
        index = self._bisect(encoded := name.encode("utf-8", "surrogatepass"))
        if index < len(self._names) and self._names.encoded(index) == encoded:
            return index
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.get(name) is not None

    def beginning(self, start: str, *, limit: int) -> list[str]:
        """Up to `limit` names that begin with `start`, in sorted order."""
        first = self._bisect(start.encode("utf-8", "surrogatepass"))
        matches = []
        for i in range(first, min(len(self), first + limit)):
            if not (name := self._names[i]).startswith(start):
                break
            matches.append(name)
        return matches

    def _bisect(self, word: bytes) -> int:
        """The number of names before `word`."""
        low, high = 0, len(self._names)
        while low < high:
            middle = (low + high) // 2
            if self._names.encoded(middle) < word:
                low = middle + 1
            else:
                high = middle
        return low


def pack_names(column: Any) -> tuple[Bytes, Starts]:
    """The bytes and the starts (from 0) of an Arrow array of strings without nulls."""
    kind = np.int64 if str(column.type).startswith("large") else np.int32
    _, offsets, content = column.buffers()
    starts = np.frombuffer(offsets, kind, len(column) + 1, column.offset * np.dtype(kind).itemsize).astype(np.int64)
    text = np.frombuffer(content, np.uint8) if content is not None else np.empty(0, np.uint8)
    return text[starts[0] : starts[-1]], starts - starts[0]
