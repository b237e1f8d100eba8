"""Rows in the order of their MRR."""

from __future__ import annotations

from pathlib import Path

import pytest
from paper.row_ranking import ranked
from tests.report.fabricated import finished, ranks_of, tiny

from conjoin.report.collect import collect


def test_only_seeds_that_all_rows_have_are_compared(tmp_path: Path) -> None:
    """The second seed of complex is better than tied, the one that both have is worse."""
    study = tiny(tmp_path)
    kept = {("complex", 0): [2, 4, 2, 4], ("complex", 1): [1, 1, 1, 1], ("tied", 0): [2, 2, 2, 4]}
    for (row, seed), places in kept.items():
        finished(tmp_path, study.cell("UMLS", study.rows[row], seed), mrr=0.5, ranks=ranks_of(places))
    first, second = ranked(collect(study, tmp_path), "UMLS", reference="complex")
    assert (first.outcome.row.name, first.place, first.seeds) == ("tied", 1, 1)
    assert (second.outcome.row.name, second.place, second.seeds) == ("complex", 2, 1)
    assert (first.mrr, second.mrr) == pytest.approx((0.4375, 0.375))
    assert first.against is not None
    assert first.against.difference == pytest.approx(0.0625)
    assert first.holm == first.against.p
    assert second.against is None
