"""Complex arithmetic on two real tensors.

Parameters are stored real, the real parts of a row first and its imaginary parts behind them: matrix products,
sharding, optimiser state and the compiler all want real numbers, and formulas still read like formulas.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

TINY = 1e-30
"""Keeps the derivative of a modulus finite at zero; far below the rounding of any modulus that occurs."""


@dataclass(frozen=True, eq=False)
class Z:
    """A complex tensor in two planes of equal shape."""

    re: Tensor
    im: Tensor

    def __add__(self, other: Z) -> Z:
        return Z(self.re + other.re, self.im + other.im)

    def __neg__(self) -> Z:
        return Z(-self.re, -self.im)

    def __mul__(self, other: Z) -> Z:
        return Z(self.re * other.re - self.im * other.im, self.re * other.im + self.im * other.re)

    def scaled(self, factor: Tensor) -> Z:
        """Every coordinate times a real factor."""
        return Z(self.re * factor, self.im * factor)

    def conj(self) -> Z:
        return Z(self.re, -self.im)

    def squared(self) -> Tensor:
        """|z|² of every coordinate."""
        return self.re * self.re + self.im * self.im

    def modulus(self) -> Tensor:
        """|z| of every coordinate, with derivative 0 at 0."""
        return torch.sqrt(self.squared() + TINY)

    def halves(self) -> tuple[Z, Z]:
        """The first and the second half of an even number of coordinates."""
        re, im = self.re.chunk(2, dim=-1), self.im.chunk(2, dim=-1)
        return Z(re[0], im[0]), Z(re[1], im[1])

    def row(self) -> Tensor:
        """The real row that stores this vector: real parts, then imaginary parts."""
        return torch.cat([self.re, self.im], dim=-1)

    @staticmethod
    def of_row(row: Tensor) -> Z:
        """The complex vector that a real row of even width stores."""
        re, im = row.chunk(2, dim=-1)
        return Z(re, im)

    @staticmethod
    def joined(first: Z, second: Z) -> Z:
        """Two vectors one behind the other."""
        return Z(torch.cat([first.re, second.re], dim=-1), torch.cat([first.im, second.im], dim=-1))
