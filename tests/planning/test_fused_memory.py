"""The planner's arithmetic of the fused step against the buffers that the step makes, and against measured peaks."""

from __future__ import annotations

import pytest
import torch
from scripts.write_bench_tables import other_peaks, planned_rows

from conjoin.forms.five_star import FiveStar
from conjoin.forms.ties import conj
from conjoin.planning.fused_memory import fused_bytes, input_bytes
from conjoin.training.recipe import Recipe


@pytest.mark.parametrize("precision", ["bf16", "tf32"])
@pytest.mark.parametrize(
    ("entities", "rank", "batch", "budget"), [(1000, 12, 100, 2 << 30), (5001, 40, 300, 1 << 20), (70, 3, 129, 1)]
)
def test_planned_bytes_equal_the_buffers(entities: int, rank: int, batch: int, budget: int, precision: str) -> None:
    pytest.importorskip("triton", reason="triton is not installed: it is for Linux only")
    from conjoin.kernels.fused_queries import FusedQueries, precision_of
    from conjoin.kernels.fused_table import FusedTable, Optimised

    chosen = FiveStar(c=conj("b"), d=conj("a"))
    weights = Optimised(torch.zeros(entities, 2 * rank), "sgd", 0.1)
    table = FusedTable(weights, questions=batch, dtype=precision_of(precision), budget=budget)
    queries = FusedQueries(chosen, table, torch.zeros(6, chosen.relation_width(rank)), n3=0.0, f2=0.0)
    found = fused_bytes(
        entities, 2 * rank, batch, relation_width=chosen.relation_width(rank), precision=precision, budget=budget
    )
    assert found.copy == (table.operand.nbytes if precision == "bf16" else 0)
    assert found.exponentials == table.p.nbytes + table.sums.nbytes
    buffers = [table.q, table.share, table.queries, table.target, table.costs, table.factor, table.slot, table.stash]
    assert found.buffers == sum(b.nbytes for b in (*buffers, queries.rows, queries.relation_rows))
    assert found.gradient == table.p[:, : table.chunk].T.nbytes // table.rows * table.width
    assert found.product == 4 * table.rows * table.columns * (1 if table.chunk >= entities else 2)


def test_planned_inputs_equal_the_inputs_of_a_step() -> None:
    pytest.importorskip("triton", reason="triton is not installed: it is for Linux only")
    from conjoin.model.model import Model
    from conjoin.training.steps.choose import optimizer_for
    from conjoin.training.steps.fused import FusedStep

    model, recipe = Model("complex", 30, 2, rank=4), Recipe(batch=20, precision="tf32")
    step = FusedStep(model, recipe, optimizer_for(model, recipe))
    step.batches(torch.zeros(50, 3, dtype=torch.long))
    assert step._inputs.nbytes == input_bytes(50, entities=30, relations=2, batch=20)


def test_measured_peaks_of_an_h200_are_within_15_percent() -> None:
    """Of the large ones; a workspace of 32 MiB more or less is more than a per cent of the small ones."""
    rows = other_peaks()
    assert len(rows) >= 30
    for row in rows:
        assert abs(row.planned / row.measured - 1) < (0.15 if row.measured > 1e9 else 0.2), row


def test_configurations_that_were_measured_are_within_15_percent() -> None:
    rows = planned_rows()
    assert len(rows) >= 5
    for row in rows:
        assert abs(row.off) < 0.15, row
