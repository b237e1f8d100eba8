"""The exact statements behind studies/patterns-predictions.toml: what each form can and cannot hold."""

from __future__ import annotations

import math

import pytest
import torch
from tests.forms.form_strategies import drawn, query
from tests.oracle import quaternions
from torch import Tensor

K, N = 4, 6


def scores(text: str, entities: Tensor, *slots: Tensor) -> Tensor:
    """Every entity as head with every entity as tail."""
    return (query(text, entities, *slots)[:, None, :] * entities.conj()[None, :, :]).real.sum(-1)


def equal(found: Tensor, wanted: Tensor) -> None:
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-12)


def conj(z: Tensor) -> Tensor:
    return z.conj().resolve_conj()


h = drawn(N, K, seed=1)
on_circle = h / h.abs()
a, b, c, d = (drawn(1, K, seed=seed) for seed in (2, 3, 4, 5))
nothing = torch.zeros_like(a)
half = a[:, : K // 2]


@pytest.mark.parametrize("form", ["complex", "complex-conj"])
def test_real_is_symmetric_imaginary_antisymmetric_conjugate_inverse(form: str) -> None:
    def stored(z: Tensor) -> list[Tensor]:
        return [z, conj(z)] if form == "complex" else [z]

    real, imaginary = half.real + 0j, 1j * half.imag
    equal(scores(form, h, *stored(real)), scores(form, h, *stored(real)).T)
    equal(scores(form, h, *stored(imaginary)), -scores(form, h, *stored(imaginary)).T)
    equal(scores(form, h, *stored(conj(half))), scores(form, h, *stored(half)).T)


@pytest.mark.parametrize("form", ["complex", "complex-conj"])
def test_multiplications_compose_and_commute(form: str) -> None:
    def stored(z: Tensor) -> list[Tensor]:
        return [z, conj(z)] if form == "complex" else [z]

    r, s = half, c[:, : K // 2]
    there = query(form, query(form, h, *stored(r)), *stored(s))
    equal(there, query(form, query(form, h, *stored(s)), *stored(r)))
    equal(there, query(form, h, *stored(r * s)))


@pytest.mark.parametrize("form", ["pair", "quate"])
def test_blocks_do_not_commute(form: str) -> None:
    n = 4 if form == "pair" else 2
    r, s = ([drawn(1, K // 2, seed=10 * i + j) for j in range(n)] for i in (1, 2))
    there, back = query(form, query(form, h, *r), *s), query(form, query(form, h, *s), *r)
    assert (there - back).abs().max() > 0.1


def test_pairs_hold_the_dihedral_group() -> None:
    """A rotation by a sixth and a reflection, s r = r⁻¹ s."""
    angle = 2 * math.pi / 6
    cos, sin = (torch.full((1, K // 2), f(angle), dtype=torch.complex128) for f in (math.cos, math.sin))
    one = torch.ones_like(cos)
    turn, unturn, flip = (cos, -sin, sin, cos), (cos, sin, -sin, cos), (one, 0 * one, 0 * one, -one)
    equal(query("pair", query("pair", h, *flip), *flip), h)
    equal(query("pair", query("pair", h, *flip), *turn), query("pair", query("pair", h, *unturn), *flip))


def test_only_plus_and_minus_one_are_their_own_inverses_among_unit_quaternions() -> None:
    """u² = 1 with |u| = 1: the vector part of u² is 2 u₀ v, so u₀ = 0 or v = 0; u₀ = 0 gives u² = −1."""
    generator = torch.Generator().manual_seed(0)
    for _ in range(50):
        _, *vector = torch.randn(4, dtype=torch.float64, generator=generator).tolist()
        pure = quaternions.unit((0.0, *vector))
        assert quaternions.product(pure, pure) == pytest.approx((-1, 0, 0, 0), abs=1e-12)
        u = quaternions.unit((0.3, *vector))
        assert quaternions.product(u, u) != pytest.approx((1, 0, 0, 0), abs=1e-3)


@pytest.mark.parametrize(
    ("form", "slots"), [("5star", (a, nothing, nothing, d)), ("5star-conj", (a, nothing)), ("5star-neg", (a, nothing))]
)
def test_without_b_a_five_star_is_symmetric_and_reflects(form: str, slots: tuple[Tensor, ...]) -> None:
    equal(scores(form, h, *slots), scores(form, h, *slots).T)
    last = slots[-1] if form == "5star" else conj(a)
    equal(query(form, h, *slots), conj(a) * last / last.abs() * conj(h))


@pytest.mark.parametrize(
    ("form", "slots", "m"),
    [
        ("5star", (nothing, b, c, nothing), conj(b) * c / c.abs()),
        ("5star-conj", (nothing, b), conj(b) ** 2 / b.abs()),
        ("5star-neg", (nothing, b), -(conj(b) ** 2) / b.abs()),
    ],
)
def test_without_a_a_five_star_rotates_entities_of_modulus_one(form: str, slots: tuple[Tensor, ...], m: Tensor) -> None:
    equal(query(form, on_circle, *slots), m * on_circle)
    equal(query(form, on_circle, *slots), query("complex", on_circle, *m.chunk(2, dim=-1)))


def test_reflections_and_rotations_of_5star_conj_do_not_commute() -> None:
    reflect, rotate = (a / a.abs(), nothing), (nothing, b / b.abs())
    there = query("5star-conj", query("5star-conj", on_circle, *reflect), *rotate)
    back = query("5star-conj", query("5star-conj", on_circle, *rotate), *reflect)
    assert (there - back).abs().max() > 0.1
    twice = query("5star-conj", query("5star-conj", on_circle, *reflect), *reflect)
    equal(twice, on_circle)


def test_vert_answers_h_and_its_conjugate_in_the_same_direction() -> None:
    one, other = query("5star-vert", h, a, b), query("5star-vert", conj(h), a, b)
    equal(one / one.abs(), other / other.abs())
    assert (one - other).abs().max() > 0.01, "the length still differs"
    free = query("5star", h, a, b, c, d), query("5star", conj(h), a, b, c, d)
    assert (free[0] / free[0].abs() - free[1] / free[1].abs()).abs().max() > 0.1


def test_the_imaginary_part_of_horiz_knows_only_the_modulus() -> None:
    q = query("5star-horiz", h, a, c)
    down = c * h + conj(c)
    equal(q.imag, (conj(a) * c).imag * (h.abs() ** 2 - 1) / down.abs())
    equal(query("5star-horiz", on_circle, a, c).imag, torch.zeros(N, K, dtype=torch.float64))


def test_twin_mirrors_on_the_circle() -> None:
    one, other = query("5star-twin", on_circle, a, b), query("5star-twin", conj(on_circle), a, b)
    equal(conj(one / one.abs()), other / other.abs())
    equal(query("5star-twin", on_circle, nothing, b), b.abs() * on_circle)
    equal(query("5star-twin", h, a, nothing), a.abs() * conj(h))
