"""A graph in a folder of its own, exactly as it is: names, labels, ids, splits and notes.

entities.parquet    name, label        in id order
relations.parquet   name, label
triples.parquet     head, relation, tail (ids), split
graph.json          name, notes, counts, the graph's checksum, sha256 of each file and of graph.json itself

A graph that was ingested has its ids and names in memory-mapped arrays beside these, see `conjoin.io.graph_arrays`.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from conjoin.errors import GraphError
from conjoin.graph.column_roles import PLACES
from conjoin.graph.graph import SPLITS, Graph, Vocabulary
from conjoin.io.formats import AnyPath
from conjoin.io.graph_arrays import ARRAYS, LABELS, READ, home_of, link_files, mapped_graph
from conjoin.runtime import file_limits
from conjoin.runtime.atomic_files import digest, parse_json, proper, read_limited, sha256_of, sync_folder

STORED = "graph.json"
VERSION = 1
WITH_ARRAYS = 2
TABLES = ("entities.parquet", "relations.parquet", "triples.parquet")
AGAIN = "store the graph again"
BLOCK = 1 << 20
"""Triples that are written together: a row group of Parquet."""


def save_graph(graph: Graph, folder: AnyPath) -> Path:
    """Store the graph. The folder appears complete or not at all; a graph stored there before is replaced by it."""
    target = Path(folder).resolve()
    refuse_other_content(target)
    stage = target.with_name(f".{target.name}.{secrets.token_hex(4)}.partial")
    try:
        stage.mkdir(parents=True)
        if (home := home_of(graph)) and _same(_relations(home), graph.relations):
            _link(graph, home, stage)
        else:
            _write(graph, stage)
        swap(stage, target)
    except OSError as error:
        raise GraphError(f"{folder}: the graph cannot be stored: {error.strerror or error}") from error
    finally:
        shutil.rmtree(stage, ignore_errors=True)
    return target


def open_graph(folder: AnyPath) -> Graph:
    """The graph that `save_graph` or `ingest` stored, after proving that no bit that is read has changed."""
    place = Path(folder)
    record = _record(place / STORED)
    with_arrays = record["version"] == WITH_ARRAYS
    for table, expected in record["files"].items():
        if with_arrays and table not in READ:
            continue
        try:
            found = sha256_of(place / table)
        except OSError as error:
            raise GraphError(f"{place / table}: cannot be read ({error.strerror or error}): {AGAIN}") from error
        if found != expected:
            raise GraphError(f"{place / table} is damaged: its sha256 is not the one in {STORED}; {AGAIN}")
    graph = _map(place, record) if with_arrays else _read(place, record)
    if _counts(graph) != record["counts"] or graph.checksum != record["checksum"]:
        raise GraphError(f"{place}: the graph is not the one {STORED} describes: {AGAIN}")
    return graph


def refuse_other_content(target: Path) -> None:
    """Never replace a folder that holds anything but a stored graph."""
    if target.exists() and not target.is_dir():
        raise GraphError(f"{target} is a file: name a folder for the graph")
    if not target.is_dir():
        return
    strangers = sorted(file.name for file in target.iterdir() if file.name not in (*TABLES, *ARRAYS, STORED))
    if strangers:
        raise GraphError(f"{target} holds other files ({', '.join(strangers[:5])}): name a new folder for the graph")


def swap(stage: Path, target: Path) -> None:
    """Put the complete folder in its place; what was there before goes once the new one stands, or returns."""
    old = stage.with_name(f"{stage.name}.old")
    replaces = target.exists()
    if replaces:
        target.rename(old)
    try:
        stage.rename(target)
        sync_folder(target.parent)
    except BaseException:
        if target.exists():
            target.rename(stage)
        if replaces:
            old.rename(target)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _write(graph: Graph, stage: Path) -> None:
    import pyarrow as pa

    parts = (iter([_names(graph.entities)]), iter([_names(graph.relations)]), _triples(graph))
    for file, tables in zip(TABLES, parts, strict=True):
        _write_tables(tables, stage / file)
    pa.default_memory_pool().release_unused()  # it would keep what writing took for as long as the process lives
    record = {
        "format": "conjoin graph",
        "version": VERSION,
        "name": graph.name,
        "notes": list(graph.notes),
        "bad_lines": list(graph.bad_lines),
        "counts": _counts(graph),
        "checksum": graph.checksum,
        "files": {file: sha256_of(stage / file) for file in TABLES},
    }
    write_record(stage, record)


def write_record(stage: Path, record: dict[str, Any]) -> None:
    """Write graph.json, sealed, as the last file of a folder."""
    record["sha256"] = digest(record)
    with (stage / STORED).open("w", encoding="utf-8", newline="\n") as stream:
        stream.write(_spelled(record))
        stream.flush()
        os.fsync(stream.fileno())
    sync_folder(stage)


def _names(vocabulary: Vocabulary) -> Any:
    import pyarrow as pa

    try:
        names = pa.array(list(vocabulary.names), pa.string())
        labels = (
            pa.array(list(vocabulary.labels), pa.string()) if vocabulary.labels else pa.nulls(len(names), pa.string())
        )
    except UnicodeEncodeError as error:
        raise GraphError(f"{error.object!r} is not valid Unicode and cannot be stored: rename it") from error
    return pa.table({"name": names, "label": labels})


def _triples(graph: Graph) -> Iterator[Any]:
    """All splits as tables, block by block: a second copy of a large graph is never made."""
    count = sum(len(graph.triples(split)) for split in SPLITS)
    return (_block(graph, start) for start in range(0, max(1, count), BLOCK))


def _block(graph: Graph, start: int) -> Any:
    """Rows of `graph.everything()` from `start` on, with their splits."""
    import pyarrow as pa

    parts = []
    for split in SPLITS:
        triples = graph.triples(split)
        parts.append(triples[max(0, start) : max(0, start + BLOCK)])
        start -= len(triples)
    splits = np.repeat(np.arange(len(SPLITS), dtype=np.int8), [len(part) for part in parts])
    ids = zip(PLACES, np.concatenate(parts).T, strict=True)
    return pa.table({**dict(ids), "split": pa.DictionaryArray.from_arrays(splits, list(SPLITS))})


def _write_tables(tables: Iterator[Any], file: Path) -> None:
    """One table or more of the same columns, one below the other."""
    import pyarrow.parquet as pq

    first = next(tables)
    with file.open("wb") as stream:
        with pq.ParquetWriter(stream, first.schema, compression="zstd") as writer:
            for table in chain([first], tables):
                writer.write_table(table)
        stream.flush()
        os.fsync(stream.fileno())


def _record(file: Path) -> dict[str, Any]:
    """What graph.json says, once it is shown to be whole."""
    try:
        text = read_limited(file, file_limits.GRAPH_RECORD)
        record = parse_json(text)
    except FileNotFoundError as error:
        raise GraphError(f"{file.parent} holds no stored graph: there is no {file.name}") from error
    except OSError as error:
        raise GraphError(f"{file}: cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise GraphError(f"{file} is damaged ({error}): {AGAIN}") from error
    if not isinstance(record, dict) or record.get("format") != "conjoin graph":
        raise GraphError(f"{file} is damaged, or does not describe a stored graph: {AGAIN}")
    if text != _spelled(record).encode() or record.pop("sha256", None) != digest(record):
        raise GraphError(f"{file} is damaged: its content does not fit its own checksum; {AGAIN}")
    version = record.get("version")
    if version not in (VERSION, WITH_ARRAYS):
        raise GraphError(f"{file} has format version {version}, this Conjoin reads up to {WITH_ARRAYS}: update it")
    if flaw := _flaw(record):
        raise GraphError(f"{file} does not describe a stored graph: {flaw}; {AGAIN}")
    return record


def _flaw(record: dict[str, Any]) -> str:
    """What a record with a good checksum lacks all the same, for anyone can write a checksum; empty if nothing."""
    files, notes, bad = record.get("files"), record.get("notes"), record.get("bad_lines", [])
    if not isinstance(files, dict) or not isinstance(notes, list) or not isinstance(record.get("counts"), dict):
        return "files, notes or counts are missing"
    words = [record.get("name"), record.get("checksum"), *notes, *files.values()]
    if not isinstance(bad, list) or any(type(word) is not str for word in (*words, *bad)):
        return "a name, a note, a bad line or a checksum is not text"
    with_arrays = record["version"] == WITH_ARRAYS
    needed = {*READ} - ({*LABELS} if LABELS[0] not in files else set()) if with_arrays else {*TABLES}
    if not needed <= files.keys() <= {*TABLES, *READ}:
        return f"it should list {', '.join(sorted(needed))}"
    return ""


def _spelled(record: dict[str, Any]) -> str:
    return json.dumps(record, indent=2) + "\n"


def _read(place: Path, record: dict[str, Any]) -> Graph:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    try:
        for file in TABLES:
            proper(place / file)
        entities, relations, triples = (pq.ParquetFile(place / file).read() for file in TABLES)
        ids = np.stack([_whole(triples.column(place)) for place in PLACES], axis=1)
        train, valid, test = (ids[pc.equal(triples.column("split"), name).to_numpy()] for name in SPLITS)
        entity_names, relation_names = _vocabulary("entity", entities), _vocabulary("relation", relations)
        if bool((ids < 0).any()) or bool((ids >= (len(entity_names), len(relation_names), len(entity_names))).any()):
            raise ValueError("triples.parquet holds ids that nothing has")
    except (pa.ArrowException, OSError, KeyError, ValueError) as error:
        raise GraphError(f"{place}: a table of the stored graph cannot be read ({error}): {AGAIN}") from error
    return Graph(
        entity_names,
        relation_names,
        train,
        valid,
        test,
        name=record["name"],
        notes=tuple(record["notes"]),
        bad_lines=tuple(record.get("bad_lines", ())),
    )


def _map(place: Path, record: dict[str, Any]) -> Graph:
    """A graph whose ids and entity names stay on disk. Its checksum is the recorded one: the files are as recorded."""
    import pyarrow as pa

    try:
        relations = _relations(place)
        labelled = LABELS[0] in record["files"]
        graph = mapped_graph(place, relations, labelled=labelled, name=record["name"], notes=record["notes"])
    except (pa.ArrowException, OSError, KeyError, ValueError) as error:
        raise GraphError(f"{place}: an array of the stored graph cannot be read ({error}): {AGAIN}") from error
    graph = replace(graph, bad_lines=tuple(record.get("bad_lines", ())))
    vars(graph)["checksum"] = record["checksum"]
    return graph


def _relations(place: Path) -> Vocabulary:
    import pyarrow.parquet as pq

    proper(place / "relations.parquet")
    return _vocabulary("relation", pq.ParquetFile(place / "relations.parquet").read())


def _same(one: Vocabulary, other: Vocabulary) -> bool:
    return (one.names, one.labels) == (other.names, other.labels)


def _link(graph: Graph, home: Path, stage: Path) -> None:
    """The same stored graph once more: its files are never changed, so both folders can share them."""
    record = _record(home / STORED)
    link_files(home, stage, record["files"])
    write_record(stage, {**record, "name": graph.name, "notes": list(graph.notes)})


def _whole(column: Any) -> npt.NDArray[np.int64]:
    """A column of whole numbers, refusing gaps and everything else."""
    import pyarrow as pa

    if column.null_count or not pa.types.is_integer(column.type):
        raise ValueError(f"ids of type {column.type} with {column.null_count} gaps")
    return np.asarray(column.to_numpy(), dtype=np.int64)


def _vocabulary(kind: str, table: Any) -> Vocabulary:
    import pyarrow as pa

    names, labels = table.column("name"), table.column("label")
    if names.null_count or not all(pa.types.is_string(column.type) for column in (names, labels)):
        raise ValueError(f"{kind} names of type {names.type} with {names.null_count} gaps, labels of {labels.type}")
    given = () if labels.null_count == len(labels) else tuple(label or "" for label in labels.to_pylist())
    return Vocabulary(kind, tuple(names.to_pylist()), given)


def _counts(graph: Graph) -> dict[str, int]:
    sizes: dict[str, int] = {split: len(graph.triples(split)) for split in SPLITS}
    return {"entities": graph.n_entities, "relations": graph.n_relations, **sizes}
