"""Read a graph from a folder with train, valid and test, from one file of triples, or from a stored graph."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from conjoin.errors import GraphError
from conjoin.graph.graph import SPLITS, Graph, Split, Vocabulary
from conjoin.io.formats import SPLIT_NAMES, AnyPath, is_known, known_suffixes, split_name
from conjoin.io.graph_store import STORED, open_graph
from conjoin.io.labels import read_labels_with_report
from conjoin.io.name_checks import OddNames, column_order_notes, missing_value_notes, value_notes
from conjoin.io.read_options import ReadOptions
from conjoin.io.read_report import SAMPLES, ReadProblem, Triples
from conjoin.io.readers import PLAIN, read_triples

UNSPLIT = "one file: all triples are train; valid and test are empty"
Labels = AnyPath | Mapping[str, str]


def read_graph(
    path: AnyPath,
    *,
    options: ReadOptions = PLAIN,
    labels: Labels | None = None,
    relation_labels: Labels | None = None,
    name: str | None = None,
    split: Callable[[Graph], Graph] | None = None,
) -> Graph:
    """The graph at `path`. The sentences of the reports on its files become its notes.

    Folder        files named train, valid (validation, val, dev) and test, in any format and case; only train is
                  required. Without a suffix they are TSV, as the ComplEx-N3 code packs them.
    One file      all triples are train; `split`, if given, turns it into a graph with three splits.
    Stored graph  a folder with a graph.json, written by `save_graph` or `ingest`; it keeps its own notes.

    Labels are a file or a mapping. A folder's entity_labels.tsv[.gz] and relation_labels.tsv[.gz] are used by default,
    and take precedence over labels inside RDF.
    """
    source = Path(path)
    try:
        is_folder, exists = source.is_dir(), source.exists()
    except (OSError, ValueError) as error:
        raise GraphError(f"{os.fspath(path)!r} cannot be read: {error}") from error
    if not exists:
        raise GraphError(f"{path}: there is no such file or folder")
    if not is_folder:
        graph = _read_parts({"train": source}, options, labels, relation_labels, name or split_name(source)[0])
        return split(graph) if split else replace(graph, notes=(*graph.notes, UNSPLIT))
    if (source / STORED).exists():
        return _relabelled(open_graph(source), options, labels, relation_labels, name)
    return _read_parts(
        split_files(source),
        options,
        labels or beside(source, "entity_labels"),
        relation_labels or beside(source, "relation_labels"),
        name or source.resolve().name,
    )


def split_files(folder: AnyPath) -> dict[Split, Path]:
    """The file of each split in a folder. Raises GraphError without a train file, or with two files for one split."""
    try:
        files = sorted(file for file in Path(folder).iterdir() if file.is_file() and not file.name.startswith("."))
    except OSError as error:
        raise GraphError(f"{folder} cannot be read: {error.strerror or error}") from error
    by_split: dict[Split, Path] = {}
    for split in SPLITS:
        named = [file for file in files if split_name(file)[0].lower() in SPLIT_NAMES[split]]
        bare = [file for file in named if not split_name(file)[1]]
        candidates = [file for file in named if is_known(split_name(file)[1])] or bare
        if len(candidates) > 1:
            names = " and ".join(file.name for file in candidates)
            raise GraphError(f"{folder}: {names} could each be the {split} split. Keep only one of them in the folder.")
        if candidates:
            by_split[split] = candidates[0]
    if "train" not in by_split:
        shown = ", ".join(file.name for file in files[:20]) + (", …" if len(files) > 20 else "")
        raise GraphError(
            f"{folder}: there is no train file. It must be named `train`, without a suffix or with one of "
            f"{known_suffixes()}. "
            + (
                f"The folder has {shown}; `conjoin ingest` makes one graph of several files."
                if files
                else "The folder has no files."
            )
        )
    return by_split


def beside(folder: Path, stem: str) -> Path | None:
    """The labels file of a folder, if it has one."""
    names = (f"{stem}.tsv", f"{stem}.tsv.gz")
    files = sorted(file for file in folder.iterdir() if file.name.lower() in names)
    if len(files) > 1:
        raise GraphError(f"{folder}: {files[0].name} and {files[1].name} both contain labels. Keep only one of them.")
    return files[0] if files else None


def _read_parts(
    files: Mapping[Split, Path],
    options: ReadOptions,
    labels: Labels | None,
    relation_labels: Labels | None,
    name: str,
) -> Graph:
    notes: list[str] = []
    read_as: list[str] = []
    inside: dict[str, str] = {}
    bad: list[ReadProblem] = []
    with_blank_nodes = 0
    parts: dict[Split, Triples] = {}
    for split, file in files.items():
        parts[split], report = read_triples(file, options, scope=split, may_be_empty=split != "train")
        notes.extend(report.sentences())
        read_as.append(report.read_as)
        bad.extend(report.samples)
        with_blank_nodes += report.blank_nodes > 0
        for entity, label in parts[split].labels.items():
            inside.setdefault(entity, label)
    if len(files) > 1:
        notes.extend(f"there is no {split} file, so this split is empty" for split in SPLITS if split not in files)
    notes.extend(
        f"{files[split]}: the file has no triples, so this split is empty" for split in parts if not parts[split]
    )
    if with_blank_nodes > 1:
        notes.append("blank nodes of different files are different entities, even if their names are equal")
    entity_labels, entity_notes = _labels(labels, options)
    of_relations, relation_notes = _labels(relation_labels, options)
    graph = Graph.from_triples(
        *(parts.get(split) for split in SPLITS),
        name=name,
        labels=inside | entity_labels,
        relation_labels=inside | of_relations,
    )
    notes += _spelling_notes(graph.entities) + _spelling_notes(graph.relations)
    entities, relations = graph.entities.names, graph.relations.names
    order_notes = column_order_notes(options, files.values(), [graph.train], entities=entities, relations=relations)
    notes += order_notes or value_notes(files.values(), [graph.train], entities=entities, relations=relations)
    notes += missing_value_notes([graph.train], graph.entities.index)
    return replace(
        graph,
        notes=(*notes, *entity_notes, *relation_notes),
        bad_lines=tuple(map(str, bad[:SAMPLES])),
        read_as=tuple(read_as),
    )


def _spelling_notes(vocabulary: Vocabulary) -> list[str]:
    odd = OddNames()
    odd.look_at(vocabulary.names)
    return odd.notes(vocabulary.kind, lambda _: vocabulary.index)


def _labels(labels: Labels | None, options: ReadOptions) -> tuple[dict[str, str], tuple[str, ...]]:
    if labels is None:
        return {}, ()
    if isinstance(labels, Mapping):
        return dict(labels), ()
    label_of, report = read_labels_with_report(labels, on_error=options.on_error)
    return label_of, report.sentences() if report.problems else ()


def _relabelled(
    graph: Graph, options: ReadOptions, labels: Labels | None, relation_labels: Labels | None, name: str | None
) -> Graph:
    """A stored graph with another name or other labels, if they are given."""
    if labels is None and relation_labels is None and name in (None, graph.name):
        return graph
    entity_labels, entity_notes = _labels(labels, options)
    of_relations, relation_notes = _labels(relation_labels, options)
    return replace(
        graph,
        entities=_with_labels(graph.entities, entity_labels),
        relations=_with_labels(graph.relations, of_relations),
        name=name or graph.name,
        notes=(*graph.notes, *entity_notes, *relation_notes),
    )


def _with_labels(vocabulary: Vocabulary, labels: dict[str, str]) -> Vocabulary:
    if not labels:
        return vocabulary
    old = vocabulary.labels or ("",) * len(vocabulary)
    merged = (labels.get(name, label) for name, label in zip(vocabulary.names, old, strict=True))
    return replace(vocabulary, labels=tuple(merged))
