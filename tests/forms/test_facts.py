"""What the mathematics says about forms, with parameters written down by hand."""

from __future__ import annotations

import math

import pytest
import torch
from tests.forms.form_strategies import drawn, query, row
from tests.oracle import quaternions
from tests.oracle.specs import TIED_FIVE_STARS
from torch import Tensor

from conjoin.forms.notation import parse
from conjoin.forms.tied import TiedForm

K = 8
BATCH = 5


def equal(found: Tensor, wanted: Tensor) -> None:
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-12)


def tied(text: str) -> TiedForm:
    form = parse(text)
    assert isinstance(form, TiedForm)
    return form


def modulus(text: str, *slots: Tensor) -> Tensor:
    form = tied(text)
    return form.squared_modulus(form.unfold(row(*slots))).sqrt()


def mirrored(h: Tensor) -> Tensor:
    """J: the second half conjugated."""
    first, second = h.chunk(2, dim=-1)
    return torch.cat([first, second.conj().resolve_conj()], dim=-1)


h, t = drawn(BATCH, K, seed=1), drawn(BATCH, K, seed=2)
a, b, c, d = (drawn(BATCH, K, seed=seed) for seed in (3, 4, 5, 6))
half_a, half_b = a[:, : K // 2], b[:, : K // 2]


def score(q: Tensor, tail: Tensor) -> Tensor:
    return (q * tail.conj()).real.sum(-1)


def test_conjugation_is_tying_up_to_j() -> None:
    conj = score(query("complex-conj", h, half_a), t)
    twin = score(query("complex-twin", mirrored(h), half_a), mirrored(t))
    equal(conj, twin)
    equal(modulus("complex-conj", half_a), modulus("complex-twin", half_a))
    assert (conj - score(query("complex-twin", h, half_a), t)).abs().min() > 1e-3


def test_complex_of_half_the_rank_is_within_complex_conj() -> None:
    small_h, small_t = h[:, : K // 2], t[:, : K // 2]
    small = query("complex", small_h, half_a[:, : K // 4], half_a[:, K // 4 :])
    nothing = torch.zeros_like(small_h)
    large = query("complex-conj", torch.cat([small_h, nothing], -1), half_a)
    equal(score(large, torch.cat([small_t, nothing], -1)), score(small, small_t))


def test_complex_conj_is_within_complex() -> None:
    equal(query("complex", h, half_a, half_a.conj().resolve_conj()), query("complex-conj", h, half_a))


def test_complex_and_complex_conj_are_pairs() -> None:
    equal(query("Pair(b=0, c=0)", h, half_a, half_b), query("complex", h, half_a, half_b))
    equal(query("Pair(b=0, c=0, d=conj(a))", h, half_a), query("complex-conj", h, half_a))


def test_quate_is_the_hamilton_product_with_a_unit_quaternion() -> None:
    q = query("quate", h, half_a, half_b)
    n = K // 2
    for i in range(BATCH):
        total = 0.0
        for j in range(n):
            head = quaternions.of_pair(h[i, j].item(), h[i, n + j].item())
            u, v = half_a[i, j].item(), -half_b[i, j].item().conjugate()
            product = quaternions.product(head, quaternions.unit(quaternions.of_pair(u, v)))
            assert quaternions.of_pair(q[i, j].item(), q[i, n + j].item()) == pytest.approx(product, abs=1e-12)
            total += quaternions.inner(product, quaternions.of_pair(t[i, j].item(), t[i, n + j].item()))
        assert score(q, t)[i].item() == pytest.approx(total, abs=1e-12)


def test_the_hamilton_product_of_the_oracle() -> None:
    units: list[quaternions.Quaternion] = [(0, 1, 0, 0), (0, 0, 1, 0), (0, 0, 0, 1)]
    i, j, k = units
    assert [quaternions.product(unit, unit) for unit in units] == [(-1, 0, 0, 0)] * 3
    assert quaternions.product(quaternions.product(i, j), k) == (-1, 0, 0, 0)
    assert quaternions.product(j, i) == (0, 0, 0, -1)


@pytest.mark.parametrize("quotient", ["phase", "aligned"])
def test_the_query_is_as_long_as_the_numerator(quotient: str) -> None:
    q = query(f"5star(quotient={quotient})", h, a, b, c, d)
    equal(q.abs(), (a * h + b).abs())
    q = query(f"5star-conj(quotient={quotient})", h, a, b)
    equal(q.abs(), (a * h + b).abs())


def test_phase_scores_with_the_transformed_head_times_the_tail() -> None:
    """score(t) = |down| Re(theta(h) t) per coordinate; aligned has conj(t), mobius no modulus."""
    top, down = a * h + b, c * h + d
    theta = top / down
    phase, aligned, mobius = (
        (query(f"5star(quotient={quotient})", h, a - shift, b, c, d - shift) * t.conj()).real
        for quotient, shift in (("phase", 0), ("aligned", 0), ("mobius", 1))
    )
    equal(phase, (theta * t).real * down.abs())
    equal(aligned, (theta * t.conj()).real * down.abs())
    size = sum(z.abs() ** 2 for z in (a, b, c, d)) / 2
    damped = down.abs() ** 2 / (down.abs() ** 2 + 1e-3 * size)
    equal(mobius, (theta * t.conj()).real * damped)


def test_vert_without_b_loses_the_phase_of_the_entity() -> None:
    q = query("5star-vert", h, a, torch.zeros_like(b))
    equal(q, torch.polar(a.abs() * h.abs(), -2 * a.angle()))
    turned = query("5star-vert", h * torch.polar(torch.ones(()).double(), torch.tensor(1.2).double()), a, 0 * b)
    equal(turned, q)


def test_aligned_with_a_diagonal_matrix_is_complex() -> None:
    nothing, one = torch.zeros_like(a), torch.ones_like(a)
    q = query("5star(quotient=aligned)", h, a, nothing, nothing, one)
    equal(q, query("complex", h, *a.chunk(2, dim=-1)))


@pytest.mark.parametrize("name", TIED_FIVE_STARS)
@pytest.mark.parametrize("quotient", ["phase", "aligned"])
def test_a_shared_slot_counts_as_often_as_it_is_used(name: str, quotient: str) -> None:
    found = modulus(f"{name}(quotient={quotient})", a, b)
    equal(found, torch.sqrt(2 * (a.abs() ** 2 + b.abs() ** 2)))


def test_moduli_of_untied_relations() -> None:
    squares = sum(z.abs() ** 2 for z in (a, b, c, d))
    equal(modulus("5star", a, b, c, d), torch.sqrt(squares + torch.zeros(K)))
    real = sum(z.real**2 for z in (a, b, c, d))
    equal(modulus("5star-halfreg", a, b, c, d), 2 * torch.sqrt(real + torch.zeros(K)))
    equal(modulus("complex", half_a, half_b), torch.cat([half_a, half_b], -1).abs())
    rest = c[:, : K // 2], d[:, : K // 2]
    halves = [torch.sqrt(x.abs() ** 2 + y.abs() ** 2) for x, y in ((half_a, half_b), rest)]
    equal(modulus("pair", half_a, half_b, *rest), torch.cat(halves, -1))
    equal(modulus("quate", half_a, half_b), torch.ones(BATCH, K, dtype=torch.float64))


def test_mobius_regularises_what_leaves_the_diagonal() -> None:
    """After normalising; the shift by one makes (a, b, c, d) the matrix before it."""
    norm = torch.sqrt(sum((z.abs() ** 2 for z in (a, b, c, d)), torch.zeros(K)) / 2)
    found = modulus("5star(quotient=mobius)", a - 1, b, c, d - 1)
    equal(found, torch.sqrt(b.abs() ** 2 + c.abs() ** 2) / norm)
    found = modulus("5star-conj(quotient=mobius)", a - 1, b)
    equal(found, b.abs() / torch.sqrt(a.abs() ** 2 + b.abs() ** 2))


def test_the_published_layout_reads_one_row_as_two_vectors() -> None:
    """Rank 4: the row 0…7 is (0+2i, 1+3i | 4+6i, 5+7i) at the head and (0+4i, 1+5i, 2+6i, 3+7i) at the tail."""
    form = parse("complex-conj(layout=published)")
    entity = torch.arange(8.0, dtype=torch.float64)[None]
    slots = form.unfold(torch.tensor([[2.0, 3.0, 1.0, -1.0]], dtype=torch.float64))
    q = form.query(entity, slots)[0].tolist()
    a1 = [2 + 1j, 3 - 1j]
    head = [0 + 2j, 1 + 3j, 4 + 6j, 5 + 7j]
    expected = [x * y for x, y in zip(a1 + [z.conjugate() for z in a1], head, strict=True)]
    assert q == [z.real for z in expected] + [z.imag for z in expected]
    names = "head", "relation", "tail"
    at_head, relation, at_tail = form.factors(names, entity, slots, entity, form.query(entity, slots)).values()
    assert at_head[0].tolist() == pytest.approx([abs(z) ** 2 for z in head])
    assert at_tail[0].tolist() == pytest.approx([abs(complex(j, j + 4)) ** 2 for j in range(4)])
    assert relation[0].tolist() == pytest.approx([5, 10, 5, 10])


@pytest.mark.parametrize(("text", "rank"), [("complex-conj", 4), ("5star-neg", 3), ("quate", 4)])
def test_numbers_a_person_can_compute(text: str, rank: int) -> None:
    ones = torch.ones(1, rank, dtype=torch.complex128)
    form = tied(text)
    stored = [z * torch.ones(1, form.slot_width(rank)) for z in (1j, 1.0)][: len(form.stored)]
    q = query(text, ones, *(z.to(torch.complex128) for z in stored))[0].tolist()
    expected = {
        "complex-conj": [1j, 1j, -1j, -1j],
        "5star-neg": [(1 - 1j) * (-1 - 1j) / math.sqrt(2)] * 3,
        "quate": [(1j + 1) / math.sqrt(2)] * 2 + [(-1 - 1j) / math.sqrt(2)] * 2,
    }[text]
    assert q == pytest.approx(expected, abs=1e-12)
