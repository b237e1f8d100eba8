"""Links as the mathematics writes them, one pair of a query and an entity at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence

Row = Sequence[float]
SOFTENED = 1e-6
COLUMNS = {"dot-bias": 1, "squared-bias": 1}
"""Numbers behind an entity's vector."""
QUERY_PARTS = {"hyperplane": 2}
"""How many vectors a query row holds."""


def _dot(x: Row, y: Row) -> float:
    return math.fsum(a * b for a, b in zip(x, y, strict=True))


def _distance_squared(x: Row, y: Row) -> float:
    return math.fsum((a - b) ** 2 for a, b in zip(x, y, strict=True))


def _hyperplane(q: Row, t: Row) -> float:
    """The projection of t on the plane with the unit normal w is t - (w·t) w."""
    p, w = q[: len(t)], q[len(t) :]
    along = _dot(w, t)
    projected = [x - along * n for x, n in zip(t, w, strict=True)]
    return -_distance_squared(p, projected)


PAIRS = {
    "dot": _dot,
    "dot-bias": lambda q, t: _dot(q, t[:-1]) + t[-1],
    "squared": lambda q, t: -_distance_squared(q, t),
    "squared-bias": lambda q, t: -_distance_squared(q, t[:-1]) + t[-1],
    "l2": lambda q, t: -math.sqrt(_distance_squared(q, t) + SOFTENED),
    "l1": lambda q, t: -math.fsum(abs(a - b) for a, b in zip(q, t, strict=True)),
    "hyperplane": _hyperplane,
}
