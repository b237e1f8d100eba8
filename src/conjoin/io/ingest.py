"""Turn files of any size into a stored graph: `ingest(["facts.tsv.gz"], "my-graph")`.

read    files → spooled names            a block of lines at a time
number  spooled names → sorted names     an id is an index into the sorted names
join    spooled names → sorted ids       repeated triples are dropped
split   ids → train, valid, test         leak-aware, like `conjoin split`
write   Parquet tables, arrays, graph.json with a checksum of each

Everything is written to a hidden folder that is renamed in one step. A killed ingest leaves this folder behind; the
next ingest to the same target empties it and starts again. The result depends on the triples, the sizes and the seed
only.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from conjoin.errors import ConjoinError, GraphError, UsageError
from conjoin.graph.graph import SPLITS
from conjoin.graph.mmap_names import SortedIndex
from conjoin.graph.split_groups import HeldOutPart, bands, digest_key, hold_out, parts_of, repeated_note, split_notes
from conjoin.io.formats import AnyPath, format_of, split_name
from conjoin.io.graph_arrays import checksum_of, rows_of, stored_names
from conjoin.io.graph_store import STORED, WITH_ARRAYS, refuse_other_content, swap, write_record
from conjoin.io.ingest_duckdb import DuckDbEngine
from conjoin.io.ingest_output import CountUse, IngestedNames, write_ids, write_names, write_splits, write_triples
from conjoin.io.ingest_parquet import ParquetSpool
from conjoin.io.name_checks import column_order_notes, missing_value_notes, value_notes
from conjoin.io.rdf import blank_scope
from conjoin.io.read_graph import beside, split_files
from conjoin.io.read_options import ReadOptions
from conjoin.io.read_report import SAMPLES, ReadReport
from conjoin.io.readers import PLAIN, nothing
from conjoin.runtime.atomic_files import making, sha256_of
from conjoin.runtime.file_locks import taken
from conjoin.runtime.progress import Track, silent

LEAST_MEMORY = 512 << 20
PER_ENTITY = 40
"""Bytes of memory per entity while triples are split, whatever the number of triples."""


@dataclass(frozen=True, kw_only=True)
class Ingested:
    """The stored graph, the reports on its files, and the seconds of each step."""

    folder: Path
    counts: Mapping[str, int]
    reports: tuple[ReadReport, ...]
    notes: tuple[str, ...]
    seconds: Mapping[str, float]


def ingest(
    files: Sequence[AnyPath],
    folder: AnyPath,
    *,
    options: ReadOptions = PLAIN,
    valid: float | int = 0.05,
    test: float | int = 0.05,
    seed: int = 0,
    labels: AnyPath | None = None,
    memory: int = 2 << 30,
    threads: int | None = None,
    overwrite: bool = False,
    track: Track = silent,
) -> Ingested:
    """Store the triples of all files as one graph, in bounded memory.

    Several files are one set of triples; `valid`, `test` and `seed` determine the split. One folder with train, valid
    and test keeps its splits. Repeated triples are stored once per split. `memory` is a limit in bytes for this
    process. Up to `threads` further processes parse N-Triples; their memory is not included.
    """
    target = Path(folder).resolve()
    if memory < LEAST_MEMORY:
        raise UsageError(f"The memory limit must be at least {LEAST_MEMORY >> 20} MiB, got {memory >> 20} MiB.")
    if target.exists() and not overwrite:
        raise UsageError(f"{target} exists. Choose another folder, or replace it with overwrite=True (--overwrite).")
    refuse_other_content(target)
    sources = _sources(files, labels)
    plan = _Plan(options, valid, test, seed, memory, threads or os.cpu_count() or 1, _name(files, target))
    try:
        with making(target.parent), _alone(target) as stage:
            work = stage / "work"
            work.mkdir()
            engine = DuckDbEngine(work, memory=memory, threads=plan.threads)
            try:
                made = _make(sources, plan, stage, engine, track)
            finally:
                engine.close()
            shutil.rmtree(work)
            swap(stage, target)
    except OSError as error:
        raise ConjoinError(f"The graph cannot be stored in {folder}: {error.strerror or error}") from error
    return Ingested(folder=target, **made)


@dataclass(frozen=True)
class _Plan:
    options: ReadOptions
    valid: float | int
    test: float | int
    seed: int
    memory: int
    threads: int
    name: str


@dataclass(frozen=True)
class _Sources:
    """The files of each split, by the prefix of their blank nodes; a single entry if the files are not split yet."""

    splits: tuple[Mapping[str, Path], ...]
    labels: AnyPath | None
    relation_labels: AnyPath | None

    @property
    def given(self) -> bool:
        return len(self.splits) > 1


def _sources(files: Sequence[AnyPath], labels: AnyPath | None) -> _Sources:
    paths = [Path(file) for file in files]
    if not paths:
        raise UsageError("No file of triples was given. Name at least one.")
    if len(paths) == 1 and paths[0].is_dir():
        if (paths[0] / STORED).exists():
            raise UsageError(f"{paths[0]} is already a stored graph. Use it directly, for example in `conjoin train`.")
        found = split_files(paths[0])
        parts: list[dict[str, Path]] = [{split: found[split]} if split in found else {} for split in SPLITS]
        return _Sources(tuple(parts), labels or beside(paths[0], "entity_labels"), beside(paths[0], "relation_labels"))
    for path in paths:
        if not path.is_file():
            if path.is_dir():
                raise GraphError(f"{path} is a folder. Give either one folder or several files.")
            raise GraphError(f"{path}: there is no such file")
        format_of(path)
    if len(paths) == 1:
        return _Sources(({"train": paths[0]},), labels, None)
    scopes: dict[str, Path] = {}
    for number, path in enumerate(paths, start=1):
        stem = split_name(path)[0]
        scopes[stem if stem not in scopes else f"{stem}-{number}"] = path
    seen: set[Path] = set()
    for path in paths:
        if path.resolve() in seen:
            raise UsageError(f"The file {path} is named twice. Name each file once.")
        seen.add(path.resolve())
    return _Sources((scopes,), labels, None)


def _name(files: Sequence[AnyPath], target: Path) -> str:
    if len(files) > 1:
        return target.name
    path = Path(files[0])
    return path.resolve().name if path.is_dir() else split_name(path)[0]


@contextmanager
def _alone(target: Path) -> Iterator[Path]:
    """An empty folder next to the target, for this process only. Only a killed process leaves it behind."""
    stage, old, lock = (target.with_name(f".{target.name}.ingest{suffix}") for suffix in ("", ".old", ".lock"))
    with _locked(lock, target):
        if stage.is_symlink():  # emptying it would empty another folder
            stage.unlink()
        stage.mkdir(exist_ok=True)
        if old.exists() and target.exists():
            shutil.rmtree(old)
        elif old.exists():
            old.rename(target)
        for leftover in stage.iterdir():
            shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()
        try:
            yield stage
        finally:
            shutil.rmtree(stage, ignore_errors=True)


@contextmanager
def _locked(lock: Path, target: Path) -> Iterator[None]:
    """Allow one ingest at a time into a folder. The lock file is next to the folder, not part of the graph."""
    with ExitStack() as held:
        try:
            held.enter_context(taken(lock, remove=True))
        except BlockingIOError as error:
            raise UsageError(
                f"Another process is writing the graph {target}. Wait until it ends, or choose another folder."
            ) from error
        yield


class _Clock:
    """Seconds of each step."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, step: str) -> None:
        now = time.perf_counter()
        self.seconds[step], self._last = now - self._last, now


