"""Forms over real numbers as their papers write them: one score from the rows of head, relation and tail."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

Row = Sequence[float]


def distmult(h: Row, r: Row, t: Row) -> float:
    return math.fsum(x * y * z for x, y, z in zip(h, r, t, strict=True))


def transe_squared(h: Row, r: Row, t: Row) -> float:
    return -math.fsum((x + y - z) ** 2 for x, y, z in zip(h, r, t, strict=True))


def transe(h: Row, r: Row, t: Row) -> float:
    return -math.sqrt(-transe_squared(h, r, t) + 1e-6)


def transh(h: Row, r: Row, t: Row) -> float:
    """A relation holds its move, then a normal of any length."""
    move, normal = r[: len(h)], r[len(h) :]
    length = math.sqrt(math.fsum(x * x for x in normal))
    normal = [x / length for x in normal]

    def projected(x: Row) -> list[float]:
        along = math.fsum(a * b for a, b in zip(x, normal, strict=True))
        return [a - along * b for a, b in zip(x, normal, strict=True)]

    return transe_squared(projected(h), move, projected(t))


SCORES: dict[str, Callable[[Row, Row, Row], float]] = {
    "distmult": distmult,
    "transe": transe,
    "transe-squared": transe_squared,
    "transh": transh,
}
RELATION_WIDTH = {"transh": 2}
"""Numbers of a relation per coordinate, where it is not one."""
PENALISED: dict[str, Callable[[Row], Row]] = {"transh": lambda r: r[: len(r) // 2]}
"""The numbers of a relation that a penalty sees, where it is not all of them."""
