"""Held-out triples that train does not give away: deterministic, twins on one side, nothing unseen.

Which triples leave train is decided in `conjoin.graph.holdout`, the same for graphs in memory and on disk.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

import numpy as np

from conjoin.errors import GraphError, UsageError
from conjoin.files import making, sync_folder
from conjoin.graph.files.columns import is_header
from conjoin.graph.files.source import SPLIT_NAMES, AnyPath, split_name
from conjoin.graph.files.store import STORED, swap
from conjoin.graph.graph import SPLITS, Graph
from conjoin.graph.holdout import bands, digests, hold_out, parts_of, split_notes
from conjoin.graph.patterns import distinct

BREAKS = re.compile("[\t\n\r\0\ufeff]")
LABELS = ("entity_labels.tsv", "relation_labels.tsv")
HOLD_MORE_OUT = "hold more out with split_graph(graph, valid=0.2, test=0.1) (conjoin split FILE --valid 20% -o FOLDER)"
"""The way out of having nothing to validate or to calibrate on."""
EARLIER = "earlier"
FILES = (*(f"{split}{suffix}" for split in SPLITS for suffix in (".txt", ".parquet")), *LABELS)


@dataclass(frozen=True)
class Written:
    """The files of a stored split, and what a person should know about them."""

    folder: Path
    files: tuple[Path, ...]
    notes: tuple[str, ...] = ()


def parse_size(text: str) -> float | int:
    """A share of the triples (`5%`, `0.05`) as a float below 1, or a number of triples (`500`) as an int."""
    word = text.strip()
    if re.fullmatch(r"[0-9]+", word):
        return int(word)
    if match := re.fullmatch(r"([0-9]+\.?[0-9]*|\.[0-9]+)\s*(%?)", word):
        share = float(match[1]) / (100 if match[2] else 1)
        if share < 1:
            return share
        raise UsageError(f"a share of {text!r} leaves nothing to train on: stay below 100%")
    raise UsageError(f"{text!r} is not a size: give a share such as 5% or 0.05, or a number of triples such as 500")


def split_graph(graph: Graph, *, valid: float | int, test: float | int, seed: int = 0) -> Graph:
    """All triples of the graph, repetitions dropped, in three new splits; the vocabularies stay the same.

    `valid` and `test` are a share (float) or a number (int) of the distinct triples. They are met exactly when there
    are enough triples that can leave: no entity and no relation loses its last training triple, and a group that
    would exceed the size is passed over. What could not be met is said in the notes. Each split has shape (n, 3).

    >>> graph = Graph.from_triples([(f"e{i}", "next", f"e{(i + k) % 20}") for i in range(20) for k in (1, 2)])
    >>> parts = split_graph(graph, valid=0.1, test=2)
    >>> parts.train.shape, parts.valid.shape, parts.test.shape
    ((34, 3), (4, 3), (2, 3))
    """
    everything = graph.everything()
    triples = distinct(everything)
    parts = parts_of(len(triples), valid=valid, test=test)
    hold_out(
        parts,
        lambda: bands(lambda: iter([triples]), digests(graph.entities.names, seed), n_triples=len(triples)),
        entity_left=np.bincount(triples[:, [0, 2]].ravel(), minlength=1),
        relation_left=np.bincount(triples[:, 1], minlength=1),
    )
    place = np.zeros(len(triples), dtype=np.int8)
    for number, part in enumerate(parts, start=1):
        place[part.rows] = number
    train_ids, test_ids, valid_ids = (triples[place == number] for number in range(3))
    notes = split_notes(parts, seed=seed, train=len(train_ids), repeated=len(everything) - len(triples))
    return replace(graph, train=train_ids, valid=valid_ids, test=test_ids, notes=(*graph.notes, *notes))


def write_split(graph: Graph, folder: AnyPath, *, overwrite: bool = False) -> Written:
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
    return Written(target, tuple(target / name for name in names), tuple(notes))


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
