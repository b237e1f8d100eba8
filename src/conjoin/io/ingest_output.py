"""Write the results of an ingest: Parquet tables for other programs, arrays for this one."""

from __future__ import annotations

import os
from array import array
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from conjoin.graph.column_roles import PLACES
from conjoin.graph.filter import Ids
from conjoin.graph.graph import SPLITS, Split
from conjoin.graph.mmap_names import pack_names
from conjoin.io.graph_arrays import LABELS, NAMES, GrowingArray, rows_of
from conjoin.io.name_checks import OddNames

BLANK = "_:"
SOME = 1000
"""Odd names of each kind that are kept, to look up whether their usual spelling occurs too."""
ZSTD = {"compression": "zstd", "compression_level": 1}


@dataclass
class IngestedNames:
    """Counts, digests and odd spellings of names, collected while the names are written in id order."""

    table: Path
    count: int = 0
    labelled: int = 0
    blank: Counter[str] = field(default_factory=Counter)
    digests: bytearray = field(default_factory=bytearray)
    odd: OddNames = field(default_factory=lambda: OddNames(most=SOME))

    def notes(self, kind: str) -> list[str]:
        """The notes on oddly spelled names."""
        return self.odd.notes(kind, self._existing)

    def _existing(self, names: list[str]) -> set[str]:
        """Those of `names` that are in the table."""
        import pyarrow.parquet as pq

        rows = pq.read_table(self.table, columns=["name"], filters=[("name", "in", names)])
        return {*rows.column(0).to_pylist()}


def write_names(
    batches: Iterable[Any], table: Path, *, arrays: Path | None = None, key: bytes | None = None
) -> IngestedNames:
    """Write sorted names and labels to a Parquet table, and to arrays in the folder `arrays` if it is given.

    With a `key`, collect the digests that determine the split.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    written = IngestedNames(table)
    columns = _NameArrays(arrays) if arrays else None
    schema = pa.schema([("name", pa.string()), ("label", pa.string())])
    with table.open("wb") as stream, pq.ParquetWriter(stream, schema, compression="zstd") as writer:
        for batch in batches:
            names, labels = (batch.column(i).cast(pa.string()) for i in range(2))
            writer.write_batch(pa.RecordBatch.from_arrays([names, labels], schema=schema))
            written.count += len(names)
            written.labelled += len(labels) - labels.null_count
            if columns:
                columns.append(names, labels)
            _examine(names.to_pylist(), key, written)
    if columns:
        columns.close(labelled=written.labelled > 0)
    sync(table)
    return written


def _examine(names: list[str], key: bytes | None, written: IngestedNames) -> None:
    if key is not None:
        for name in names:
            written.digests += blake2b(name.encode(), digest_size=8, key=key).digest()
    written.odd.look_at(names)
    written.blank.update(name[len(BLANK) :].partition(".")[0] for name in names if name.startswith(BLANK))


class _NameArrays:
    """Growing arrays of names and labels."""

    def __init__(self, folder: Path) -> None:
        self._files = [folder / file for file in (*NAMES, *LABELS)]
        self._arrays = [GrowingArray(file, kind) for file, kind in zip(self._files, ("|u1", "<i8") * 2, strict=True)]
        for starts in self._arrays[1::2]:
            starts.append(np.zeros(1, np.int64))

    def append(self, names: Any, labels: Any) -> None:
        for column, content, starts in ((names, *self._arrays[:2]), (labels.fill_null(""), *self._arrays[2:])):
            text, offsets = pack_names(column)
            starts.append(offsets[1:] + content.length)
            content.append(text)

    def close(self, *, labelled: bool) -> None:
        for each in self._arrays:
            each.close()
        for file in () if labelled else self._files[2:]:
            file.unlink()


def write_ids(batches: Iterable[Any], file: Path, *, count: CountUse | None = None) -> int:
    """Write ids (head, relation, tail) to an array and add them to `count`. Returns the number of triples."""
    rows = GrowingArray(file, "<i8", columns=3)
    for batch in batches:
        triples = np.stack([batch.column(i).to_numpy() for i in range(3)], axis=1)
        rows.append(triples)
        if count:
            count.add(triples)
    rows.close()
    return rows.length


class CountUse:
    """How often every entity and every relation occurs."""

    def __init__(self, n_entities: int, n_relations: int) -> None:
        self.entities, self.relations = np.zeros(n_entities, np.int64), np.zeros(n_relations, np.int64)

    def add(self, triples: Ids) -> None:
        np.add.at(self.entities, triples[:, [0, 2]].ravel(), 1)
        np.add.at(self.relations, triples[:, 1], 1)


def write_splits(ids: Path, folder: Path, *, held_out: dict[Split, array[int]]) -> None:
    """Write the rows of an array to train.npy, valid.npy and test.npy; `held_out` has the rows of valid and test."""
    ordered = {
        name: np.sort(np.frombuffer(rows, np.int64)) if rows else np.empty(0, np.int64)
        for name, rows in held_out.items()
    }
    files = {split: GrowingArray(folder / f"{split}.npy", "<i8", columns=3) for split in SPLITS}
    first = 0
    for triples in rows_of(ids):
        stays = np.ones(len(triples), dtype=bool)
        for name, rows in ordered.items():
            low, high = np.searchsorted(rows, (first, first + len(triples)))
            here = rows[low:high] - first
            files[name].append(triples[here])
            stays[here] = False
        files["train"].append(triples[stays])
        first += len(triples)
    for file in files.values():
        file.close()


def write_triples(folder: Path) -> dict[str, int]:
    """Write the three arrays as one Parquet table too. Returns the number of triples of each split."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    kind = pa.dictionary(pa.int8(), pa.string())
    schema = pa.schema([*((role, pa.int64()) for role in PLACES), ("split", kind)])
    counts: dict[str, int] = dict.fromkeys(SPLITS, 0)
    table = folder / "triples.parquet"
    with table.open("wb") as stream, pq.ParquetWriter(stream, schema, **ZSTD) as writer:
        for number, split in enumerate(SPLITS):
            for rows in rows_of(folder / f"{split}.npy"):
                splits = pa.DictionaryArray.from_arrays(np.full(len(rows), number, np.int8), list(SPLITS))
                columns = [pa.array(np.ascontiguousarray(rows[:, i])) for i in range(3)]
                writer.write_batch(pa.RecordBatch.from_arrays([*columns, splits], schema=schema))
                counts[split] += len(rows)
    sync(table)
    return counts


def sync(file: Path) -> None:
    """Flush a file to disk, so that it survives a power cut."""
    with file.open("rb+") as stream:
        os.fsync(stream.fileno())
