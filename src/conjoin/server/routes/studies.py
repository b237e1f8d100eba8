"""Reports of studies, found below one folder at the start. A name is looked up in what was found, never as a path."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from conjoin.errors import RunError
from conjoin.runtime.atomic_files import read_sealed
from conjoin.runtime.file_limits import LARGE_RECORD


def find_reports(folder: Path | None) -> dict[str, Path]:
    """Every report.json below the folder, by the name of the study."""
    found: dict[str, Path] = {}
    if folder is None:
        return found
    root = folder.resolve()
    for file in sorted(root.rglob("report.json")):
        if file.resolve().is_relative_to(root):
            report = read_report(file)
            if report is not None:
                found.setdefault(str(report["study"]), file)
    return found


def read_report(file: Path) -> dict[str, Any] | None:
    """The object, or None where the file is not a study's report as it was written (any more)."""
    try:
        report = read_sealed(file, limit=LARGE_RECORD)
    except RunError:
        return None
    return report if isinstance(report.get("study"), str) else None


def study_line(name: str, report: dict[str, Any]) -> dict[str, Any]:
    """One line of /v1/studies."""
    cells, datasets = report.get("cells"), report.get("datasets")
    return {
        "name": name,
        "title": str(report.get("title") or name),
        "cells": len(cells) if isinstance(cells, list) else 0,
        "datasets": [str(dataset) for dataset in datasets] if isinstance(datasets, dict | list) else [],
    }
