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
    """The files of a stored split, and notes for the user."""

    folder: Path
    files: tuple[Path, ...]
    notes: tuple[str, ...] = ()


def write_split(graph: Graph, folder: AnyPath, *, overwrite: bool = False) -> WrittenSplit:
    """Store the splits as tab-separated train.txt, valid.txt and test.txt, and labels in entity_labels.tsv.

    If a name contains a tab or a line end, the files are train.parquet and so on. A new folder appears complete or not
    at all. In an existing folder the old split is removed first and train is written last: a killed process leaves a
    folder without train, never a mixture of two splits. An error restores the old split. Other files are not touched.

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
        aside = f". The files of the earlier split are in {stage / EARLIER}" if isinstance(error, _NotRestored) else ""
        raise GraphError(f"The split cannot be stored in {folder}: {error.strerror or error}{aside}") from error
    finally:
        if not aside:
            shutil.rmtree(stage, ignore_errors=True)
    return WrittenSplit(target, tuple(target / name for name in names), tuple(notes))


class _NotRestored(OSError):
    """The earlier files could not be restored."""


def _exchange(stage: Path, target: Path, names: list[str]) -> None:
    """Move the earlier files out of a folder, train first, and the new ones in, train last; undo this on an error.

    Raises _NotRestored if undoing fails: the earlier files stay in the folder EARLIER of `stage`.
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
            raise _NotRestored(error.errno, error.strerror) from error
        raise


def _refuse_conflicts(target: Path, *, overwrite: bool) -> None:
    """Raise UsageError if writing would replace other files, or if another file would hide the new split."""
    if target.exists() and not target.is_dir():
        raise UsageError(f"{target} is a file. Name a folder for the split.")
    present = sorted(target.iterdir()) if target.is_dir() else []
    if present and not overwrite:
        raise UsageError(
            f"The folder {target} is not empty. "
            "Choose another one, or replace the split in it with overwrite=True (--overwrite)."
        )
    stems = {STORED.removesuffix(".json"), *(Path(name).stem for name in LABELS), *chain(*SPLIT_NAMES.values())}
    for file in present:
        if file.name not in FILES and split_name(file)[0].lower() in stems:
            raise UsageError(f"{file} would be read together with the new split, or instead of it. Move it elsewhere.")


def _write_files(graph: Graph, stage: Path) -> tuple[list[str], list[str]]:
    """Write all files into an empty folder. Returns their names, train first, and notes."""
    reason = _why_not_lines(graph)
    names, notes = [], [f"stored as Parquet because {reason}"] if reason else []
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
        pairs = zip(vocabulary.names, vocabulary.labels, strict=False)
        labels = {name: BREAKS.sub(" ", label) for name, label in pairs if label.strip()}
        writable = {name: label for name, label in labels.items() if not BREAKS.search(name)}
        if len(writable) < len(labels):
            n_missing = len(labels) - len(writable)
            notes.append(f"{file} lacks {n_missing} labels, because their names contain a tab or a line end")
        if writable:
            names.append(file)
            _write_columns(stage / file, {"name": list(writable), "label": list(writable.values())})
    return names, notes


def _why_not_lines(graph: Graph) -> str:
    """Why tab-separated lines would not read back as the same triples; empty if they would."""
    for vocabulary in (graph.entities, graph.relations):
        for name in vocabulary.names:
            if BREAKS.search(name):
                return f"the {vocabulary.kind} name {name!r} contains a tab, a line end or a similar character"
    for split in SPLITS:
        for triple in graph.triples(split)[:1].tolist():
            cells = graph.names(*triple)
            if is_header(cells):
                return f"the first triple of {split} {cells} would be read as a header"
    return ""


def _write_columns(file: Path, columns: dict[str, list[str]]) -> None:
    """Write equally long columns of names as Parquet, or as tab-separated lines without a header."""
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
        raise GraphError(f"The name {error.object!r} is not valid Unicode and cannot be stored. Rename it.") from error
