from __future__ import annotations

import cmath
import math
from collections import Counter

import pytest
import torch
from paper.tie_orbits import (
    SLOTS,
    TURNS,
    Turn,
    canonical,
    halvings,
    orbit,
    paired_ties,
    representatives,
    sees_small_entities,
    texts,
)
from tests.forms.form_strategies import drawn, row
from torch import Tensor

from conjoin.forms.five_star import FiveStar
from conjoin.forms.notation import FORMS

K, ENTITIES = 3, 4


def matrices(form: FiveStar, stored: dict[str, Tensor]) -> dict[str, Tensor]:
    """a, b, c, d as complex tensors."""
    slots = form.unfold(row(*(stored[slot] for slot in form.stored)))
    return {slot: torch.complex(slots[slot].re, slots[slot].im) for slot in SLOTS}


def scores(form: FiveStar, stored: dict[str, Tensor], entities: Tensor) -> Tensor:
    """Every entity as head with every entity as tail, one relation."""
    slots = form.unfold(row(*(stored[slot] for slot in form.stored)))
    return form.query(row(entities), slots) @ row(entities).T


def moduli(form: FiveStar, stored: dict[str, Tensor]) -> Tensor:
    return form.squared_modulus(form.unfold(row(*(stored[slot] for slot in form.stored))))


NUMBERS = {slot: drawn(1, K, seed=place) for place, slot in enumerate(SLOTS)}
PEOPLE = drawn(ENTITIES, K, seed=9)


def test_how_many_there_are() -> None:
    assert len(list(texts())) == len(set(texts())) == 6 * 4 * 16
    assert Counter(map(paired_ties, halvings())) == {True: 48, False: 64}
    assert Counter(map(paired_ties, representatives())) == {True: 17, False: 22}


def test_which_slot_owns_the_numbers_does_not_matter() -> None:
    for form in texts():
        wanted = matrices(form, NUMBERS)
        found = matrices(canonical(form), wanted)
        for slot in SLOTS:
            torch.testing.assert_close(found[slot], wanted[slot], rtol=0, atol=0)


def test_orbits_are_a_partition() -> None:
    members = [form for chosen in representatives() for form in orbit(chosen)]
    assert Counter(members) == Counter(halvings())
    assert all(orbit(form) == orbit(chosen) for chosen in representatives() for form in orbit(chosen))


@pytest.mark.parametrize("form", representatives(), ids=str)
def test_forms_of_one_orbit_have_the_same_scores(form: FiveStar) -> None:
    """Whatever one form scores with some entities and relation, the other scores with turned ones."""
    before = scores(form, NUMBERS, PEOPLE)
    reached = set()
    for turn in TURNS:
        other = turn.carry(form)
        if other is None:
            continue
        reached.add(other)
        turned = {slot: NUMBERS[slot] * cmath.exp(2j * math.pi * turn.eighths(slot) / 8) for slot in form.stored}
        entities = PEOPLE * cmath.exp(2j * math.pi * turn.entity / 8)
        torch.testing.assert_close(scores(other, turned, entities), before, rtol=0, atol=1e-12)
        torch.testing.assert_close(moduli(other, turned), moduli(form, NUMBERS), rtol=0, atol=1e-12)
    assert reached == orbit(form)


def test_another_orbit_does_not_have_them_under_any_turn() -> None:
    """5star-conj and 5star-neg differ by one sign that no turn can move."""
    conj, neg = FORMS["5star-conj"], FORMS["5star-neg"]
    assert isinstance(conj, FiveStar)
    assert neg not in orbit(conj)


def test_finer_turns_reach_no_further_sign() -> None:
    fine = 48
    for form in halvings():
        reached = set()
        for relation in range(fine):
            for entity in range(fine):
                signs = []
                for slot, tie in form.ties.items():
                    weight = {"a": -1, "b": 0, "c": 0, "d": 1}
                    way = 1 if tie.conjugated else -1
                    angle = relation * (1 + way) + entity * (weight[slot] + way * weight[str(tie.slot)])
                    signs.append(2 * angle / fine % 2)
                if all(sign in (0, 1) for sign in signs):
                    reached.add(tuple(signs))
        assert len(reached) == len(orbit(form))


def test_named_forms_stand_for_their_orbits() -> None:
    chosen = representatives()
    tied = [form for form in FORMS.values() if isinstance(form, FiveStar) and len(form.ties) == 2]
    assert len(tied) == 5
    assert all(form in chosen for form in tied)


def test_no_turn_is_the_identity() -> None:
    assert all(Turn(0, 0).carry(form) == form for form in halvings())


def query(form: FiveStar, stored: dict[str, Tensor], entities: Tensor) -> Tensor:
    q = form.query(row(entities), form.unfold(row(*(stored[slot] for slot in form.stored))))
    return torch.complex(*q.chunk(2, dim=-1))


def test_how_many_ties_see_small_entities() -> None:
    counts = Counter((paired_ties(form), sees_small_entities(form)) for form in representatives())
    assert counts == {(True, True): 7, (True, False): 10, (False, True): 6, (False, False): 16}
    assert all(sees_small_entities(form) == sees_small_entities(other) for form in halvings() for other in orbit(form))
    assert sees_small_entities(FiveStar())


@pytest.mark.parametrize("form", [form for form in halvings() if sees_small_entities(form)], ids=str)
def test_with_d_nothing_a_small_entity_speaks_by_its_direction(form: FiveStar) -> None:
    owner = form.ties["d"].slot if "d" in form.ties else "d"
    stored = {slot: NUMBERS[slot] * (slot != owner) for slot in form.stored}
    slots = matrices(form, stored)
    small = 1e-9 * PEOPLE
    turned = slots["b"].conj() * slots["c"] / slots["c"].abs() * PEOPLE / PEOPLE.abs()
    torch.testing.assert_close(query(form, stored, small), turned, rtol=0, atol=1e-7)


@pytest.mark.parametrize("form", [form for form in halvings() if not sees_small_entities(form)], ids=str)
def test_in_all_others_a_small_entity_says_little(form: FiveStar) -> None:
    """Slots of very different sizes too, and the bound is met for large entities as well."""
    for seed in range(20):
        sizes = 10 ** (4 * torch.rand(4, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) - 2)
        stored = {slot: drawn(1, K, seed=100 + 4 * seed + place) * sizes[place] for place, slot in enumerate(SLOTS)}
        largest = torch.stack([value.abs() for value in matrices(form, stored).values()]).amax(dim=0)
        entities = drawn(ENTITIES, K, seed=500 + seed) * sizes[0]
        moved = query(form, stored, entities) - query(form, stored, 0 * entities)
        assert bool((moved.abs() <= 3 * largest * entities.abs() * (1 + 1e-9)).all())
