"""What an earlier graph gives away of a later one."""

from __future__ import annotations

import numpy as np
import pytest

from conjoin.runs import warm_start


def test_facts_are_found_among_others_piece_by_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    chance = np.random.default_rng(0)
    facts, others = chance.integers(0, 4, (30, 3)), chance.integers(0, 4, (40, 3))
    monkeypatch.setattr(warm_start, "PIECE", 7)
    expected = [fact in others.tolist() for fact in facts.tolist()]
    assert 0 < sum(expected) < len(expected)
    assert warm_start.contained_in(facts, others).tolist() == expected
    assert not warm_start.contained_in(facts, others[:0]).any()
