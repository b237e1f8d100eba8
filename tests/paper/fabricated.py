"""Finished runs with given MRRs for docs/results.md, and what the page says of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from tests.report.fabricated import finished, ranks_of

from conjoin.datasets.registry import dataset as catalogued
from conjoin.forms.notation import parse
from conjoin.studies.parse import read_study
from conjoin.studies.spec import Study


def study_in(place: Path, name: str = "paper") -> Study:
    return read_study(place / "studies" / f"{name}.toml")


def ran(
    place: Path,
    dataset: str,
    row: str,
    mrrs: Sequence[float],
    *,
    study: str = "paper",
    better: int = 3,
    best: float | None = None,
    hits: Sequence[float] = (0.5, 0.5, 0.5),
) -> None:
    """Finished runs, seed by seed, with these MRRs; every question has about the same rank."""
    specified = study_in(place, study)
    for seed, mrr in enumerate(mrrs):
        cell = specified.cell(dataset, specified.rows[row], seed)
        counts = catalogued(cell.graph).counts
        relations = 2 * counts.relations * parse(cell.row.form_text).relation_width(cell.rank)
        places = better + np.random.default_rng([seed, better]).integers(0, 3, 400)
        finished(
            place / "studies" / "results",
            cell,
            mrr=mrr,
            hits=hits,
            best_mrr=mrr if best is None else best,
            parameters=2 * cell.rank * counts.entities + relations,
            relation_parameters=relations,
            ranks=ranks_of(places.tolist()),
        )


def verdict(page: str, title: str) -> str:
    return glance(page, title)[0]


def glance(page: str, title: str) -> tuple[str, str]:
    """Verdict and short words in the table at the top."""
    found = re.search(rf"^\| {re.escape(title)} \| (\w+) \| ([^|]*) \|$", page, re.MULTILINE)
    assert found, title
    return found[1], found[2]


def section(page: str, title: str) -> str:
    return " ".join(page.partition(f"## {title}\n")[2].partition("\n## ")[0].split())


def about(mean: float) -> list[float]:
    return [mean - 0.0005, mean, mean + 0.0005]
