"""A report as one JSON object: cells (one per dataset and row) and tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from conjoin.report.best import best_rows, difference, hits_verdict, published_value, verdict
from conjoin.report.collect import QUALITY, Findings, RowResult
from conjoin.report.curves import history
from conjoin.report.significance import PrintedCheck, QuestionTest, RunTest

SPREAD = (*QUALITY, "seconds", "seconds_last", "relation_bytes", "peak_bytes")
"""Measures with mean and deviation; the others do not depend on the seed."""
FIXED = ("parameters", "relation_parameters")


def report_json(
    findings: Findings,
    *,
    runs: Sequence[RunTest],
    questions: Sequence[QuestionTest],
    printed: Sequence[PrintedCheck],
    root: Path,
) -> dict[str, Any]:
    """The content of report.json. Folders are relative to the results root."""
    study = findings.study
    return {
        "study": study.name,
        "title": study.title,
        "weights": study.weights,
        "alpha": study.alpha,
        "datasets": {name: dict(counts) for name, counts in findings.graphs.items()},
        "cells": [_cell(findings, outcome, root) for outcome in findings.outcomes.values()],
        "tests": [*map(_run_test, runs, [study.alpha] * len(runs)), *map(_question_test, questions)],
        "printed_tests": [_check(check, study.alpha) for check in printed],
        "left_out": list(findings.flaws),
    }


def _cell(findings: Findings, outcome: RowResult, root: Path) -> dict[str, Any]:
    study, row, dataset = findings.study, outcome.row, outcome.benchmark.name
    planned = study.cell(dataset, row, outcome.seeds[0])
    spread: dict[str, float | None] = {}
    for measure in SPREAD:
        moments = outcome.moments(measure)
        spread[measure] = moments.mean if moments else None
        spread[f"{measure}_sd"] = moments.sd if moments else None
    fixed = {measure: round(m.mean) if (m := outcome.moments(measure)) else None for measure in FIXED}
    beside = {measure: m.mean if (m := outcome.moments(measure)) else None for measure in ("last_mrr", "best_mrr")}
    return {
        "dataset": dataset,
        "graph": outcome.benchmark.graph,
        "row": row.name,
        "form": row.form,
        "options": dict(row.options),
        "group": row.group,
        "rank": planned.rank,
        "recipe": asdict(planned.recipe),
        "seeds": [run.seed for run in outcome.runs],
        "seeds_wanted": list(outcome.seeds),
        **spread,
        **fixed,
        **beside,
        **{f"published_{measure}": published_value(outcome, measure) for measure in (*QUALITY, "seconds")},
        "difference": difference(outcome, "mrr"),
        "differences": {measure: difference(outcome, measure) for measure in QUALITY},
        "judged": outcome.judged,
        "verdict": verdict(findings, outcome),
        "hits_verdict": hits_verdict(outcome),
        "best": [m for m in ("seconds", *QUALITY) if row.name in best_rows(findings, dataset, m)],
        "valid_mrr_by_epoch": [point._asdict() for point in history(outcome, "valid")],
        "runs": [
            {
                "seed": run.seed,
                "id": run.run.id,
                "folder": run.folder.path.relative_to(root).as_posix(),
                "checksum": run.run.checksum,
                "environment": dict(run.environment),
                "command": run.command,
                "mrr": run.value("mrr"),
                "seconds": run.value("seconds"),
                "seconds_total": run.value("seconds_total"),
            }
            for run in outcome.runs
        ],
    }


def _run_test(test: RunTest, alpha: float) -> dict[str, Any]:
    return {
        "test": "welch",
        "dataset": test.dataset,
        "measure": test.measure,
        "a": test.a.row.name,
        "b": test.b.row.name,
        "h": None if test.p is None else int(test.p < alpha),
        "p": test.p,
        "p_holm": test.holm,
        "seeds_a": len(test.a.runs),
        "seeds_b": len(test.b.runs),
        "supplementary": test.supplementary,
        "published_h": test.printed and test.printed.h,
        "published_p": test.printed and test.printed.p,
    }


def _question_test(test: QuestionTest) -> dict[str, Any]:
    found = test.paired
    return {
        "test": "paired",
        "dataset": test.dataset,
        "measure": "mrr",
        "a": test.a.row.name,
        "b": test.b.row.name,
        "difference": found.difference,
        "low": found.interval.low,
        "high": found.interval.high,
        "p": found.p,
        "p_holm": test.holm,
        "questions": found.questions,
        "triples": found.triples,
        "seeds_a": len(test.a.runs),
        "seeds_b": len(test.b.runs),
        "supplementary": test.supplementary,
    }


def _check(check: PrintedCheck, alpha: float) -> dict[str, Any]:
    return {
        **asdict(check.test),
        "p_low": check.interval.low,
        "p_high": check.interval.high,
        "agrees": check.agrees,
        "h_follows": check.decided(alpha),
    }
