"""Two-dimensional positions of the entities for the map, computed once and stored in the run folder."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from tokenize import TokenError
from typing import Any
from zipfile import BadZipFile, ZipFile

import numpy as np
import numpy.typing as npt
import torch

from conjoin.errors import NotInstalled, unknown
from conjoin.graph.graph import Ids
from conjoin.runs.folder import RunFolder
from conjoin.runtime.atomic_files import proper, replacing
from conjoin.server.open_runs import OpenRun
from conjoin.server.settings import CLASSES, POINTS

METHODS = ("pca", "umap", "pacmap")
MAGIC = b"CJM1"
FEWEST = 10
"""Graphs with fewer entities always use PCA: UMAP and PaCMAP need neighbours."""
UNREADABLE = (OSError, ValueError, KeyError, EOFError, RuntimeError, SyntaxError, TokenError, BadZipFile, zlib.error)
"""Exceptions that NumPy and its zip reader raise on a damaged file."""
HEADS = 4096
"""Most bytes of a stored map in addition to its points."""

Points = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Projection:
    """Entities by descending degree with their positions (n, 2), degrees and classes."""

    method: str
    ids: Ids
    points: Points
    degree: Ids
    kind: npt.NDArray[np.uint8]
    classes: list[dict[str, Any]]

    def columns(self, run: OpenRun, limit: int) -> dict[str, Any]:
        """The JSON answer of /v1/map."""
        ids = self.ids[:limit].tolist()
        entities = run.graph.entities
        return {
            "run": run.name,
            "method": self.method,
            "methods": stored_methods(run),
            "total": run.graph.n_entities,
            "count": len(ids),
            "names": [entities.names[i] for i in ids],
            "labels": [entities.label(i) for i in ids],
            "x": _short(self.points[:limit, 0]),
            "y": _short(self.points[:limit, 1]),
            "degree": self.degree[:limit].tolist(),
            "class": self.kind[:limit].tolist(),
            "classes": self.classes,
        }

    def packed(self, limit: int) -> bytes:
        """The binary answer of /v1/map: magic bytes, count, then little-endian columns."""
        points = self.points[:limit]
        columns = (
            points[:, 0].astype("<f4"),
            points[:, 1].astype("<f4"),
            self.degree[:limit].astype("<u4"),
            self.kind[:limit].astype("u1"),
        )
        return MAGIC + struct.pack("<I", len(points)) + b"".join(column.tobytes() for column in columns)


def projection_of(run: OpenRun, method: str = "pca") -> Projection:
    """The stored layout, or a new one; it is stored if the run folder is writable."""
    if method not in METHODS:
        raise unknown("map", method, METHODS, way_out=f"Choose from {', '.join(METHODS)}.")
    ids = run.by_degree[:POINTS]
    points = _stored(run, method, len(ids))
    if points is None:
        points = _scaled(project(run.predictor.model.entities.rows(torch.from_numpy(ids)), method))
        _store(run, method, points)
    kind, classes = _classes(run)
    return Projection(method, ids, points, run.degree[ids], kind[ids], classes)


def stored_methods(run: OpenRun) -> list[str]:
    """The methods that can be served: PCA always, others if their layout is stored."""
    return [method for method in METHODS if method == "pca" or _is_stored(run, method)]


def project(rows: torch.Tensor, method: str, *, seed: int = 0) -> Points:
    """Rows (n, width) in two dimensions, (n, 2)."""
    if method == "pca" or len(rows) < FEWEST:
        return _pca(rows)
    module, name = {"umap": ("umap", "UMAP"), "pacmap": ("pacmap", "PaCMAP")}[method]
    try:
        reducer = getattr(import_module(module), name)
    except ImportError as error:
        package = {"umap": "umap-learn", "pacmap": "pacmap"}[method]
        raise NotInstalled(package, "map", f"A map by {name}") from error
    return np.asarray(reducer(random_state=seed).fit_transform(rows.cpu().numpy()), dtype=np.float32)


def _pca(rows: torch.Tensor) -> Points:
    """The two directions of largest variance; each points to where its largest weight is positive."""
    centred = rows.double().cpu()
    centred = centred - centred.mean(dim=0) if len(rows) else centred
    _, directions = torch.linalg.eigh(centred.T @ centred)
    first = directions[:, -2:].flip(1)
    signs = first.gather(0, first.abs().argmax(dim=0, keepdim=True)).sign()
    points: Points = (centred @ (first * signs)).float().numpy()
    return points


def _scaled(points: Points) -> Points:
    """Centre the points and scale both axes alike: all but the outermost 0.1 % of the coordinates lie in [-1, 1]."""
    centred = points - np.median(points, axis=0) if len(points) else points
    reach = float(np.quantile(np.abs(centred), 0.999)) if len(points) else 1.0
    return (centred / (reach or 1.0)).astype(np.float32)


def _classes(run: OpenRun) -> tuple[npt.NDArray[np.uint8], list[dict[str, Any]]]:
    """Class of each entity (n,): the position, head or tail of a relation, that it has most often in train."""
    train, n, relations = run.graph.train, run.graph.n_entities, run.graph.relations
    slots = 2 * max(len(relations), 1)
    key = np.concatenate([train[:, 0] * slots + 2 * train[:, 1], train[:, 2] * slots + 2 * train[:, 1] + 1])
    pairs, counts = np.unique(key, return_counts=True)
    order = np.lexsort((-counts, pairs // slots))
    entity, slot = pairs[order] // slots, pairs[order] % slots
    firsts = np.unique(entity, return_index=True)[1]
    mostly = np.full(n, -1)
    mostly[entity[firsts]] = slot[firsts]
    sizes = np.bincount(mostly[mostly >= 0], minlength=slots)
    largest = [int(s) for s in np.argsort(-sizes, kind="stable")[: CLASSES - 1] if sizes[s]]
    kind = np.full(n, len(largest), dtype=np.uint8)
    for index, chosen in enumerate(largest):
        kind[mostly == chosen] = index
    classes = [
        {"label": f"{'tail' if s % 2 else 'head'} of {relations.label(s // 2)}", "count": int(sizes[s])}
        for s in largest
    ]
    rest = n - sum(int(sizes[s]) for s in largest)
    return kind, [*classes, {"label": "other", "count": rest}] if rest else classes


def _file(folder: RunFolder, weights: str, method: str) -> Path:
    return folder.path / f"map-{method}-{weights}.npz"


def _is_stored(run: OpenRun, method: str) -> bool:
    return run.folder is not None and _file(run.folder, run.weights, method).exists()


def _checksum(folder: RunFolder, weights: str) -> str:
    return str(folder.result.get("files", {}).get(folder.weights_file(weights).name))


def _stored(run: OpenRun, method: str, count: int) -> Points | None:
    """The stored points, None if they are damaged or belong to other weights."""
    if run.folder is None:
        return None
    file = _file(run.folder, run.weights, method)
    try:
        proper(file)
        with ZipFile(file) as archive:
            if sum(member.file_size for member in archive.infolist()) > 8 * count + HEADS:
                return None
        with np.load(file, allow_pickle=False) as stored:
            points, checksum = stored["points"], str(stored["weights"])
    except UNREADABLE:
        return None
    fits = points.shape == (count, 2) and points.dtype == np.float32 and bool(np.isfinite(points).all())
    return points if fits and checksum == _checksum(run.folder, run.weights) else None


def _store(run: OpenRun, method: str, points: Points) -> None:
    if run.folder is None:
        return
    file = _file(run.folder, run.weights, method)
    try:
        with replacing(file) as aside, aside.open("wb") as stream:
            np.savez(stream, points=points, weights=np.array(_checksum(run.folder, run.weights)))
    except OSError:  # the folder is not writable: compute the map again next time
        return


def _short(column: Points) -> list[float]:
    return [round(value, 4) for value in column.tolist()]
