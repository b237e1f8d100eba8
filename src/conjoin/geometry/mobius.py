"""Möbius maps x → (a x + b)/(c x + d) and the Riemann sphere: what a relation does to one complex coordinate.

A point is a pair (x, w) that stands for x/w, so that infinity, (1, 0), is a point like any other.
Does not import torch.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt

from conjoin.errors import UsageError

Complexes = npt.NDArray[np.complex128]
Reals = npt.NDArray[np.float64]
Kind = Literal["identity", "elliptic", "parabolic", "hyperbolic", "loxodromic", "constant"]
Disc = Literal["kept", "swapped"]

SAME = 1e-7
"""Tolerance for equality: the numbers of a trained model have about seven digits."""
FLAT = 1e-9
"""A determinant below this share of the squared norm makes the map constant."""


def points_of(values: npt.ArrayLike) -> Complexes:
    """Complex numbers as points, (…) to (…, 2); an infinite one becomes the point at infinity."""
    z = np.asarray(values, dtype=np.complex128)
    far = ~np.isfinite(z)
    return np.stack([np.where(far, 1, z), np.where(far, 0, 1)], axis=-1)


def to_sphere(points: Complexes) -> Reals:
    """Stereographic projection, (…, 2) to (…, 3): the unit circle is the equator, 0 the south and ∞ the north pole."""
    x, w = points[..., 0], points[..., 1]
    size = np.abs(x) ** 2 + np.abs(w) ** 2
    across = 2 * x * np.conj(w) / size
    return np.stack([across.real, across.imag, (np.abs(x) ** 2 - np.abs(w) ** 2) / size], axis=-1)


def from_sphere(places: npt.ArrayLike) -> Complexes:
    """The inverse of `to_sphere`, (…, 3) to (…, 2)."""
    p = np.asarray(places, dtype=np.float64)
    across = p[..., 0] + 1j * p[..., 1]
    south = p[..., 2] < 0
    return np.stack([np.where(south, across, 1 + p[..., 2]), np.where(south, 1 - p[..., 2], np.conj(across))], axis=-1)


def chordal(p: Complexes, q: Complexes) -> Reals:
    """The straight distance of two points through the sphere, between 0 and 2."""
    crossed = np.abs(p[..., 0] * q[..., 1] - p[..., 1] * q[..., 0])
    return np.asarray(2 * crossed / (np.linalg.norm(p, axis=-1) * np.linalg.norm(q, axis=-1)))


@dataclass(frozen=True, eq=False)
class Mobius:
    """A map by its 2 × 2 matrix, which counts up to a factor. `of` makes one from a, b, c, d."""

    matrix: Complexes

    @staticmethod
    def of(a: complex, b: complex, c: complex, d: complex) -> Mobius:
        """x → (a x + b)/(c x + d), with the matrix scaled to Frobenius norm √2."""
        matrix = np.array([[a, b], [c, d]], dtype=np.complex128)
        largest = np.abs(matrix).max()
        if not np.isfinite(largest) or largest == 0:
            raise UsageError(
                f"a, b, c, d = {a}, {b}, {c}, {d} is not a Möbius map. The numbers must be finite and not all 0."
            )
        matrix = matrix / largest
        return Mobius(matrix * (np.sqrt(2) / np.linalg.norm(matrix)))

    @cached_property
    def determinant(self) -> complex:
        (a, b), (c, d) = self.matrix
        return complex(a * d - b * c)

    @property
    def degenerate(self) -> bool:
        """Are all points mapped to one point?"""
        return abs(self.determinant) <= FLAT * 2

    @cached_property
    def _normal(self) -> Complexes:
        """The matrix scaled to determinant 1, with the sign that gives the trace a real part ≥ 0."""
        if self.degenerate:
            raise UsageError("This map is constant, so it has no inverse and no flow. Choose another coordinate.")
        matrix = self.matrix / np.sqrt(self.determinant)
        trace = np.trace(matrix)
        left = trace.real < -SAME or (abs(trace.real) <= SAME and trace.imag < 0)
        return np.asarray(-matrix if left else matrix)

    @cached_property
    def kind(self) -> Kind:
        """The class: elliptic maps rotate, hyperbolic stretch, loxodromic do both, parabolic translate."""
        if self.degenerate:
            return "constant"
        if np.abs(self._normal - np.eye(2)).max() < SAME:
            return "identity"
        square = complex(np.trace(self._normal)) ** 2
        if abs(square - 4) < SAME:
            return "parabolic"
        if abs(square.imag) > SAME or square.real < -SAME:
            return "loxodromic"
        return "elliptic" if square.real < 4 else "hyperbolic"

    @cached_property
    def multiplier(self) -> complex:
        """The factor of the map if its fixed points are moved to 0 and ∞; at least 1 in modulus, 1 if parabolic."""
        if self.kind in ("identity", "parabolic"):
            return 1 + 0j
        return complex(np.exp(2 * self._half_length))

    @property
    def disc(self) -> Disc | None:
        """ "kept" if the map keeps the unit disc, "swapped" if it exchanges inside and outside, else None."""
        if self.degenerate:
            return None
        metric = np.diag([1.0, -1.0])
        pulled = np.conj(self._normal.T) @ metric @ self._normal
        size = np.linalg.norm(self._normal) ** 2
        if np.abs(pulled - metric).max() < SAME * size:
            return "kept"
        return "swapped" if np.abs(pulled + metric).max() < SAME * size else None

    @property
    def turns_rigidly(self) -> bool:
        """Is it a rotation of the sphere, which changes no chordal distance?"""
        if self.degenerate:
            return False
        return bool(np.abs(np.conj(self._normal.T) @ self._normal - np.eye(2)).max() < SAME)

    @cached_property
    def fixed(self) -> Complexes:
        """Its fixed points, (n, 2): two (the attracting one first), one if parabolic or constant, none if identity.

        A constant map fixes its value, unless that is just where it is not defined; then there is none.
        """
        if self.kind == "identity":
            return np.empty((0, 2), dtype=np.complex128)
        if self.degenerate:
            value = self._value
            kept = np.linalg.norm(self.matrix @ value) > np.sqrt(FLAT)
            return value[None] if kept else np.empty((0, 2), dtype=np.complex128)
        half = self._half_length if self.kind != "parabolic" else 0j
        roots = [np.exp(half), np.exp(-half)] if self.kind != "parabolic" else [np.exp(half)]
        return np.stack([_kernel(self._normal - root * np.eye(2)) for root in roots])

    @cached_property
    def _value(self) -> Complexes:
        """The value of a constant map: the longer column."""
        columns = self.matrix.T
        longest: Complexes = columns[np.argmax(np.linalg.norm(columns, axis=1))]
        return longest / np.linalg.norm(longest)

    def __call__(self, points: Complexes) -> Complexes:
        """The images of points, (…, 2), each scaled to length 1. A constant map has its value everywhere."""
        if self.degenerate:
            return np.broadcast_to(self._value, points.shape).copy()
        moved = points @ self.matrix.T
        return np.asarray(moved / np.linalg.norm(moved, axis=-1, keepdims=True))

    def __matmul__(self, first: Mobius) -> Mobius:
        """This map after `first`."""
        return Mobius.of(*(self.matrix @ first.matrix).ravel())

    def inverse(self) -> Mobius:
        """The inverse map."""
        (a, b), (c, d) = self._normal
        return Mobius.of(d, -b, -c, a)

    def power(self, n: int) -> Mobius:
        """The n-th iterate; negative n iterates the inverse, 0 is the identity."""
        step = self.inverse() if n < 0 else self
        result = Mobius.of(1, 0, 0, 1)
        for bit in f"{abs(n):b}":
            result = result @ result
            result = result @ step if bit == "1" else result
        return result

    def flow(self, t: float) -> Mobius:
        """The map at time t of the one-parameter group that passes through this map at time 1.

        There are many such groups; this one turns by the smallest angle. At whole t it is `power(t)`.
        """
        half = t * self._half_length
        shape = np.sinh(half) / half if abs(half) > 1e-4 else 1 + half**2 / 6
        return Mobius.of(*(np.cosh(half) * np.eye(2) + t * shape * self.generator).ravel())

    @cached_property
    def generator(self) -> Complexes:
        """The logarithm of the matrix: traceless, with `flow(t)` = exp(t · generator)."""
        half = self._half_length
        shape = half / np.sinh(half) if abs(half) > 1e-4 else 1 - half**2 / 6
        flat = self._normal - np.trace(self._normal) / 2 * np.eye(2)
        return np.asarray(shape * flat)

    @cached_property
    def _half_length(self) -> complex:
        """Half the logarithm of the multiplier, real part not negative: the trace is 2 cosh of it.

        From the part of the matrix without trace, whose square is sinh² of it times the identity: arccosh of the trace
        alone would lose half of the digits near the identity.
        """
        trace = complex(np.trace(self._normal))
        (a, b), (c, d) = self._normal
        sinh = np.sqrt(((a - d) / 2) ** 2 + b * c)
        half = complex(np.log(trace / 2 + sinh))
        return -half if half.real < -1e-12 or (abs(half.real) <= 1e-12 and half.imag < 0) else half


def _kernel(singular: Complexes) -> Complexes:
    """The null direction of a singular matrix: orthogonal to its longer row."""
    row = singular[np.argmax(np.linalg.norm(singular, axis=1))]
    across = np.array([-row[1], row[0]])
    return np.asarray(across / np.linalg.norm(across))
