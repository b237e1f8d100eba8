"""Rows added into a table, repeated ids included."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from conjoin.model.padding import add_rows


@given(st.lists(st.integers(0, 4), max_size=30))
def test_repeated_ids_accumulate(ids: list[int]) -> None:
    table = torch.arange(10.0).reshape(5, 2)
    rows = torch.randint(-9, 9, (len(ids), 2), generator=torch.Generator().manual_seed(len(ids))).float()
    expected = table.tolist()
    for i, row in zip(ids, rows.tolist(), strict=True):
        expected[i] = [x + y for x, y in zip(expected[i], row, strict=True)]
    add_rows(table, torch.tensor(ids, dtype=torch.long), rows)
    assert table.tolist() == expected


def test_the_rounding_is_the_same_every_time() -> None:
    source = torch.Generator().manual_seed(0)
    ids = torch.randint(50, (20_000,), generator=source)
    rows = torch.randn(20_000, 16, generator=source)
    tables = [torch.zeros(50, 16) for _ in range(5)]
    for table in tables:
        add_rows(table, ids, rows)
    assert all(torch.equal(table, tables[0]) for table in tables)
