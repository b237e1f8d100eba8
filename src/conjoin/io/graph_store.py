"""Store a graph in a folder and open it again: names, labels, ids, splits and notes stay exactly as they are.

entities.parquet    name, label        in id order
relations.parquet   name, label
triples.parquet     head, relation, tail (ids), split
graph.json          name, notes, counts, the graph's checksum, sha256 of each file and of graph.json itself

The folder of an ingested graph also has its ids and names in memory-mapped arrays (`conjoin.io.graph_arrays`).
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
AGAIN = "Store the graph again."
BLOCK = 1 << 20
"""Triples of one row group of Parquet."""


def save_graph(graph: Graph, folder: AnyPath) -> Path:
    """Store the graph. The folder appears complete or not at all; it replaces a graph that was stored there before."""
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
        raise GraphError(f"The graph cannot be stored in {folder}: {error.strerror or error}") from error
    finally:
        shutil.rmtree(stage, ignore_errors=True)
    return target


def open_graph(folder: AnyPath) -> Graph:
    """The graph that `save_graph` or `ingest` stored, after checking the sha256 of every file that is read."""
    folder = Path(folder)
    record = _record(folder / STORED)
    with_arrays = record["version"] == WITH_ARRAYS
    for table, expected in record["files"].items():
        if with_arrays and table not in READ:
            continue
        try:
            checksum = sha256_of(folder / table)
        except OSError as error:
            raise GraphError(f"{folder / table} cannot be read: {error.strerror or error}. {AGAIN}") from error
        if checksum != expected:
            raise GraphError(f"{folder / table} is damaged: its sha256 differs from the one in {STORED}. {AGAIN}")
    graph = _map(folder, record) if with_arrays else _read(folder, record)
    if _counts(graph) != record["counts"] or graph.checksum != record["checksum"]:
        raise GraphError(f"{folder}: the counts or the checksum of the graph differ from {STORED}. {AGAIN}")
    return graph


def refuse_other_content(target: Path) -> None:
    """Raise GraphError if `target` is a file, or a folder with files that do not belong to a stored graph."""
    if target.exists() and not target.is_dir():
        raise GraphError(f"{target} is a file. Name a folder for the graph.")
    if not target.is_dir():
        return
    others = sorted(file.name for file in target.iterdir() if file.name not in (*TABLES, *ARRAYS, STORED))
    if others:
        raise GraphError(
            f"The folder {target} holds files that do not belong to a stored graph ({', '.join(others[:5])}). "
            "Name a new folder for the graph."
        )


def swap(stage: Path, target: Path) -> None:
    """Rename the complete folder `stage` to `target`. An earlier `target` is then deleted, or restored on error."""
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
    pa.default_memory_pool().release_unused()  # the pool would keep the memory of writing until the process ends
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
    """Write graph.json with its own checksum, as the last file of a folder."""
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
        raise GraphError(f"The name {error.object!r} is not valid Unicode and cannot be stored. Rename it.") from error
    return pa.table({"name": names, "label": labels})


def _triples(graph: Graph) -> Iterator[Any]:
    """All splits as tables, block by block, without a second copy of a large graph."""
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
    """Write tables with the same columns to one Parquet file, one below the other."""
    import pyarrow.parquet as pq

    first = next(tables)
    with file.open("wb") as stream:
        with pq.ParquetWriter(stream, first.schema, compression="zstd") as writer:
            for table in chain([first], tables):
                writer.write_table(table)
        stream.flush()
        os.fsync(stream.fileno())


def _record(file: Path) -> dict[str, Any]:
    """The content of graph.json, after its checksum and its fields were checked."""
    try:
        text = read_limited(file, file_limits.GRAPH_RECORD)
        record = parse_json(text)
    except FileNotFoundError as error:
        raise GraphError(f"{file.parent} is not a stored graph: it has no {file.name}") from error
    except OSError as error:
        raise GraphError(f"{file} cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise GraphError(f"{file} is damaged: {error}. {AGAIN}") from error
    if not isinstance(record, dict) or record.get("format") != "conjoin graph":
        raise GraphError(f"{file} is damaged, or does not describe a stored graph. {AGAIN}")
    if text != _spelled(record).encode() or record.pop("sha256", None) != digest(record):
        raise GraphError(f"{file} is damaged: its content does not match its checksum. {AGAIN}")
    version = record.get("version")
    if version not in (VERSION, WITH_ARRAYS):
        raise GraphError(
            f"{file} has format version {version}; this version of Conjoin reads up to {WITH_ARRAYS}. Update Conjoin."
        )
    if flaw := _flaw(record):
        raise GraphError(f"{file} does not describe a stored graph: {flaw}. {AGAIN}")
    return record


def _flaw(record: dict[str, Any]) -> str:
    """Why a record is invalid although its checksum is right (anyone can compute one); empty if it is valid."""
    files, notes, bad = record.get("files"), record.get("notes"), record.get("bad_lines", [])
    if not isinstance(files, dict) or not isinstance(notes, list) or not isinstance(record.get("counts"), dict):
        return "files, notes or counts are missing"
    texts = [record.get("name"), record.get("checksum"), *notes, *files.values()]
    if not isinstance(bad, list) or any(type(text) is not str for text in (*texts, *bad)):
        return "a name, a note, a bad line or a checksum is not text"
    with_arrays = record["version"] == WITH_ARRAYS
    needed = {*READ} - ({*LABELS} if LABELS[0] not in files else set()) if with_arrays else {*TABLES}
    if not needed <= files.keys() <= {*TABLES, *READ}:
        return f"files must list {', '.join(sorted(needed))}"
    return ""


def _spelled(record: dict[str, Any]) -> str:
    return json.dumps(record, indent=2) + "\n"


def _read(folder: Path, record: dict[str, Any]) -> Graph:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    try:
        for file in TABLES:
            proper(folder / file)
        entities, relations, triples = (pq.ParquetFile(folder / file).read() for file in TABLES)
        ids = np.stack([_whole(triples.column(role)) for role in PLACES], axis=1)
        train, valid, test = (ids[pc.equal(triples.column("split"), name).to_numpy()] for name in SPLITS)
        entity_names, relation_names = _vocabulary("entity", entities), _vocabulary("relation", relations)
        if bool((ids < 0).any()) or bool((ids >= (len(entity_names), len(relation_names), len(entity_names))).any()):
            raise ValueError("triples.parquet contains ids outside the vocabulary")
    except (pa.ArrowException, OSError, KeyError, ValueError) as error:
        raise GraphError(f"{folder}: a table of the stored graph cannot be read: {error}. {AGAIN}") from error
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


def _map(folder: Path, record: dict[str, Any]) -> Graph:
    """A graph whose ids and entity names stay on disk. Its checksum is the recorded one: the files were checked."""
    import pyarrow as pa

    try:
        relations = _relations(folder)
        labelled = LABELS[0] in record["files"]
        graph = mapped_graph(folder, relations, labelled=labelled, name=record["name"], notes=record["notes"])
    except (pa.ArrowException, OSError, KeyError, ValueError) as error:
        raise GraphError(f"{folder}: an array of the stored graph cannot be read: {error}. {AGAIN}") from error
    graph = replace(graph, bad_lines=tuple(record.get("bad_lines", ())))
    vars(graph)["checksum"] = record["checksum"]
    return graph


def _relations(folder: Path) -> Vocabulary:
    import pyarrow.parquet as pq

    proper(folder / "relations.parquet")
    return _vocabulary("relation", pq.ParquetFile(folder / "relations.parquet").read())


def _same(one: Vocabulary, other: Vocabulary) -> bool:
    return (one.names, one.labels) == (other.names, other.labels)


def _link(graph: Graph, home: Path, stage: Path) -> None:
    """Store the same graph a second time by hard links: stored files never change, so both folders can share them."""
    record = _record(home / STORED)
    link_files(home, stage, record["files"])
    write_record(stage, {**record, "name": graph.name, "notes": list(graph.notes)})


def _whole(column: Any) -> npt.NDArray[np.int64]:
    """A column of whole numbers (n,); a ValueError for nulls and other types."""
    import pyarrow as pa

    if column.null_count or not pa.types.is_integer(column.type):
        raise ValueError(f"ids have the type {column.type} and {column.null_count} nulls")
    return np.asarray(column.to_numpy(), dtype=np.int64)


def _vocabulary(kind: str, table: Any) -> Vocabulary:
    import pyarrow as pa

    names, labels = table.column("name"), table.column("label")
    if names.null_count or not all(pa.types.is_string(column.type) for column in (names, labels)):
        raise ValueError(
            f"{kind} names have the type {names.type} and {names.null_count} nulls, labels the type {labels.type}"
        )
    texts = () if labels.null_count == len(labels) else tuple(label or "" for label in labels.to_pylist())
    return Vocabulary(kind, tuple(names.to_pylist()), texts)


def _counts(graph: Graph) -> dict[str, int]:
    sizes: dict[str, int] = {split: len(graph.triples(split)) for split in SPLITS}
    return {"entities": graph.n_entities, "relations": graph.n_relations, **sizes}
