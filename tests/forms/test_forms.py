"""Every form, reading, layout and penalty against formulas written with Python's complex numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracle import scores as oracle
from tests.oracle.specs import NAMED, TIED_FIVE_STARS, Spec, every_spec, specs

from conjoin.errors import FormError
from conjoin.forms.base import MOST_COORDINATES, Form
from conjoin.forms.complex import ComplEx
from conjoin.forms.notation import parse
from conjoin.forms.pair import Pair
from conjoin.forms.planar import Z
from conjoin.forms.tied import TiedForm

RANK = 6
SPECS = every_spec()


def drawn(rows: int, width: int, seed: int) -> torch.Tensor:
    return torch.randn(rows, width, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def check(spec: Spec, rank: int, seed: int) -> None:
    """Slots, query and moduli of three random (h, r, t) equal the oracle's to 1e-10."""
    form = parse(spec.text())
    heads, tails, relations = (
        drawn(3, 2 * rank, seed),
        drawn(3, 2 * rank, seed + 1),
        drawn(3, spec.relation_width(rank), seed + 2),
    )
    slots = form.unfold(relations)
    q = form.query(heads, slots)
    squared = form.factors(("head", "relation", "tail"), heads, slots, tails, q).values()
    for i in range(3):
        h, r, t = heads[i].tolist(), relations[i].tolist(), tails[i].tolist()
        expected = oracle.unfold(spec, r)
        for slot, z in slots.items():
            assert list(torch.complex(z.re[i], z.im[i]).tolist()) == pytest.approx(expected[slot], abs=1e-10)
        assert oracle.tail(q[i].tolist()) == pytest.approx(
            oracle.query(spec, oracle.head(spec, h), expected), rel=1e-10, abs=1e-10
        )
        moduli = [abs(z) for z in oracle.head(spec, h)], oracle.modulus(spec, r), [abs(z) for z in oracle.tail(t)]
        for found, wanted in zip(squared, moduli, strict=True):
            assert found[i].sqrt().tolist() == pytest.approx(wanted, abs=1e-10)


@pytest.mark.parametrize("name", SPECS)
def test_named_forms_equal_the_oracle(name: str) -> None:
    check(SPECS[name], RANK, seed=7)


@settings(max_examples=60, deadline=None)
@given(specs(), st.sampled_from([2, 4]), st.integers(0, 10**6))
def test_any_tie_pattern_equals_the_oracle(spec: Spec, rank: int, seed: int) -> None:
    check(spec, rank, seed)


@pytest.mark.parametrize("name", NAMED)
def test_reals_per_relation(name: str) -> None:
    per_rank = {
        "complex": 2,
        "complex-conj": 1,
        "complex-twin": 1,
        "5star": 8,
        "5star-halfreg": 8,
        "pair": 4,
        "quate": 2,
    }
    assert parse(name).relation_width(500) == per_rank.get(name, 4) * 500


def test_share_of_relation_parameters() -> None:
    """Of 5★E at rank 500 on FB15K, FB15K-237 and WN18RR, in percent, reciprocals counted."""
    for entities, relations, percent in ((14951, 1345, 41.8), (14541, 237, 11.5), (40943, 11, 0.2)):
        owned = 2 * relations * parse("5star").relation_width(500)
        assert round(100 * owned / (owned + entities * 2 * 500), 1) == percent
        assert 2 * parse("5star-conj").relation_width(500) == parse("5star").relation_width(500)


@pytest.mark.parametrize("name", ["complex", "complex-conj", "pair", "quate"])
def test_forms_with_halves_raise_for_odd_ranks(name: str) -> None:
    with pytest.raises(FormError, match="got 5"):
        parse(name).check_rank(5)
    parse(name).check_rank(6)


@pytest.mark.parametrize("rank", ["4", 4.0, True, None])
def test_a_rank_must_be_an_integer(rank: Any) -> None:
    with pytest.raises(FormError, match=repr(rank)):
        parse("5star").check_rank(rank)
    parse("5star").check_rank(np.int64(4))  # type: ignore[arg-type]


def test_a_rank_is_at_least_one() -> None:
    parse("5star").check_rank(1)
    for rank in (0, -3):
        with pytest.raises(FormError, match=f"got {rank}"):
            parse("5star").check_rank(rank)
    with pytest.raises(FormError, match=str(MOST_COORDINATES)):
        parse("5star").check_rank(10**400)


def test_an_option_of_another_type_is_refused() -> None:
    with pytest.raises(FormError, match="true"):
        Pair(unit=True)  # type: ignore[arg-type]


def matrix(form: Form, seed: int) -> dict[str, torch.Tensor]:
    """The slots of a few random relations as complex tensors, through the mobius reading."""
    slots = form.unfold(drawn(5, form.relation_width(RANK), seed))
    return {slot: torch.complex(z.re, z.im) for slot, z in slots.items()}


def determinant(name: str, m: dict[str, torch.Tensor]) -> torch.Tensor:
    a, b, c = m["a"], m["b"], m["c"]
    return {
        "5star-conj": (a.abs() ** 2 - b.abs() ** 2) + 0j,
        "5star-neg": (a.abs() ** 2 + b.abs() ** 2) + 0j,
        "5star-vert": 2j * (a * b.conj()).imag,
        "5star-horiz": 2j * (a * c.conj()).imag,
        "5star-twin": a**2 - b**2,
    }[name]


@pytest.mark.parametrize("name", TIED_FIVE_STARS)
@pytest.mark.parametrize("quotient", ["phase", "mobius"])
def test_determinants_of_tied_forms(name: str, quotient: str) -> None:
    m = matrix(parse(f"{name}(quotient={quotient})"), seed=3)
    found = m["a"] * m["d"] - m["b"] * m["c"]
    torch.testing.assert_close(found, determinant(name, m), rtol=0, atol=1e-12)
    assert found.abs().min() > 1e-6


