"""Write a split graph as text or Parquet files."""

from __future__ import annotations

import os
import re
import secrets
import shutil
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from conjoin.errors import GraphError, UsageError
from conjoin.graph.column_roles import is_header
from conjoin.graph.graph import SPLITS, Graph
from conjoin.io.formats import SPLIT_NAMES, AnyPath, split_name
from conjoin.io.graph_store import STORED, swap
from conjoin.runtime.atomic_files import making, sync_folder

BREAKS = re.compile("[\t\n\r\0\ufeff]")
LABELS = ("entity_labels.tsv", "relation_labels.tsv")
EARLIER = "earlier"
FILES = (*(f"{split}{suffix}" for split in SPLITS for suffix in (".txt", ".parquet")), *LABELS)


@dataclass(frozen=True)
class WrittenSplit:
    """The files of a stored split, and what a person should know about them."""

    folder: Path
    files: tuple[Path, ...]
    notes: tuple[str, ...] = ()


def write_split(graph: Graph, folder: AnyPath, *, overwrite: bool = False) -> WrittenSplit:
    """Store the splits as tab-separated train.txt, valid.txt and test.txt, and labels in entity_labels.tsv.

    Names that such lines cannot hold turn the files into train.parquet and so on. A new folder appears complete or
    not at all. In a folder that exists, the old split goes first and train arrives last: a process that is killed then
    leaves a folder without train, never a mixture of two splits; an error brings the old split back. Other files in it
    are left alone.

    >>> graph = Graph.from_triples([("a", "r", "b")], [("b", "r", "a")], [("a", "s", "a")])
    >>> [file.name for file in write_split(graph, "my-graph").files]
    ['train.txt', 'valid.txt', 'test.txt']
    """
    target = Path(folder).resolve()
    existing = target.is_dir()
    _refuse_conflicts(target, overwrite=overwrite)
    stage = (target if existing else target.parent) / f".{target.name}.{secrets.token_hex(4)}.partial"
    aside = ""
    try:
        with making(stage.parent):
            stage.mkdir()
            names, notes = _write_files(graph, stage)
            sync_folder(stage)
            if existing:
                _exchange(stage, target, names)
            else:
                swap(stage, target)
    except OSError as error:
        aside = f". Files of the earlier split are in {stage / EARLIER}" if isinstance(error, _PutAside) else ""
        raise GraphError(f"{folder}: the split cannot be stored: {error.strerror or error}{aside}") from error
    finally:
        if not aside:
            shutil.rmtree(stage, ignore_errors=True)
    return WrittenSplit(target, tuple(target / name for name in names), tuple(notes))


class _PutAside(OSError):
    """The earlier files could not be put back."""


def _exchange(stage: Path, target: Path, names: list[str]) -> None:
    """Take the earlier files out of a folder, train first, and put new ones in, train last; on an error, turn back.

    Raises _PutAside where that fails too: the earlier files stay in the folder EARLIER of `stage`.
    """
    earlier = stage / EARLIER
    earlier.mkdir()
    try:
        for name in FILES:
            if (target / name).exists():
                (target / name).rename(earlier / name)
        for name in reversed(names):
            (stage / name).rename(target / name)
        sync_folder(target)
    except BaseException:
        try:
            for name in names:
                if not (stage / name).exists():
                    (target / name).rename(stage / name)
            for name in reversed(FILES):
                if (earlier / name).exists():
                    (earlier / name).rename(target / name)
        except OSError as error:
            raise _PutAside(error.errno, error.strerror) from error
        raise


def _refuse_conflicts(target: Path, *, overwrite: bool) -> None:
    """Never put a split where something else would be lost, or read instead of it or beside it."""
    if target.exists() and not target.is_dir():
        raise UsageError(f"{target} is a file: name a folder for the split")
    present = sorted(target.iterdir()) if target.is_dir() else []
    if present and not overwrite:
        raise UsageError(f"the folder {target} is not empty: choose another one, or overwrite=True (--overwrite)")
    read = {STORED.removesuffix(".json"), *(Path(name).stem for name in LABELS), *chain(*SPLIT_NAMES.values())}
    for file in present:
        if file.name not in FILES and split_name(file)[0].lower() in read:
            raise UsageError(f"{file} would be read instead of the new split, or with it: move it away")


def _write_files(graph: Graph, stage: Path) -> tuple[list[str], list[str]]:
    """Write all files into an empty folder: their names, train first, and the notes."""
    reason = _why_not_lines(graph)
    names, notes = [], [f"stored as Parquet: {reason}"] if reason else []
    for split in SPLITS:
        heads, relations, tails = graph.triples(split).T.tolist()
        columns = {
            "head": [graph.entities.names[e] for e in heads],
            "relation": [graph.relations.names[r] for r in relations],
            "tail": [graph.entities.names[e] for e in tails],
        }
        names.append(f"{split}.parquet" if reason else f"{split}.txt")
        _write_columns(stage / names[-1], columns)
    for file, vocabulary in zip(LABELS, (graph.entities, graph.relations), strict=True):
        spoken = zip(vocabulary.names, vocabulary.labels, strict=False)
        labels = {name: BREAKS.sub(" ", label) for name, label in spoken if label.strip()}
        kept = {name: label for name, label in labels.items() if not BREAKS.search(name)}
        if len(kept) < len(labels):
            notes.append(f"{file} lacks {len(labels) - len(kept)} labels, of names that a line cannot hold")
        if kept:
            names.append(file)
            _write_columns(stage / file, {"name": list(kept), "label": list(kept.values())})
    return names, notes


def _why_not_lines(graph: Graph) -> str:
    """Why tab-separated lines would not read back as the same triples; nothing when they would."""
    for vocabulary in (graph.entities, graph.relations):
        for name in vocabulary.names:
            if BREAKS.search(name):
                return f"the {vocabulary.kind} {name!r} would break a tab-separated line"
    for split in SPLITS:
        for triple in graph.triples(split)[:1].tolist():
            cells = graph.names(*triple)
            if is_header(cells):
                return f"the first triple of {split} {cells} would be taken for a header"
    return ""


def _write_columns(file: Path, columns: dict[str, list[str]]) -> None:
    """Equally long columns of names as Parquet, or as tab-separated lines without a header."""
    try:
        with file.open("wb") as stream:
            if file.suffix == ".parquet":
                import pyarrow as pa
                import pyarrow.parquet as pq

                table = pa.table({title: pa.array(column, pa.string()) for title, column in columns.items()})
                pq.write_table(table, stream)
            else:
                stream.writelines(("\t".join(row) + "\n").encode() for row in zip(*columns.values(), strict=True))
            stream.flush()
            os.fsync(stream.fileno())
    except UnicodeEncodeError as error:
        raise GraphError(f"{error.object!r} is not valid Unicode and cannot be stored: rename it") from error
