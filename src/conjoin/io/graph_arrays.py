"""The memory-mapped arrays of a stored graph.

train.npy, valid.npy, test.npy            (n, 3) int64: head, relation, tail
entity_names.npy, entity_starts.npy       UTF-8 bytes of all names in id order, and where each starts (n + 1)
entity_labels.npy, entity_label_starts.npy  the same for labels, where there are any; empty for an entity without one

Plain NumPy files: `numpy.load(file, mmap_mode="r")` opens them anywhere.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from tokenize import TokenError
from typing import Any

import numpy as np
import numpy.typing as npt

from conjoin.graph.graph import SPLITS, Graph, Ids, Vocabulary
from conjoin.graph.mmap_names import MmapNames
from conjoin.runtime.atomic_files import proper, sync_file

NAMES = ("entity_names.npy", "entity_starts.npy")
LABELS = ("entity_labels.npy", "entity_label_starts.npy")
ARRAYS = (*(f"{split}.npy" for split in SPLITS), *NAMES, *LABELS)
READ = (*ARRAYS, "relations.parquet")
"""The files that opening such a graph reads; entities.parquet and triples.parquet are for other programs."""
CHUNK_ROWS = 1 << 18
CHUNK_NAMES = 1 << 15
UNREADABLE = (SyntaxError, TokenError, RecursionError, MemoryError, OverflowError, TypeError, KeyError, EOFError)
"""Errors that NumPy raises, besides ValueError and OSError, for a file without a valid .npy header."""


class GrowingArray:
    """A .npy file that is written piece by piece; `close` fills in its length."""

    def __init__(self, file: Path, dtype: str, *, columns: int | None = None) -> None:
        self._stream = file.open("wb")
        self._dtype, self._columns, self.length = np.dtype(dtype), columns, 0
        self._header()
        self._start = self._stream.tell()

    def append(self, part: npt.NDArray[Any]) -> None:
        self._stream.write(np.ascontiguousarray(part, dtype=self._dtype).data)
        self.length += len(part)

    def close(self) -> None:
        """Write the length and sync to disk."""
        self._stream.seek(0)
        self._header()
        assert self._stream.tell() == self._start, "NumPy keeps room for the length in the header"
        self._stream.flush()
        os.fsync(self._stream.fileno())
        self._stream.close()

    def _header(self) -> None:
        shape = (self.length,) if self._columns is None else (self.length, self._columns)
        header = {"descr": np.lib.format.dtype_to_descr(self._dtype), "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(self._stream, header)


def mapped_graph(folder: Path, relations: Vocabulary, *, labelled: bool, name: str, notes: Sequence[str]) -> Graph:
    """The graph of a folder with memory-mapped arrays. Raises ValueError if the arrays contradict each other."""
    labels = _names(folder, LABELS) if labelled else ()
    entities = Vocabulary("entity", _names(folder, NAMES), labels)
    train, valid, test = (_mapped(folder / f"{split}.npy") for split in SPLITS)
    limits = (len(entities), len(relations), len(entities))
    for split in SPLITS:
        for rows in rows_of(folder / f"{split}.npy"):
            if bool((rows < 0).any()) or bool((rows >= limits).any()):
                raise ValueError(f"{split}.npy contains ids outside the vocabulary")
    return Graph(entities, relations, train, valid, test, name=name, notes=tuple(notes))


def _names(folder: Path, files: Sequence[str]) -> MmapNames:
    """Names whose starts increase from 0 to the length of the text; a ValueError otherwise."""
    content, starts = (_mapped(folder / file) for file in files)
    pieces = range(0, len(starts), CHUNK_ROWS)
    rising = all(bool((np.diff(starts[first : first + CHUNK_ROWS + 1]) >= 0).all()) for first in pieces)
    if not rising or not len(starts) or starts[0] != 0 or starts[-1] != len(content):
        raise ValueError(f"{files[1]} does not fit {files[0]}")
    return MmapNames(content, starts)


def _mapped(file: Path) -> Any:
    """The memory-mapped array of a file, with the dtype and shape that belong to the file's name."""
    columns: tuple[int, ...] = (3,) if file.stem in SPLITS else ()
    kind = np.uint8 if file.name in (NAMES[0], LABELS[0]) else np.int64
    proper(file)
    try:
        array = np.lib.format.open_memmap(file, mode="r")
    except UNREADABLE as error:
        raise ValueError(f"{file.name} is not an array: {error}") from error
    if array.dtype != kind or array.shape[1:] != columns or array.ndim == 0 or not array.flags.c_contiguous:
        raise ValueError(f"{file.name} has the unexpected dtype {array.dtype} or shape {array.shape}")
    return array


