"""Queries, scores and moduli, one Python complex number at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tests.oracle.specs import SLOTS, Spec

Row = Sequence[float]
Vector = list[complex]
EPSILON = 1e-3


def tail(row: Row) -> Vector:
    """An entity: k real parts, then k imaginary parts."""
    k = len(row) // 2
    return [complex(row[j], row[j + k]) for j in range(k)]


def head(spec: Spec, row: Row) -> Vector:
    """An entity at the head: the published layout reads (re1, im1, re2, im2)."""
    if spec.family != "ComplEx" or spec.option("layout") == "proper":
        return tail(row)
    n = len(row) // 4
    first = [complex(row[j], row[n + j]) for j in range(n)]
    second = [complex(row[2 * n + j], row[3 * n + j]) for j in range(n)]
    return first + second


def unfold(spec: Spec, row: Row) -> dict[str, Vector]:
    """All slots of a relation from what it stores: the stored slots one behind the other, all real parts first."""
    width = len(row) // 2 // len(spec.stored)
    numbers = tail(row)
    stored = {slot: numbers[i * width : (i + 1) * width] for i, slot in enumerate(spec.stored)}
    mobius = spec.family == "FiveStar" and spec.option("quotient") == "mobius"
    if mobius:
        stored = {slot: [z + 1 for z in v] if slot in ("a", "d") else v for slot, v in stored.items()}
    slots = {slot: _expression(spec.ties[slot], stored) if slot in spec.ties else stored[slot] for slot in _slots(spec)}
    if mobius or (spec.family == "Pair" and spec.option("unit") == "true"):
        for j in range(width):
            norm = math.sqrt(sum(abs(v[j]) ** 2 for v in slots.values()) / 2)
            slots = {slot: [*v[:j], v[j] / norm, *v[j + 1 :]] for slot, v in slots.items()}
    return slots


def _slots(spec: Spec) -> tuple[str, ...]:
    return SLOTS[spec.family]


def _expression(text: str, stored: dict[str, Vector]) -> Vector:
    if text == "0":
        return [0j for _ in next(iter(stored.values()))]
    sign = -1 if text.startswith("-") else 1
    text = text.removeprefix("-")
    if text.startswith("conj("):
        return [sign * z.conjugate() for z in stored[text[5:-1]]]
    return [sign * z for z in stored[text]]


def query(spec: Spec, h: Vector, slots: dict[str, Vector]) -> Vector:
    """q of one head: score(t) = Re Σ q_j conj(t_j)."""
    n = len(h) // 2
    h1, h2 = h[:n], h[n:]
    if spec.family == "ComplEx":
        return [a * x for a, x in zip(slots["a1"] + slots["a2"], h, strict=True)]
    a, b, c, d = (slots[slot] for slot in "abcd")
    if spec.family == "Pair":
        first = [a[j] * h1[j] + b[j] * h2[j] for j in range(n)]
        second = [c[j] * h1[j] + d[j] * h2[j] for j in range(n)]
        return first + second
    return [_quotient(spec, a[j] * x + b[j], c[j] * x + d[j]) for j, x in enumerate(h)]


def _quotient(spec: Spec, top: complex, down: complex) -> complex:
    if spec.option("quotient") == "mobius":
        return top * down.conjugate() / (abs(down) ** 2 + EPSILON)
    if down == 0:
        return 0j
    if spec.option("quotient") == "phase":
        return top.conjugate() * down / abs(down)
    return top * down.conjugate() / abs(down)


def score(q: Vector, t: Vector) -> float:
    return math.fsum((x * y.conjugate()).real for x, y in zip(q, t, strict=True))


def scores(spec: Spec, entities: Sequence[Row], relation: Row, h: int) -> list[float]:
    """The scores of every entity as the tail of (h, relation, ?)."""
    q = query(spec, head(spec, entities[h]), unfold(spec, relation))
    return [score(q, tail(row)) for row in entities]


def modulus(spec: Spec, relation: Row) -> list[float]:
    """m of every coordinate of the unfolded relation."""
    slots = unfold(spec, relation)
    if spec.family == "ComplEx":
        return [abs(z) for z in slots["a1"] + slots["a2"]]
    a, b, c, d = (slots[slot] for slot in "abcd")
    if spec.family == "Pair":
        return [math.hypot(abs(x), abs(y)) for x, y in [*zip(a, b, strict=True), *zip(c, d, strict=True)]]
    if spec.option("penalty") == "half":
        return [2 * math.sqrt(sum(slots[slot][j].real ** 2 for slot in "abcd")) for j in range(len(a))]
    seen = "abcd" if spec.option("quotient") != "mobius" else [slot for slot in "bc" if slot in spec.stored]
    return [math.sqrt(sum(abs(slots[slot][j]) ** 2 for slot in seen)) for j in range(len(a))]


def loss(
    spec: Spec,
    entities: Sequence[Row],
    relations: Sequence[Row],
    batch: Sequence[tuple[int, int, int]],
    *,
    n3: float = 0.0,
    f2: float = 0.0,
) -> tuple[float, float]:
    """Mean cross-entropy over all entities, and the penalty divided by the batch size."""
    nll = penalty = 0.0
    for h, r, t in batch:
        found = scores(spec, entities, relations[r], h)
        top = max(found)
        nll += top + math.log(math.fsum(math.exp(s - top) for s in found)) - found[t]
        for factor in (
            [abs(z) for z in head(spec, entities[h])],
            modulus(spec, relations[r]),
            [abs(z) for z in tail(entities[t])],
        ):
            penalty += n3 * math.fsum(m**3 for m in factor) + f2 * math.fsum(m**2 for m in factor)
    return nll / len(batch), penalty / len(batch)
