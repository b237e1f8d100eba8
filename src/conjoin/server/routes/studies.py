"""Study reports, listed once at the start. A name from a request is looked up in this list, never used as a path."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from conjoin.errors import RunError
from conjoin.runtime.atomic_files import read_sealed
from conjoin.runtime.file_limits import LARGE_RECORD


def find_reports(folder: Path | None) -> dict[str, Path]:
    """Every valid report.json below the folder, by the name of its study."""
    reports: dict[str, Path] = {}
    if folder is None:
        return reports
    root = folder.resolve()
    for file in sorted(root.rglob("report.json")):
        if file.resolve().is_relative_to(root):
            report = read_report(file)
            if report is not None:
                reports.setdefault(str(report["study"]), file)
    return reports


def read_report(file: Path) -> dict[str, Any] | None:
    """The report, or None if the file is not an intact study report."""
    try:
        report = read_sealed(file, limit=LARGE_RECORD)
    except RunError:
        return None
    return report if isinstance(report.get("study"), str) else None


def study_line(name: str, report: dict[str, Any]) -> dict[str, Any]:
    """One entry of /v1/studies."""
    cells, datasets = report.get("cells"), report.get("datasets")
    return {
        "name": name,
        "title": str(report.get("title") or name),
        "cells": len(cells) if isinstance(cells, list) else 0,
        "datasets": [str(dataset) for dataset in datasets] if isinstance(datasets, dict | list) else [],
    }