def home_of(graph: Graph) -> Path | None:
    """The folder whose complete, unchanged arrays make up this graph, or None."""
    homes = {_home(graph.triples(split), f"{split}.npy") for split in SPLITS}
    for texts, files in ((graph.entities.names, NAMES), (graph.entities.labels, LABELS)):
        if isinstance(texts, MmapNames):
            homes |= {_home(part, file) for part, file in zip((texts.content, texts.starts), files, strict=True)}
        elif len(texts):
            return None
    return homes.pop() if len(homes) == 1 else None


def _home(part: Any, file: str) -> Path | None:
    name = getattr(part, "filename", None)
    if not isinstance(part, np.memmap) or name is None or Path(name).name != file:
        return None
    if not Path(name).exists():
        return None
    whole = _mapped(Path(name))
    return Path(name).parent if (whole.shape, whole.strides) == (part.shape, part.strides) else None


def link_files(home: Path, target: Path, files: Iterable[str]) -> None:
    """Hard-link files of one folder into another; copy them if the file system has no hard links."""
    for file in files:
        try:
            os.link(home / file, target / file)
        except OSError:
            shutil.copyfile(home / file, target / file)
            sync_file(target / file)


def rows_of(file: Path) -> Iterator[Ids]:
    """The rows of a stored split in pieces (n, 3), read and not mapped, so that they do not stay in memory."""
    stream = file.open("rb")
    try:
        if np.lib.format.read_magic(stream) != (1, 0):
            raise ValueError(f"{file.name} is not in version 1.0 of the .npy format")
        (n_rows, columns), _, dtype = np.lib.format.read_array_header_1_0(stream)
        for start in range(0, n_rows, CHUNK_ROWS):
            rows = np.empty((min(CHUNK_ROWS, n_rows - start), columns), dtype)
            octets = rows.reshape(-1).view(np.uint8)
            if stream.readinto(octets.data) != len(octets):  # np.fromfile would treat a read error as the end
                raise ValueError(f"{file.name} is shorter than its header says")
            yield rows
    finally:
        with suppress(OSError):  # the file was only read, and a caller that stopped early cannot handle an error
            stream.close()


def stored_names(folder: Path) -> MmapNames:
    """The entity names of a folder that is being written, memory-mapped."""
    return MmapNames(*(_mapped(folder / file) for file in NAMES))


def checksum_of(folder: Path, relations: Sequence[str]) -> str:
    """`Graph.checksum` of a folder with arrays, computed in pieces."""
    digest = hashlib.sha256()
    names = stored_names(folder)
    for start in range(0, len(names), CHUNK_NAMES):
        digest.update(_prefixed(names, start, min(start + CHUNK_NAMES, len(names))))
    for name in relations:
        encoded = name.encode("utf-8", "surrogatepass")
        digest.update(len(encoded).to_bytes(8, "little") + encoded)
    for split in SPLITS:
        file = folder / f"{split}.npy"
        digest.update(len(_mapped(file)).to_bytes(8, "little"))
        for rows in rows_of(file):
            digest.update(np.ascontiguousarray(rows, dtype="<i8").data)
    return digest.hexdigest()


def _prefixed(names: MmapNames, start: int, stop: int) -> Any:
    """Names start:stop, each as its length in eight bytes, followed by its content."""
    starts = np.asarray(names.starts[start : stop + 1])
    lengths, content = np.diff(starts), np.asarray(names.content[starts[0] : starts[-1]])
    begins = starts[:-1] - starts[0] + 8 * np.arange(len(lengths))
    written = np.empty(len(content) + 8 * len(lengths), np.uint8)
    written[begins[:, None] + np.arange(8)] = lengths.astype("<i8").view(np.uint8).reshape(-1, 8)
    written[np.arange(len(content)) + 8 * (1 + np.repeat(np.arange(len(lengths)), lengths))] = content
    return written.data
