"""What follows from what, worked out by hand."""

from __future__ import annotations

from itertools import product

import pytest

from conjoin.graph.patterns.rules import GroupRules, HornRules, Rule, back


def rule(pattern: str, *relations: str) -> Rule:
    return Rule(pattern, relations)


def test_reading_backwards_twice_is_reading_forwards() -> None:
    assert back(back("r")) == "r"
    assert back("r") != "r"


def test_two_inverses_of_one_relation_are_copies() -> None:
    theory = HornRules((rule("inverse", "r", "s"), rule("inverse", "r", "u")))
    assert theory.follows(rule("copy", "s", "u"))
    assert not theory.follows(rule("inverse", "s", "u"))


def test_inverse_can_replace_a_part_of_a_composition() -> None:
    theory = HornRules((rule("composition", "r", "s", "u"), rule("inverse", "s", "v")))
    closure = theory.closure(("r", "s", "u", "v"))
    assert rule("composition", "r", back("v"), "u") in closure
    assert rule("composition", "r", "v", "u") not in closure
    assert rule("composition", "s", "r", "u") not in closure


def test_symmetric_part_can_be_read_in_both_directions() -> None:
    theory = HornRules((rule("symmetric", "r"), rule("composition", "r", "s", "u")))
    assert theory.follows(rule("composition", back("r"), "s", "u"))
    assert not theory.follows(rule("symmetric", "u"))


def test_inverse_of_a_hierarchy_is_a_hierarchy_and_both_are_antisymmetric() -> None:
    theory = HornRules((rule("hierarchy", "r"), rule("inverse", "r", "s")))
    closure = theory.closure(("r", "s"))
    assert {rule("hierarchy", "s"), rule("antisymmetric", "r"), rule("antisymmetric", "s")} <= closure
    assert not any(each.pattern in ("symmetric", "composition") for each in closure)


@pytest.mark.parametrize("dihedral", [True, False])
def test_group_rules_satisfy_the_group_axioms(dihedral: bool) -> None:
    group = GroupRules.of(3, dihedral=dihedral)
    elements = range(6)
    assert all(
        group.times(group.times(x, y), z) == group.times(x, group.times(y, z))
        for x, y, z in product(elements, repeat=3)
    )
    assert all(sorted(group.times(x, y) for y in elements) == list(elements) for x in elements)
    commute = all(group.times(x, y) == group.times(y, x) for x, y in product(elements, repeat=2))
    assert commute is not dihedral


def test_only_the_dihedral_group_is_not_commutative() -> None:
    for dihedral in (True, False):
        theory = GroupRules.of(6, dihedral=dihedral)
        assert theory.follows(rule("composition", "turn", "flip", "turn_and_flip"))
        assert theory.follows(rule("composition", "flip", "turn", "turn_and_flip")) is not dihedral
        assert theory.follows(rule("composition", "flip", "turn", "unturn_and_flip")) is dihedral
        assert theory.follows(rule("symmetric", "flip"))
        assert theory.follows(rule("antisymmetric", "turn"))
