"""Möbius maps: the facts of each tied form, classes, fixed points, iterates, flows, degenerate cases."""

from __future__ import annotations

import cmath
import math
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.forms.form_strategies import values_of

from conjoin.errors import UsageError
from conjoin.forms.notation import parse
from conjoin.geometry.mobius import Complexes, Mobius, chordal, from_sphere, points_of, to_sphere

numbers = st.builds(
    complex,
    st.floats(-3, 3).map(lambda x: round(x, 3)),
    st.floats(-3, 3).map(lambda x: round(x, 3)),
)
Four = tuple[complex, complex, complex, complex]
fours = st.tuples(numbers, numbers, numbers, numbers)
CLOUD = points_of(np.array([0, 1, -1, 1j, 0.3 - 0.2j, 4 + 2j, -0.7 + 3j, np.inf]))
CIRCLE = points_of(np.exp(1j * np.linspace(0, 6, 11)))
LINE = points_of(np.array([-5.0, -1, -0.2, 0, 0.7, 1, 9, np.inf]))


def tied(name: str, *stored: complex) -> Mobius:
    """The map of a relation of one coordinate, by the form's own ties."""
    row = torch.tensor([[*(z.real for z in stored), *(z.imag for z in stored)]], dtype=torch.float64)
    slots = parse(name).unfold(row)
    return Mobius.of(*(complex(slots[slot].re.item(), slots[slot].im.item()) for slot in "abcd"))


neg, conj, vert, horiz, twin = (partial(tied, f"5star-{name}") for name in ("neg", "conj", "vert", "horiz", "twin"))


def same(f: Mobius, g: Mobius, *, within: float = 1e-6) -> bool:
    return bool(chordal(f(CLOUD), g(CLOUD)).max() < within)


def general(a: complex, b: complex, c: complex, d: complex) -> Mobius:
    assume(abs(a * d - b * c) > 0.05)
    return Mobius.of(a, b, c, d)


@given(numbers)
def test_the_sphere_and_back(z: complex) -> None:
    place = to_sphere(points_of(z))
    assert np.linalg.norm(place) == pytest.approx(1)
    printed = np.array([2 * z.real, 2 * z.imag, abs(z) ** 2 - 1]) / (abs(z) ** 2 + 1)
    assert place == pytest.approx(printed)
    assert values_of(from_sphere(place)) == pytest.approx(z, abs=1e-9)


def test_infinity_is_a_point_like_any_other() -> None:
    far = points_of(np.inf)
    assert to_sphere(far).tolist() == [0, 0, 1]
    assert values_of(far) == complex(np.inf)
    assert chordal(far, points_of(0)) == pytest.approx(2)
    assert values_of(Mobius.of(0, 1, 1, 0)(far)) == 0
    assert values_of(Mobius.of(2, 1, 4, 3)(far)) == pytest.approx(0.5)
    assert np.isinf(values_of(Mobius.of(2, 1, 4, 3)(points_of(-0.75))))


@given(numbers, numbers, numbers, numbers, numbers)
def test_it_is_the_printed_quotient(a: complex, b: complex, c: complex, d: complex, x: complex) -> None:
    map_ = general(a, b, c, d)
    assume(abs(c * x + d) > 1e-3)
    assert values_of(map_(points_of(x))) == pytest.approx((a * x + b) / (c * x + d), rel=1e-9, abs=1e-9)


@given(numbers, numbers)
def test_neg_is_a_rotation_of_the_sphere(a: complex, b: complex) -> None:
    assume(abs(a) + abs(b) > 0.01)
    map_ = neg(a, b)
    moved = map_(CLOUD)
    assert np.allclose(chordal(moved[:-1], moved[1:]), chordal(CLOUD[:-1], CLOUD[1:]), atol=1e-9)
    assert map_.turns_rigidly
    assert map_.kind in ("elliptic", "identity")
    assume(math.hypot(a.imag, abs(b)) > 0.01)
    first, second = to_sphere(map_.fixed)
    assert np.allclose(first, -second, atol=1e-6)
    axis = np.array([b.imag, -b.real, a.imag]) / math.hypot(a.imag, abs(b))
    assert abs(abs(axis @ first) - 1) < 1e-6
    turn = 2 * math.acos(max(-1, min(1, a.real / math.hypot(abs(a), abs(b)))))
    assert abs(cmath.phase(map_.multiplier)) == pytest.approx(min(turn, 2 * math.pi - turn), abs=1e-5)
    assert abs(map_.multiplier) == pytest.approx(1)


