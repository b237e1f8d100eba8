"""Arithmetic on two planes against Python's complex numbers."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from conjoin.forms.planar import Z

NUMBER = st.complex_numbers(max_magnitude=100, allow_nan=False, allow_infinity=False)
VECTOR = st.lists(NUMBER, min_size=4, max_size=4)


def planes(numbers: list[complex]) -> Z:
    parts = torch.tensor([[z.real, z.imag] for z in numbers], dtype=torch.float64)
    return Z(parts[:, 0], parts[:, 1])


def numbers(z: Z) -> list[complex]:
    return [complex(x, y) for x, y in zip(z.re.tolist(), z.im.tolist(), strict=True)]


@given(VECTOR, VECTOR)
def test_ring(x: list[complex], y: list[complex]) -> None:
    together = list(zip(x, y, strict=True))
    assert numbers(planes(x) + planes(y)) == pytest.approx([a + b for a, b in together], rel=1e-12, abs=1e-9)
    assert numbers(planes(x) * planes(y)) == pytest.approx([a * b for a, b in together], rel=1e-12, abs=1e-9)
    assert numbers(-planes(x)) == [-a for a in x]
    assert numbers(planes(x).conj()) == [a.conjugate() for a in x]


@given(VECTOR)
def test_moduli_and_scaling(x: list[complex]) -> None:
    z = planes(x)
    assert z.squared().tolist() == pytest.approx([abs(a) ** 2 for a in x], rel=1e-12)
    assert z.modulus().tolist() == pytest.approx([abs(a) for a in x], rel=1e-12, abs=1e-14)
    factor = torch.tensor([2.0, -1.0, 0.0, 0.5], dtype=torch.float64)
    assert numbers(z.scaled(factor)) == pytest.approx([a * f for a, f in zip(x, factor.tolist(), strict=True)])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_modulus_has_derivative_zero_at_zero(dtype: torch.dtype) -> None:
    re = torch.zeros(3, dtype=dtype, requires_grad=True)
    im = torch.zeros(3, dtype=dtype, requires_grad=True)
    Z(re, im).modulus().sum().backward()  # type: ignore[no-untyped-call]
    assert re.grad is not None
    assert im.grad is not None
    assert re.grad.tolist() == im.grad.tolist() == [0.0, 0.0, 0.0]


@given(VECTOR)
def test_a_row_holds_real_parts_then_imaginary_parts(x: list[complex]) -> None:
    row = planes(x).row()
    assert row.tolist() == [z.real for z in x] + [z.imag for z in x]
    assert numbers(Z.of_row(row)) == x


@given(VECTOR)
def test_halves_and_joined_are_inverse(x: list[complex]) -> None:
    first, second = planes(x).halves()
    assert numbers(first) == x[:2]
    assert numbers(second) == x[2:]
    assert numbers(Z.joined(first, second)) == x
