"""A tie and the text it prints."""

from __future__ import annotations

import pytest
import torch

from conjoin.forms.planar import Z
from conjoin.forms.ties import Tie, conj, zero

TIES = [
    (conj("b"), "conj(b)", 3 - 4j),
    (-conj("b"), "-conj(b)", -3 + 4j),
    (Tie("b"), "b", 3 + 4j),
    (-Tie("b"), "-b", -3 - 4j),
    (zero, "0", 0j),
    (-zero, "0", 0j),
]


@pytest.mark.parametrize(("tie", "text", "value"), TIES)
def test_ties_derive_and_print_their_value(tie: Tie, text: str, value: complex) -> None:
    stored = {"a": Z(torch.tensor([7.0]), torch.tensor([9.0])), "b": Z(torch.tensor([3.0]), torch.tensor([4.0]))}
    derived = tie.derive(stored)
    assert complex(derived.re.item(), derived.im.item()) == value
    assert str(tie) == text


def test_ties_are_values() -> None:
    assert conj("a") == Tie("a", conjugated=True)
    once = -conj("a")
    assert -once == conj("a")
    assert -zero == zero
    assert len({conj("a"), conj("a"), -conj("a"), Tie("a"), conj("b")}) == 4