@given(numbers, numbers)
def test_conj_keeps_the_unit_circle(a: complex, b: complex) -> None:
    assume(abs(abs(a) - abs(b)) > 0.05)
    map_ = conj(a, b)
    assert np.allclose(np.abs(values_of(map_(CIRCLE))), 1, atol=1e-6)
    assert map_.disc == ("kept" if abs(a) > abs(b) else "swapped")
    inside = abs(values_of(map_(points_of(0)))) < 1
    assert inside == (map_.disc == "kept")


@given(numbers, numbers)
def test_the_class_of_conj_by_the_imaginary_part(a: complex, b: complex) -> None:
    assume(abs(a) > abs(b) + 0.05 and abs(b) > 0.05 and abs(abs(a.imag) - abs(b)) > 0.02)
    map_ = conj(a, b)
    assert map_.kind == ("elliptic" if abs(a.imag) > abs(b) else "hyperbolic")
    root = cmath.sqrt(abs(b) ** 2 - a.imag**2)
    expected = points_of(np.array([(1j * a.imag + s * root) / b.conjugate() for s in (1, -1)]))
    assert all(chordal(expected, still).min() < 1e-5 for still in map_.fixed)


def test_conj_on_the_border_is_parabolic_and_with_equal_moduli_constant() -> None:
    pushed = conj(2 + 1j, 1j)
    assert pushed.kind == "parabolic"
    assert len(pushed.fixed) == 1
    assert chordal(pushed(pushed.fixed), pushed.fixed).max() < 1e-6
    flat = conj(1 + 2j, 2 - 1j)
    assert flat.kind == "constant"
    assert np.allclose(values_of(flat(CLOUD)), (1 + 2j) / (2 + 1j))


@given(numbers, numbers)
def test_vert_maps_the_line_to_the_circle_and_horiz_back(a: complex, b: complex) -> None:
    assume(abs((a * b.conjugate()).imag) > 0.05)
    there, back = vert(a, b), horiz(a, b)
    assert np.allclose(np.abs(values_of(there(LINE))), 1, atol=1e-6)
    assert there.determinant.real == pytest.approx(0, abs=1e-9)
    assert np.abs(to_sphere(back(CIRCLE))[:, 1]).max() < 1e-6
    assert np.abs(to_sphere(there.inverse()(CIRCLE))[:, 1]).max() < 1e-6


@given(numbers, numbers)
def test_twin_fixes_plus_and_minus_one(a: complex, b: complex) -> None:
    assume(abs(a * a - b * b) > 0.05)
    both = points_of(np.array([1, -1]))
    assert chordal(twin(a, b)(both), both).max() < 1e-6


@given(fours)
def test_conj_and_neg_are_groups_and_twins_commute(slots: Four) -> None:
    """Products and inverses of conj are conj, of neg are neg, so neither leaves its kind by composing relations."""
    a, b, c, d = slots
    assume(min(abs(a) + abs(b), abs(c) + abs(d)) > 0.05)
    for kind in (conj, neg):
        first, second = kind(a, b), kind(c, d)
        if min(abs(first.determinant), abs(second.determinant)) > 0.02:
            (p, q), _ = (first @ second).matrix
            assert same(first @ second, kind(p, q))
            assert same(first.inverse(), kind(a.conjugate(), -b))
    one, other = twin(a, b), twin(c, d)
    if min(abs(one.determinant), abs(other.determinant)) > 0.02:
        assert same(one @ other, other @ one)


@given(numbers)
def test_conj_and_neg_stretch_and_shift_nothing(a: complex) -> None:
    """A stretching about 0 or a translation has c = 0; then b = 0, and what is left only turns."""
    assume(abs(a) > 0.05)
    for kind in (conj, neg):
        turn = kind(a, 0)
        assert turn.kind in ("identity", "elliptic")
        assert turn.turns_rigidly
        assert abs(turn.multiplier) == pytest.approx(1)


@given(numbers, numbers)
def test_horiz_undoes_vert_and_vert_is_no_group(a: complex, b: complex) -> None:
    """A vert has |a| = |c|, up to any factor; the square of one has not."""
    assume(abs((a * b.conjugate()).imag) > 0.05)
    assert same(vert(a, b).inverse(), horiz(1j * b.conjugate(), -1j * a.conjugate()))
    assert vert(a, b).kind != "identity"
    one = vert(1 + 1j, 2)
    (p, _), (r, _) = (one @ one).matrix
    assert abs(abs(p) - abs(r)) > 0.1


@pytest.mark.parametrize("real", [-2.0, 0.0, 0.5])
def test_when_tied_maps_are_constant(real: float) -> None:
    z = 0.8 - 0.6j
    for constant in (vert(real * z, z), horiz(real * z, z), twin(z, z), twin(z, -z), conj(z, 1j * z)):
        assert constant.degenerate
    assert not neg(real * z, z).degenerate


