"""Quaternions from the table i² = j² = k² = ijk = -1, four reals each."""

from __future__ import annotations

import math

Quaternion = tuple[float, float, float, float]

# UNIT[x][y] = (sign, z) with x·y = sign·z for x, y, z among 1, i, j, k.
UNIT = (
    ((1, 0), (1, 1), (1, 2), (1, 3)),
    ((1, 1), (-1, 0), (1, 3), (-1, 2)),
    ((1, 2), (-1, 3), (-1, 0), (1, 1)),
    ((1, 3), (1, 2), (-1, 1), (-1, 0)),
)


def product(x: Quaternion, y: Quaternion) -> Quaternion:
    total = [0.0, 0.0, 0.0, 0.0]
    for i in range(4):
        for j in range(4):
            sign, unit = UNIT[i][j]
            total[unit] += sign * x[i] * y[j]
    return total[0], total[1], total[2], total[3]


def unit(x: Quaternion) -> Quaternion:
    norm = math.sqrt(sum(part * part for part in x))
    return x[0] / norm, x[1] / norm, x[2] / norm, x[3] / norm


def inner(x: Quaternion, y: Quaternion) -> float:
    return sum(p * q for p, q in zip(x, y, strict=True))


def of_pair(first: complex, second: complex) -> Quaternion:
    """first + second·j, with i the complex unit."""
    return first.real, first.imag, second.real, second.imag
