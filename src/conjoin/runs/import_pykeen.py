"""Import ComplEx models that were trained elsewhere, such as with PyKEEN, as runs."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from conjoin.errors import GraphError, UsageError
from conjoin.graph.graph import SPLITS, Graph, Ids, Split, Vocabulary
from conjoin.io.formats import AnyPath
from conjoin.model.model import Model
from conjoin.runs import pykeen_worker
from conjoin.runs.folder import RunFolder
from conjoin.runs.save import refuse_taken, save_run
from conjoin.runtime.atomic_files import proper
from conjoin.runtime.progress import Track, silent

FORM = "complex"
HOW = "python -m venv pykeen; pykeen/bin/pip install torch pykeen"


@dataclass(frozen=True, eq=False)
class ComplExWeights:
    """The numbers of a ComplEx model with score(h, r, t) = Re Σ h_j r_j conj(t_j).

    `entities` has shape (n, k), complex, row i for entity_names[i]; so have `relations` and `reciprocals`, which
    answer (?, r, t) as (t, r, ?). It is None for a model without reciprocal relations, whose reciprocals are conj(r).

    >>> ComplExWeights(["a", "b"], np.ones((2, 4), complex), ["likes"], np.ones((1, 4), complex)).reciprocals is None
    True
    """

    entity_names: Sequence[str]
    entities: npt.NDArray[np.complexfloating[Any, Any]]
    relation_names: Sequence[str]
    relations: npt.NDArray[np.complexfloating[Any, Any]]
    reciprocals: npt.NDArray[np.complexfloating[Any, Any]] | None = None

    def __post_init__(self) -> None:
        width = self.entities.shape[-1]
        tables = (("entity", self.entity_names, self.entities), ("relation", self.relation_names, self.relations))
        for kind, names, rows in tables:
            if rows.shape != (len(names), width):
                raise UsageError(
                    f"{len(names)} {kind} names need rows of shape {(len(names), width)}, got {rows.shape}."
                )
            if len(set(names)) != len(names):
                raise UsageError(f"The {kind} names must be unique, but {len(names) - len(set(names))} are repeated.")
        if self.reciprocals is not None and self.reciprocals.shape != self.relations.shape:
            raise UsageError(
                f"reciprocals have the shape {self.reciprocals.shape}, but relations have {self.relations.shape}. "
                "Both need one row per relation and the same width."
            )


def from_complex_weights(weights: ComplExWeights, graph: Graph) -> tuple[Model, Graph]:
    """A model with the given weights and the part of the graph that it knows; `rank(model, known, "test")` ranks it.

    Valid and test facts with names that the model lacks are left out, as in PyKEEN, and counted in the notes. A
    training fact with such a name raises GraphError, for then the model belongs to another graph.

    >>> graph = Graph.from_triples([("a", "likes", "b")])
    >>> weights = ComplExWeights(["a", "b"], np.ones((2, 4), complex), ["likes"], np.ones((1, 4), complex))
    >>> from conjoin import Predictor
    >>> Predictor(*from_complex_weights(weights, graph)).score([("a", "likes", "b")])[0].score
    4.0
    """
    part = known_part(graph, weights)
    rows = _in_order(weights.entity_names, part.entities, weights.entities)
    relations = _in_order(weights.relation_names, part.relations, weights.relations)
    reciprocals = relations.conj()
    if weights.reciprocals is not None:
        reciprocals = _in_order(weights.relation_names, part.relations, weights.reciprocals)
    real = torch.float64 if rows.dtype == np.complex128 else torch.float32
    tables = {"entities.weight": planar(rows), "relations": planar(np.concatenate([relations, reciprocals]))}
    width = tables["relations"].shape[1] // 2
    model = Model(FORM, part.n_entities, part.n_relations, rank=width, seed=None, dtype=real)
    model.load_state_dict({name: torch.from_numpy(table).to(real) for name, table in tables.items()})
    return model, part


def known_part(graph: Graph, weights: ComplExWeights) -> Graph:
    """The facts whose names the model has. Raises GraphError unless it has all names of train and no others."""
    entities, keep_entity = _common(graph.entities, weights.entity_names)
    relations, keep_relation = _common(graph.relations, weights.relation_names)
    parts: dict[Split, Ids] = {}
    notes = list(graph.notes)
    for split in SPLITS:
        h, r, t = (
            keep[column]
            for keep, column in zip((keep_entity, keep_relation, keep_entity), graph.triples(split).T, strict=True)
        )
        known = (h >= 0) & (r >= 0) & (t >= 0)
        parts[split] = np.stack([h, r, t], axis=1)[known]
        lost = len(known) - int(known.sum())
        if lost and split == "train":
            raise GraphError(
                f"{lost:,} training facts have names that the model lacks. Use the graph that it was trained on."
            )
        if lost:
            notes.append(f"{lost:,} {split} facts left out: the model lacks their names")
    train, valid, test = (parts[split] for split in SPLITS)
    return Graph(
        entities, relations, train, valid, test, name=graph.name, notes=tuple(notes), bad_lines=graph.bad_lines
    )


def planar(rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Complex rows (n, k) as real rows: all real parts, then all imaginary parts; an odd k is padded with 0."""
    odd = rows.shape[1] % 2
    wide = np.pad(rows, ((0, 0), (0, odd)))
    return np.concatenate([wide.real, wide.imag], axis=1)