def test_what_tied_forms_preserve() -> None:
    angle = torch.linspace(0.1, 6, RANK, dtype=torch.float64)
    circle, line = torch.polar(torch.ones_like(angle), angle), torch.linspace(-2, 2, RANK, dtype=torch.float64) + 0j

    def image(name: str, x: torch.Tensor) -> torch.Tensor:
        m = matrix(parse(f"{name}(quotient=mobius)"), seed=4)
        return (m["a"] * x + m["b"]) / (m["c"] * x + m["d"])

    one = torch.ones(5, RANK, dtype=torch.float64)
    torch.testing.assert_close(image("5star-conj", circle).abs(), one, rtol=0, atol=1e-9)
    torch.testing.assert_close(image("5star-vert", line).abs(), one, rtol=0, atol=1e-9)
    assert image("5star-horiz", circle).imag.abs().max() < 1e-9
    torch.testing.assert_close(image("5star-twin", one + 0j), one + 0j, rtol=0, atol=1e-9)
    torch.testing.assert_close(image("5star-twin", -one + 0j), -one + 0j, rtol=0, atol=1e-9)
    x, y = circle * 0.3, circle.flip(0) * 2
    chord = (x - y).abs() / torch.sqrt((1 + x.abs() ** 2) * (1 + y.abs() ** 2))
    u, v = image("5star-neg", x), image("5star-neg", y)
    moved = (u - v).abs() / torch.sqrt((1 + u.abs() ** 2) * (1 + v.abs() ** 2))
    torch.testing.assert_close(moved, chord.expand(5, RANK), rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", ["5star", *TIED_FIVE_STARS])
def test_mobius_matrices_have_the_norm_of_the_identity(name: str) -> None:
    m = matrix(parse(f"{name}(quotient=mobius)"), seed=5)
    norm = torch.stack([z.abs() ** 2 for z in m.values()]).sum(0)
    torch.testing.assert_close(norm, torch.full_like(norm, 2.0), rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ["5star", "5star-conj", "5star-neg", "5star-twin"])
def test_mobius_starts_at_the_identity(name: str) -> None:
    form = parse(f"{name}(quotient=mobius)")
    slots = form.unfold(torch.zeros(1, form.relation_width(RANK), dtype=torch.float64))
    assert {slot: (z.re.tolist(), z.im.abs().tolist()) for slot, z in slots.items()} == {
        slot: ([[pytest.approx(float(slot in "ad"), abs=1e-15)] * RANK], [[0.0] * RANK]) for slot in "abcd"
    }


@given(st.integers(0, 10**6), st.floats(0.05, 20), st.floats(0, 6.3))
def test_mobius_does_not_see_the_scale_of_its_matrix(seed: int, size: float, angle: float) -> None:
    """Stored are deviations from the identity: (1 + a, b, c, 1 + d) times λ is again such a row."""
    heads, row = drawn(2, 2 * RANK, seed), drawn(2, 8 * RANK, seed + 1)
    identity = torch.zeros(4 * RANK, dtype=torch.complex128)
    identity[:RANK] = identity[-RANK:] = 1
    untied = parse("5star(quotient=mobius)")
    stored = torch.complex(row[:, : 4 * RANK], row[:, 4 * RANK :])
    scaled = (stored + identity) * torch.polar(torch.tensor(size), torch.tensor(angle)).to(torch.complex128) - identity
    again = torch.cat([scaled.real, scaled.imag], dim=1)
    expected = untied.query(heads, untied.unfold(row))
    torch.testing.assert_close(untied.query(heads, untied.unfold(again)), expected, rtol=1e-8, atol=1e-8)
    for tied in (parse(f"{name}(quotient=mobius)") for name in ("5star-conj", "5star-neg", "5star-twin")):
        short, start = drawn(2, 4 * RANK, seed + 2), torch.zeros(4 * RANK, dtype=torch.float64)
        start[:RANK] = 1
        grown = (short + start) * size - start
        torch.testing.assert_close(
            tied.query(heads, tied.unfold(grown)), tied.query(heads, tied.unfold(short)), rtol=1e-8, atol=1e-8
        )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("text", ["5star", "5star(quotient=aligned)", "5star(quotient=mobius)", "FiveStar(c=0, d=0)"])
def test_a_vanishing_denominator_leaves_finite_gradients(text: str, dtype: torch.dtype) -> None:
    form = parse(text)
    heads = torch.ones(1, 2 * RANK, dtype=dtype, requires_grad=True)
    rows = torch.zeros(1, form.relation_width(RANK), dtype=dtype, requires_grad=True)
    form.query(heads, form.unfold(rows)).sum().backward()  # type: ignore[no-untyped-call]
    for leaf in (heads, rows):
        assert leaf.grad is not None
        assert bool(torch.isfinite(leaf.grad).all())


@pytest.mark.parametrize("name", SPECS)
def test_heads_as_tails_is_true_where_heads_are_read_as_stored(name: str) -> None:
    form, rows = parse(SPECS[name].text()), drawn(2, 2 * RANK, 3)
    assert isinstance(form, TiedForm)
    assert form.heads_as_tails == torch.equal(form.head(rows).row(), rows)


def test_a_form_with_a_head_of_its_own_does_not_read_heads_as_tails() -> None:
    class Turned(ComplEx):
        def head(self, rows: torch.Tensor) -> Z:
            return Z.of_row(-rows)

    assert not Turned().heads_as_tails