def _make(sources: _Sources, plan: _Plan, stage: Path, engine: DuckDbEngine, track: Track) -> dict[str, Any]:
    """Write all files of the stored graph to `stage`; returns the fields of `Ingested` except the folder."""
    clock, work = _Clock(), stage / "work"
    label_notes: list[str] = []
    with closing(ParquetSpool(work)) as spool:
        for files in sources.splits:
            spool.add(files, plan.options, threads=plan.threads, track=track)
        for kind, labels in (("entity", sources.labels), ("relation", sources.relation_labels)):
            if labels:
                label_notes.extend(spool.add_labels(kind, labels, plan.options))
    if not spool.reports[0].triples and not any(report.triples for report in spool.reports):
        raise GraphError(nothing(spool.reports[0]))
    clock.lap("read")

    entities, relations = _number(spool, plan, stage, engine, track)
    clock.lap("number")
    ids = [work / f"ids-{number}.npy" for number in range(len(spool.parts))]
    use = CountUse(entities.count, relations.count)
    stored = [
        write_ids(
            track(engine.triples(part, stage / "entities.parquet", stage / "relations.parquet"), "join", None),
            file,
            count=None if sources.given else use,
        )
        for part, file in zip(spool.parts, ids, strict=True)
    ]
    engine.close()
    clock.lap("join")

    reports = tuple(_with_blank_nodes(spool.reports, sources, entities))
    notes = [sentence for report in reports for sentence in report.sentences()] + label_notes
    for kind, names in (("entity", entities), ("relation", relations)):
        notes += names.notes(kind)
    paths = [file for files in sources.splits for file in files.values()]
    vocabularies = {"entities": stored_names(stage), "relations": _relation_names(stage)}
    order_notes = column_order_notes(plan.options, paths, rows_of(ids[0]), **vocabularies)
    notes += order_notes or value_notes(paths, rows_of(ids[0]), **vocabularies)
    notes += missing_value_notes(rows_of(ids[0]), SortedIndex(stored_names(stage)))
    repeated = sum(report.triples for report in reports) - sum(stored)
    if sources.given:
        for split, file in zip(SPLITS, ids, strict=True):
            file.rename(stage / f"{split}.npy")
        notes += [repeated_note(repeated)] if repeated else []
    else:
        parts = _divide(ids[0], plan, entities, use, n_triples=stored[0])
        write_splits(ids[0], stage, held_out={part.name: part.rows for part in parts})
        held_out = sum(len(part.rows) for part in parts)
        notes += split_notes(parts, seed=plan.seed, train=stored[0] - held_out, repeated=repeated)
    clock.lap("split")

    counts = {"entities": entities.count, "relations": relations.count, **write_triples(stage)}
    _seal(stage, plan.name, notes, counts, reports)
    clock.lap("write")
    return {"counts": counts, "reports": reports, "notes": tuple(notes), "seconds": clock.seconds}


