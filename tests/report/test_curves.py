"""Learning curves as values: mean and span over seeds, from what the runs kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.report.fabricated import finished, tiny

from conjoin.report.as_json import report_json
from conjoin.report.collect import Findings, RowResult, collect
from conjoin.report.curves import Point, history

MRRS = {0: (None, 0.5, 0.7), 1: (None, 0.7, None)}
"""Seed by seed, after each epoch; None where nothing was validated."""


def findings(root: Path) -> Findings:
    study = tiny(root)
    for seed, mrrs in MRRS.items():
        events: list[dict[str, Any]] = [{"epoch": e, "loss": (2 + seed) / e, "seconds": 1.0} for e in (1, 2, 3)]
        for event, mrr in zip(events, mrrs, strict=True):
            if mrr is not None:
                event["valid"] = {"mrr": mrr}
        finished(root, study.cell("UMLS", study.rows["complex"], seed), mrr=0.9, events=events)
    return collect(study, root)


def outcome(found: Findings) -> RowResult:
    chosen = found.of("UMLS", "complex")
    assert chosen is not None
    return chosen


def test_mean_and_span_over_the_seeds_that_have_a_value(tmp_path: Path) -> None:
    chosen = outcome(findings(tmp_path))
    assert history(chosen, "valid") == [Point(2, 0.6, 0.5, 0.7, 2), Point(3, 0.7, 0.7, 0.7, 1)]
    assert [point[:4] for point in history(chosen, "loss")][:2] == [(1, 2.5, 2.0, 3.0), (2, 1.25, 1.0, 1.5)]


def test_a_run_whose_events_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    damaged = outcome(findings(tmp_path)).runs[1].folder.events_file
    damaged.write_text("{]\n", encoding="utf-8")
    found = collect(tiny(tmp_path), tmp_path)
    assert [point.seeds for point in history(outcome(found), "valid")] == [1, 1]
    assert [flaw for flaw in found.flaws if str(damaged) in flaw], "the report lists what it leaves out"


def test_the_report_for_programs_has_them(tmp_path: Path) -> None:
    told = report_json(findings(tmp_path), runs=(), questions=(), printed=(), root=tmp_path)
    found = {cell["row"]: cell["valid_mrr_by_epoch"] for cell in told["cells"]}
    assert found["complex"][0] == {"epoch": 2, "mean": 0.6, "low": 0.5, "high": 0.7, "seeds": 2}
    assert found["tied"] == []
