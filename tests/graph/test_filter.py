"""The filter against a dictionary of sets."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conjoin.graph.filter import Ids, KnownTails

N_ENTITIES, N_RELATIONS = 6, 4
QUERY = st.tuples(st.integers(0, N_ENTITIES - 1), st.integers(0, N_RELATIONS - 1), st.integers(0, N_ENTITIES - 1))
QUERIES = st.lists(QUERY, max_size=60)


def array(queries: list[tuple[int, int, int]]) -> Ids:
    return np.array(queries, dtype=np.int64).reshape(-1, 3)


def oracle(queries: list[tuple[int, int, int]]) -> dict[tuple[int, int], set[int]]:
    answers: dict[tuple[int, int], set[int]] = {}
    for head, relation, tail in queries:
        answers.setdefault((head, relation), set()).add(tail)
    return answers


@given(queries=QUERIES, asked=QUERIES)
def test_known_agrees_with_sets(queries: list[tuple[int, int, int]], asked: list[tuple[int, int, int]]) -> None:
    known = KnownTails.from_queries(array(queries), n_relations=N_RELATIONS)
    answers = oracle(queries)
    assert len(known) == len(set(queries))
    for head in range(N_ENTITIES):
        for relation in range(N_RELATIONS):
            assert known.tails_of(head, relation).tolist() == sorted(answers.get((head, relation), ()))
    assert known.contains(array(asked)).tolist() == [t in answers.get((h, r), ()) for h, r, t in asked]
    question, tails = known.pairs(array(asked)[:, 0], array(asked)[:, 1])
    expected = [(i, t) for i, (h, r, _) in enumerate(asked) for t in sorted(answers.get((h, r), ()))]
    assert list(zip(question.tolist(), tails.tolist(), strict=True)) == expected


@given(queries=QUERIES)
def test_rows_are_sorted_unique_and_read_only(queries: list[tuple[int, int, int]]) -> None:
    known = KnownTails.from_queries(array(queries), n_relations=N_RELATIONS)
    assert (np.diff(known.keys) > 0).all()
    assert known.starts[0] == 0
    assert known.starts[-1] == len(known.tails)
    assert (np.diff(known.starts) > 0).all()
    for part in (known.keys, known.starts, known.tails):
        assert part.dtype == np.int64
        assert not part.flags.writeable
        with pytest.raises(ValueError, match="read-only"):
            part[:] = 0


def test_filter_does_not_change_the_queries() -> None:
    queries = array([(1, 0, 2), (0, 0, 1), (1, 0, 2)])
    before = queries.copy()
    KnownTails.from_queries(queries, n_relations=1)
    assert np.array_equal(queries, before)
    assert queries.flags.writeable


def test_narrow_integers_do_not_overflow() -> None:
    queries = np.array([[2_000_000, 1_999, 7], [2_000_000, 3, 8]], dtype=np.int32)
    known = KnownTails.from_queries(queries, n_relations=2_000)  # type: ignore[arg-type]
    assert known.tails_of(2_000_000, 1_999).tolist() == [7]
    assert known.contains(queries).tolist() == [True, True]  # type: ignore[arg-type]


@given(queries=QUERIES)
def test_neighbours_are_the_tails_of_all_relations(queries: list[tuple[int, int, int]]) -> None:
    known = KnownTails.from_queries(array(queries), n_relations=N_RELATIONS)
    for head in range(max((h for h, _, _ in queries), default=0) + 2):
        assert known.neighbours(head).tolist() == sorted({t for h, _, t in queries if h == head})