def _common(vocabulary: Vocabulary, names: Sequence[str]) -> tuple[Vocabulary, Ids]:
    """The names that the model has, and for each old id the new id, -1 for a name that it lacks."""
    known = set(names)
    extra = known - set(vocabulary.names)
    if extra:
        shown = ", ".join(sorted(extra)[:3])
        raise GraphError(
            f"The graph lacks {len(extra):,} {vocabulary.kind} names of the model, such as {shown}. "
            "Use the graph that the model was trained on."
        )
    stays = np.fromiter((name in known for name in vocabulary.names), dtype=bool, count=len(vocabulary))
    kept: list[int] = np.flatnonzero(stays).tolist()
    labels = tuple(vocabulary.labels[i] for i in kept) if len(vocabulary.labels) else ()
    new = Vocabulary(vocabulary.kind, tuple(vocabulary.names[i] for i in kept), labels)
    return new, np.where(stays, np.cumsum(stays) - 1, -1)


def _in_order(names: Sequence[str], vocabulary: Vocabulary, rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
    place = {name: i for i, name in enumerate(names)}
    return rows[[place[name] for name in vocabulary.names]]


def import_pykeen(source: AnyPath, graph: Graph, out: AnyPath, *, python: AnyPath, track: Track = silent) -> RunFolder:
    """Rank a ComplEx model of PyKEEN in the folder `source` and save it as a run. `python` has PyKEEN installed."""
    kept = RunFolder(Path(out))
    refuse_taken(kept)
    weights, about = read_pykeen(Path(source), python=Path(python))
    origin = f"PyKEEN {about['version']}"
    return save_run(
        *from_complex_weights(weights, graph), out, origin=origin, epochs=max(1, about["epochs"]), track=track
    )


def read_pykeen(source: Path, *, python: Path) -> tuple[ComplExWeights, dict[str, Any]]:
    """The weights in a folder of `PipelineResult.save_to_directory`; PyKEEN's own interpreter unpickles them."""
    for name in ("trained_model.pkl", "training_triples"):
        if not (source / name).exists():
            raise UsageError(f"{source} has no {name}. Choose a folder that PipelineResult.save_to_directory wrote.")
    for file in (
        source / "trained_model.pkl",
        source / "results.json",
        *sorted((source / "training_triples").glob("*")),
    ):
        try:
            proper(file)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise UsageError(f"Cannot read {file}: {error.strerror or error}.") from error
    with tempfile.TemporaryDirectory() as scratch:
        words = [str(python), "-I", pykeen_worker.__file__, str(source.absolute()), scratch]
        try:
            done = subprocess.run(words, capture_output=True, text=True, check=False)
        except OSError as error:
            raise UsageError(
                f"Cannot start {python} ({error.strerror or error}). Install PyKEEN with: {HOW}"
            ) from error
        if done.returncode:
            said = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
            raise UsageError(f"The interpreter {python} failed: {said[-1]}. Install PyKEEN with: {HOW}")
        about: dict[str, Any] = json.loads((Path(scratch) / "about.json").read_text(encoding="utf-8"))
        with np.load(Path(scratch) / "weights.npz", allow_pickle=False) as stored:
            entities, rows = stored["entities"], stored["relations"]
    forth, back = (rows[::2], rows[1::2]) if about["inverse"] else (rows, None)
    return ComplExWeights(about["entities"], entities, about["relations"], forth, back), about
