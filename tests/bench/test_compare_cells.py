"""Cells and grids by name."""

from __future__ import annotations

import numpy as np
import pytest
from bench.compare.cells import RANK_GRIDS, TRAIN_GRIDS, BenchCell, cells_of_grid, graph_of

from conjoin.errors import UsageError
from conjoin.forms.notation import form


def test_bench_cell_round_trips_as_text() -> None:
    for cells in (*TRAIN_GRIDS.values(), *RANK_GRIDS.values()):
        assert all(BenchCell.parse(str(cell)) == cell for cell in cells)
        for cell in cells:
            form(cell.form).check_rank(cell.rank)
    assert BenchCell.parse("umls/complex/8/100").precision == "fp32"


@pytest.mark.parametrize("text", ["", "umls", "umls/complex/100", "a/b/c/d", "a/b/0/1", "a/b/²/1", "a/b/1/2/tf32/x"])
def test_invalid_cells_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="DATASET/FORM/RANK/BATCH"):
        BenchCell.parse(text)


def test_grid_precision_can_be_overridden() -> None:
    assert {cell.precision for cell in cells_of_grid("paper", TRAIN_GRIDS, precision="bf16")} == {"bf16"}
    assert len(cells_of_grid("paper", TRAIN_GRIDS)) == 5
    with pytest.raises(UsageError, match="Did you mean paper"):
        cells_of_grid("papr", TRAIN_GRIDS)


def test_random_graph_is_deterministic() -> None:
    one, two = graph_of("random-50"), graph_of("random-50")
    assert one.n_entities == 50
    assert len(one.train) == 100
    assert np.array_equal(one.train, two.train)
    with pytest.raises(UsageError, match="random-N"):
        graph_of("random-many")
    with pytest.raises(UsageError, match="random-N"):
        graph_of("random-5²")