def _number(
    spool: ParquetSpool, plan: _Plan, stage: Path, engine: DuckDbEngine, track: Track
) -> tuple[IngestedNames, IngestedNames]:
    labels = spool.labels if spool.n_labels else None
    names = {}
    for kind, columns in (("entity", ("head", "tail")), ("relation", ("relation",))):
        batches = track(engine.names(spool.parts, columns, labels, kind), f"number {kind} names", None)
        table = stage / ("entities.parquet" if kind == "entity" else "relations.parquet")
        of_entities = kind == "entity"
        names[kind] = write_names(
            batches, table, arrays=stage if of_entities else None, key=digest_key(plan.seed) if of_entities else None
        )
    needed = LEAST_MEMORY // 2 + PER_ENTITY * names["entity"].count
    if needed > plan.memory:
        raise UsageError(
            f"{names['entity'].count:,} entities need a memory limit of {needed >> 20} MiB or more. "
            f"Set memory={needed} (--memory-limit {-(-needed // 10**6)}MB)."
        )
    return names["entity"], names["relation"]


def _divide(ids: Path, plan: _Plan, entities: IngestedNames, use: CountUse, *, n_triples: int) -> list[HeldOutPart]:
    digest = np.frombuffer(entities.digests, dtype="<u8").astype(np.uint64, copy=False)
    parts = parts_of(n_triples, valid=plan.valid, test=plan.test)
    hold_out(
        parts,
        lambda: bands(lambda: rows_of(ids), digest, n_triples=n_triples),
        entity_left=use.entities,
        relation_left=use.relations,
    )
    return parts


def _with_blank_nodes(reports: list[ReadReport], sources: _Sources, entities: IngestedNames) -> Iterator[ReadReport]:
    """Add the counts of blank nodes, which are known only after all names were sorted: no file is held in memory."""
    scopes = [scope for files in sources.splits for scope in files]
    for scope, report in zip(scopes, reports, strict=True):
        rdf = report.format in ("N-Triples", "Turtle")
        yield replace(report, blank_nodes=entities.blank[blank_scope(scope)]) if rdf else report


def _relation_names(stage: Path) -> list[str]:
    import pyarrow.parquet as pq

    names: list[str] = pq.ParquetFile(stage / "relations.parquet").read(["name"]).column(0).to_pylist()
    return names


def _seal(stage: Path, name: str, notes: list[str], counts: Mapping[str, int], reports: tuple[ReadReport, ...]) -> None:
    files = sorted(file.name for file in stage.iterdir() if file.is_file())
    write_record(
        stage,
        {
            "format": "conjoin graph",
            "version": WITH_ARRAYS,
            "name": name,
            "notes": notes,
            "bad_lines": [str(bad) for report in reports for bad in report.samples][:SAMPLES],
            "counts": {key: counts[key] for key in ("entities", "relations", *SPLITS)},
            "checksum": checksum_of(stage, _relation_names(stage)),
            "sources": [
                {
                    "file": report.file,
                    "format": report.format,
                    "lines": report.lines,
                    "triples": report.triples,
                    "problems": dict(report.problems),
                }
                for report in reports
            ],
            "files": {file: sha256_of(stage / file) for file in files},
        },
    )
