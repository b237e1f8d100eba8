"""A graph in a folder of its own, exactly as it is: names, labels, ids, splits and notes.

entities.parquet    name, label        in id order
relations.parquet   name, label
triples.parquet     head, relation, tail (ids), split
graph.json          name, notes, counts, the graph's checksum, sha256 of each file and of graph.json itself
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from conjoin.errors import GraphError
from conjoin.files import sha256_of, sync_folder
from conjoin.graph.files.source import AnyPath
from conjoin.graph.graph import SPLITS, Graph, Vocabulary

STORED = "graph.json"
VERSION = 1
TABLES = ("entities.parquet", "relations.parquet", "triples.parquet")
AGAIN = "store the graph again"


def save_graph(graph: Graph, folder: AnyPath) -> Path:
    """Store the graph. The folder appears complete or not at all; a graph stored there before is replaced by it."""
    target = Path(folder).resolve()
    _refuse_other_content(target)
    stage = target.with_name(f".{target.name}.{secrets.token_hex(4)}.partial")
    try:
        stage.mkdir(parents=True)
        _write(graph, stage)
        _swap(stage, target)
    except OSError as error:
        raise GraphError(f"{folder}: the graph cannot be stored: {error.strerror or error}") from error
    finally:
        shutil.rmtree(stage, ignore_errors=True)
    return target


def open_graph(folder: AnyPath) -> Graph:
    """The graph that `save_graph` stored, after proving that no bit of it has changed."""
    place = Path(folder)
    record = _record(place / STORED)
    for table, expected in record["files"].items():
        try:
            found = sha256_of(place / table)
        except OSError as error:
            raise GraphError(f"{place / table}: cannot be read ({error.strerror or error}): {AGAIN}") from error
        if found != expected:
            raise GraphError(f"{place / table} is damaged: its sha256 is not the one in {STORED}; {AGAIN}")
    graph = _read(place, record)
    if _counts(graph) != record["counts"] or graph.checksum != record["checksum"]:
        raise GraphError(f"{place}: the graph is not the one {STORED} describes: {AGAIN}")
    return graph


def _refuse_other_content(target: Path) -> None:
    if target.exists() and not target.is_dir():
        raise GraphError(f"{target} is a file: name a folder for the graph")
    if not target.is_dir():
        return
    strangers = sorted(file.name for file in target.iterdir() if file.name not in (*TABLES, STORED))
    if strangers:
        raise GraphError(f"{target} holds other files ({', '.join(strangers[:5])}): name a new folder for the graph")


def _swap(stage: Path, target: Path) -> None:
    """Put the complete folder in its place; what was there before goes once the new one stands."""
    if not target.exists():
        stage.rename(target)
        sync_folder(target.parent)
        return
    old = stage.with_suffix(".old")
    target.rename(old)
    try:
        stage.rename(target)
    except OSError:
        old.rename(target)
        raise
    sync_folder(target.parent)
    shutil.rmtree(old, ignore_errors=True)


def _write(graph: Graph, stage: Path) -> None:
    import pyarrow as pa

    triples = np.concatenate([graph.triples(split) for split in SPLITS])
    splits = np.repeat(np.arange(len(SPLITS), dtype=np.int8), [len(graph.triples(split)) for split in SPLITS])
    ids = {place: triples[:, i] for i, place in enumerate(("head", "relation", "tail"))}
    split = pa.DictionaryArray.from_arrays(splits, list(SPLITS))
    tables = (_names(graph.entities), _names(graph.relations), pa.table({**ids, "split": split}))
    for file, table in zip(TABLES, tables, strict=True):
        _write_table(table, stage / file)
    record = {
        "format": "conjoin graph",
        "version": VERSION,
        "name": graph.name,
        "notes": list(graph.notes),
        "counts": _counts(graph),
        "checksum": graph.checksum,
        "files": {file: sha256_of(stage / file) for file in TABLES},
    }
    record["sha256"] = _digest(record)
    with (stage / STORED).open("w", encoding="utf-8", newline="\n") as stream:
        stream.write(_spelled(record))
        stream.flush()
        os.fsync(stream.fileno())
    sync_folder(stage)


def _names(vocabulary: Vocabulary) -> Any:
    import pyarrow as pa

    try:
        names = pa.array(vocabulary.names, pa.string())
        labels = pa.array(vocabulary.labels or [None] * len(vocabulary), pa.string())
    except UnicodeEncodeError as error:
        raise GraphError(f"{error.object!r} is not valid Unicode and cannot be stored: rename it") from error
    return pa.table({"name": names, "label": labels})


def _write_table(table: Any, file: Path) -> None:
    import pyarrow.parquet as pq

    with file.open("wb") as stream:
        pq.write_table(table, stream, compression="zstd")
        stream.flush()
        os.fsync(stream.fileno())


def _record(file: Path) -> dict[str, Any]:
    """What graph.json says, once it is shown to be whole."""
    try:
        text = file.read_bytes()
        record = json.loads(text)
    except FileNotFoundError as error:
        raise GraphError(f"{file.parent} holds no stored graph: there is no {file.name}") from error
    except OSError as error:
        raise GraphError(f"{file}: cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise GraphError(f"{file} is damaged ({error}): {AGAIN}") from error
    if not isinstance(record, dict) or record.get("format") != "conjoin graph":
        raise GraphError(f"{file} is damaged, or does not describe a stored graph: {AGAIN}")
    if text != _spelled(record).encode() or record.pop("sha256", None) != _digest(record):
        raise GraphError(f"{file} is damaged: its content does not fit its own checksum; {AGAIN}")
    if record["version"] != VERSION:
        raise GraphError(f"{file} has format version {record['version']}, this Conjoin reads {VERSION}: update it")
    return record


def _spelled(record: dict[str, Any]) -> str:
    return json.dumps(record, indent=2) + "\n"


def _digest(record: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()


def _read(place: Path, record: dict[str, Any]) -> Graph:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    try:
        entities, relations, triples = (pq.ParquetFile(place / file).read() for file in TABLES)
        ids = np.stack([triples.column(i).to_numpy() for i in range(3)], axis=1).astype(np.int64, copy=False)
        train, valid, test = (ids[pc.equal(triples.column("split"), name).to_numpy()] for name in SPLITS)
    except (pa.ArrowException, OSError, KeyError) as error:
        raise GraphError(f"{place}: a table of the stored graph cannot be read ({error}): {AGAIN}") from error
    return Graph(
        _vocabulary("entity", entities),
        _vocabulary("relation", relations),
        train,
        valid,
        test,
        name=record["name"],
        notes=tuple(record["notes"]),
    )


def _vocabulary(kind: str, table: Any) -> Vocabulary:
    labels = table.column("label")
    unlabelled = labels.null_count == len(labels)
    return Vocabulary(kind, tuple(table.column("name").to_pylist()), () if unlabelled else tuple(labels.to_pylist()))


def _counts(graph: Graph) -> dict[str, int]:
    sizes: dict[str, int] = {split: len(graph.triples(split)) for split in SPLITS}
    return {"entities": graph.n_entities, "relations": graph.n_relations, **sizes}
