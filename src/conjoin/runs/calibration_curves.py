"""Curves from scores to probabilities, per relation and direction, and their file. Does not import torch.

The probability of a score is the fraction of held-out facts among all candidates with that score that are not known
facts. The questions are (h, r, ?) and (?, r, t) of every held-out fact of a split. The candidates are all entities, or
one fact and `ratio` random corruptions of it. Probabilities depend on this population: for a question whose answers are
all known, they are too high.

Curves are stored as numbers in calibration.json and applied with numpy; only fitting them needs scikit-learn.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from conjoin.errors import RunError
from conjoin.graph.graph import Graph, Ids
from conjoin.io.formats import AnyPath
from conjoin.runs.folder import RunFolder
from conjoin.runtime.atomic_files import read_sealed, write_sealed
from conjoin.runtime.file_limits import LARGE_RECORD
from conjoin.runtime.format_version import STAMP, check_format_version

Reals = npt.NDArray[np.floating[Any]]
FILE = "calibration.json"
AGAIN = "Delete it and calibrate again (conjoin calibrate)."
DIRECTIONS = ("tail", "head")


class Curve(Protocol):
    """A map from scores to probabilities that never falls."""

    def __call__(self, scores: Reals) -> Reals: ...

    def reach(self, probability: float) -> tuple[float, float]:
        """Scores up to the first are less probable, scores up to the second are not more probable."""
        ...

    def to_json(self) -> dict[str, Any]: ...


@dataclass(frozen=True, eq=False)
class Steps:
    """Isotonic regression: probabilities at rising scores, linear between them and constant outside."""

    scores: Reals
    probabilities: Reals

    def __call__(self, scores: Reals) -> Reals:
        return np.interp(scores, self.scores, self.probabilities)

    def reach(self, probability: float) -> tuple[float, float]:
        """The last scores of steps below the probability, and of steps not above it.

        >>> Steps(np.array([0.0, 1.0, 2.0, 3.0]), np.array([0.1, 0.4, 0.4, 0.9])).reach(0.4)
        (0.0, 2.0)
        """
        last = [-np.inf, *self.scores[:-1].tolist(), np.inf]
        less, not_more = (int(np.searchsorted(self.probabilities, probability, side)) for side in ("left", "right"))
        return last[less], last[not_more]

    def to_json(self) -> dict[str, Any]:
        return {"scores": self.scores.tolist(), "probabilities": self.probabilities.tolist()}


@dataclass(frozen=True)
class Sigmoid:
    """Platt: 1 / (1 + exp(-(slope · score + intercept)))."""

    slope: float
    intercept: float

    def __call__(self, scores: Reals) -> Reals:
        return 1 / (1 + np.exp(-np.clip(self.slope * np.asarray(scores, np.float64) + self.intercept, -700, 700)))

    def reach(self, probability: float) -> tuple[float, float]:
        """One score, a little too small for the sake of rounding.

        >>> Sigmoid(2.0, 1.0).reach(0.5)[0]
        -0.500001
        """
        if self.slope <= 0 or not 0 < probability < 1:
            return -np.inf, -np.inf
        score = float((np.log(probability) - np.log1p(-probability) - self.intercept) / self.slope) - 1e-6
        return score, score

    def to_json(self) -> dict[str, Any]:
        return {"slope": self.slope, "intercept": self.intercept}


@dataclass(frozen=True, eq=False)
class Calibration:
    """One curve for all, and own curves by relation number (reciprocals, which ask for heads, behind n_relations).

    `mined` is for mined facts, from the logarithm of plausibility (`conjoin.predict.mining`), with own
    curves in `mined_own`.
    `about` says how the curves were fitted, `measured` how reliable they are.
    """

    pooled: Curve
    own: Mapping[int, Curve]
    about: Mapping[str, Any] = field(default_factory=dict)
    measured: Mapping[str, Any] = field(default_factory=dict)
    mined: Curve | None = None
    mined_own: Mapping[int, Curve] = field(default_factory=dict)

    def probabilities(self, relations: Ids, scores: Reals) -> Reals:
        """The probabilities (n,) of facts with these relations (n,) and scores (n,)."""
        found = np.empty(len(scores), dtype=np.float64)
        for r in np.unique(relations).tolist():
            here = relations == r
            found[here] = self.own.get(r, self.pooled)(scores[here])
        return found

    def mined_curve(self, r: int) -> Curve | None:
        """The curve for mined facts of a relation; None if the calibration has no such curves."""
        return self.mined_own.get(r, self.mined) if self.mined else None


def write_calibration(folder: AnyPath, graph: Graph, calibration: Calibration, *, weights: str) -> Path:
    """Write a calibration of the run's last or best weights into the run's folder, where `conjoin.open` finds it.

    >>> import conjoin
    >>> from conjoin.predict.calibration import calibrate
    >>> graph = conjoin.load("synthetic:symmetric(entities=120)")
    >>> run = conjoin.Run.of(graph, "complex", rank=4, recipe=conjoin.Recipe(epochs=1))
    >>> folder = conjoin.execute(run, graph, "runs/calibrated")
    >>> file = write_calibration(folder, graph, calibrate(conjoin.open("runs/calibrated")), weights="last")
    >>> conjoin.open("runs/calibrated").calibration is not None
    True
    """
    kept, n = RunFolder(Path(folder)), graph.n_relations
    relations: dict[str, dict[str, Any]] = {}
    for r, curve in sorted(calibration.own.items()):
        relations.setdefault(graph.relations.names[r % n], {})[DIRECTIONS[r // n]] = curve.to_json()
    path = kept.path / FILE
    write_sealed(
        path,
        {
            **STAMP,
            "run": kept.run.id,
            "weights": weights,
            "about": dict(calibration.about),
            "measured": dict(calibration.measured),
            "pooled": calibration.pooled.to_json(),
            "relations": relations,
            "mined": calibration.mined.to_json() if calibration.mined else None,
            "mined_relations": {
                graph.relations.names[r]: curve.to_json() for r, curve in sorted(calibration.mined_own.items())
            },
        },
    )
    return path


def read_calibration(folder: RunFolder, graph: Graph, weights: str) -> Calibration | None:
    """The calibration of these weights ("last" or "best"); None if the folder has none."""
    path = folder.path / FILE
    if not path.exists():
        return None
    try:
        stored = read_sealed(path, limit=LARGE_RECORD)
    except RunError as error:
        raise RunError(f"{path} is damaged or cannot be read. {AGAIN}") from error
    check_format_version(stored, path)
    if stored.get("run") != folder.run.id:
        raise RunError(f"{path} belongs to another run. {AGAIN}")
    if stored.get("weights") != weights:
        return None
    try:
        own = {
            graph.relations.index[name] + DIRECTIONS.index(direction) * graph.n_relations: _curve(curve)
            for name, curves in stored["relations"].items()
            for direction, curve in curves.items()
        }
        mined = _steps(stored["mined"]) if stored.get("mined") else None
        mined_own = {
            graph.relations.index[name]: _steps(curve) for name, curve in stored.get("mined_relations", {}).items()
        }
        about, measured = dict(stored["about"]), dict(stored["measured"])
        return Calibration(_curve(stored["pooled"]), own, about, measured, mined, mined_own)
    except (KeyError, ValueError, TypeError, AttributeError, OverflowError) as error:
        raise RunError(f"Cannot use {path} ({error!r}). {AGAIN}") from error


def _curve(stored: Mapping[str, Any]) -> Curve:
    if "slope" not in stored:
        return _steps(stored)
    slope, intercept = float(stored["slope"]), float(stored["intercept"])
    if not np.isfinite([slope, intercept]).all():
        raise ValueError("a curve needs numbers")
    return Sigmoid(slope, intercept)


def _steps(stored: Mapping[str, Any]) -> Steps:
    scores, probabilities = (np.array(stored[name], dtype=np.float64) for name in ("scores", "probabilities"))
    same = scores.ndim == 1 and scores.shape == probabilities.shape and len(scores) > 0
    if not same or not all((np.diff(numbers) >= 0).all() for numbers in (scores, probabilities)):
        raise ValueError("a curve needs rising scores, and as many probabilities that never fall")
    if not np.isfinite(scores).all() or not 0 <= probabilities[0] <= probabilities[-1] <= 1:
        raise ValueError("a curve needs finite scores, and probabilities between 0 and 1")
    return Steps(scores, probabilities)
