"""What the page on patterns says of cells that it cannot show."""

from __future__ import annotations

import pytest

from conjoin.report.pattern_effects import ByPattern
from paper import patterns_effects


def missing(*texts: str) -> list[str]:
    return patterns_effects._missing(ByPattern(tests=(), groups={}, missing=texts))


def test_cells_without_runs_are_named() -> None:
    assert missing() == []
    assert missing("FB15K complex-conj", "elsewhere complex") == ["", "Cells without runs: FB15K complex-conj."]


def test_runs_that_cannot_be_read_stop_the_page() -> None:
    with pytest.raises(SystemExit, match="is damaged"):
        missing("WN18 complex", "FB15K complex-conj: /some/path is damaged")