@given(fours, st.integers(-6, 6), st.integers(-6, 6))
def test_iterates_compose(slots: Four, m: int, n: int) -> None:
    map_ = general(*slots)
    assume(abs(map_.multiplier) < 20)
    places: Complexes = CLOUD
    for _ in range(abs(n)):
        places = (map_ if n > 0 else map_.inverse())(places)
    assert chordal(map_.power(n)(CLOUD), places).max() < 1e-4
    if abs(map_.multiplier) < 3:
        assert same(map_.power(m) @ map_.power(n), map_.power(m + n), within=1e-4)


@given(fours, st.floats(-2, 2), st.floats(-2, 2))
def test_the_flow_is_a_group_through_the_map(slots: Four, s: float, t: float) -> None:
    map_ = general(*slots)
    assume(abs(map_.multiplier) < 20)
    assert same(map_.flow(0), Mobius.of(1, 0, 0, 1))
    assert same(map_.flow(1), map_)
    assert same(map_.flow(-2), map_.power(-2), within=1e-5)
    assert same(map_.flow(s) @ map_.flow(t), map_.flow(s + t), within=1e-4)
    assert abs(np.trace(map_.generator)) < 1e-9


@given(numbers, numbers, numbers, numbers)
def test_fixed_points_stay_and_the_first_attracts(a: complex, b: complex, c: complex, d: complex) -> None:
    map_ = general(a, b, c, d)
    assume(map_.kind not in ("identity", "parabolic"))
    assume(abs(map_.multiplier - 1) > 1e-2)
    assert chordal(map_(map_.fixed), map_.fixed).max() < 1e-5
    low, high = sorted(np.abs(np.linalg.eigvals(map_.matrix)))
    assert abs(map_.multiplier) == pytest.approx(high / low, rel=1e-6)
    if abs(map_.multiplier) > 1.5 and chordal(*map_.fixed) > 0.1:
        assert chordal(map_.power(60)(points_of(0.123 + 0.456j)), map_.fixed[0]) < 1e-3


@pytest.mark.parametrize(
    ("slots", "kind", "stretch"),
    [
        ((1, 0, 0, 1), "identity", 1),
        ((-2j, 0, 0, -2j), "identity", 1),
        ((1, 5, 0, 1), "parabolic", 1),
        ((1j, 0, 0, 1), "elliptic", 1),
        ((-1, 0, 0, 1), "elliptic", 1),
        ((0, 1, 1, 0), "elliptic", 1),
        ((3, 0, 0, 1), "hyperbolic", 3),
        ((0.25, 0, 0, 1), "hyperbolic", 4),
        ((-3, 0, 0, 1), "loxodromic", 3),
        ((2j, 0, 0, 1), "loxodromic", 2),
        ((1, 2, 2, 4), "constant", None),
        ((0, 1, 0, 0), "constant", None),
    ],
)
def test_classes_that_can_be_seen_by_eye(slots: tuple[complex, ...], kind: str, stretch: float | None) -> None:
    map_ = Mobius.of(*slots)
    assert map_.kind == kind
    if stretch is not None:
        assert abs(map_.multiplier) == pytest.approx(stretch)


def test_constant_maps_have_a_value_and_no_inverse() -> None:
    flat = Mobius.of(1, 2, 2, 4)
    assert np.allclose(values_of(flat(CLOUD)), 0.5)
    assert values_of(flat.fixed).tolist() == pytest.approx([0.5])
    assert same(flat.power(3), flat)
    assert flat.disc is None
    assert not flat.turns_rigidly
    for undefined in (flat.inverse, lambda: flat.flow(0.5), lambda: flat.power(-1)):
        with pytest.raises(UsageError, match="constant"):
            undefined()
    nowhere = Mobius.of(0, 1, 0, 0)
    assert np.isinf(values_of(nowhere(CLOUD))).all()
    assert len(nowhere.fixed) == 0
    assert len(Mobius.of(1, 0, 0, 1).fixed) == 0


def test_scale_does_not_matter_and_invalid_numbers_are_refused() -> None:
    for factor in (1e-200, 1e200, 1j):
        assert same(Mobius.of(*(factor * np.array([1, 2, 3, 4j]))), Mobius.of(1, 2, 3, 4j))
    for slots in ((0, 0, 0, 0), (1, 0, 0, np.nan), (np.inf, 0, 0, 1)):
        with pytest.raises(UsageError, match="finite"):
            Mobius.of(*slots)


def test_close_to_the_identity_the_flow_keeps_its_digits() -> None:
    small = Mobius.of(1, 1e-7, 0, 1)
    assert values_of(small.flow(0.5)(points_of(0))) == pytest.approx(5e-8, rel=1e-6)
    turned = neg(1 + 1e-6j, 0)
    assert np.angle(values_of(turned.flow(0.5)(points_of(1)))) == pytest.approx(1e-6, rel=1e-6)
