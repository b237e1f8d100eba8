"""Measured speeds for estimates: seconds per epoch of a form on a dataset, from a file. Does not import torch.

The file is JSON: a list of objects, or an object that holds such a list under `cells`. Each object has `dataset`,
`form`, `rank`, `batch`, `seconds_per_epoch` and optionally `seconds_per_validation`; `conjoin bench train` writes such
files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conjoin.errors import UsageError
from conjoin.runtime.atomic_files import read_json

FIELDS: Mapping[str, type] = {"dataset": str, "form": str, "rank": int, "batch": int, "seconds_per_epoch": float}
VALIDATION = "seconds_per_validation"


@dataclass(frozen=True, kw_only=True)
class RecordedSpeed:
    """Measured seconds of one epoch of a form on a dataset; `validation`: seconds of one ranking of valid."""

    dataset: str
    form: str
    rank: int
    batch: int
    seconds: float
    validation: float | None = None

    @property
    def family(self) -> str:
        return family_of(self.form)


def family_of(form: str) -> str:
    """The family of a form. Forms of one family cost nearly the same, because they use the same product."""
    return "5star" if form.casefold().startswith(("5star", "5★", "fivestar")) else "complex"


def read_speeds(path: Path) -> tuple[RecordedSpeed, ...]:
    """The speeds of a file. Objects without a time (of runs that did not finish) are skipped."""
    content = read_json(path)
    lines = content.get("cells") if isinstance(content, dict) else content
    if not isinstance(lines, list) or not all(isinstance(line, dict) for line in lines):
        raise UsageError(f"{path} is not a file of speeds. Write a JSON list of objects with {', '.join(FIELDS)}.")
    return tuple(_speed(line, path) for line in lines if line.get("seconds_per_epoch"))


def _speed(line: Mapping[str, Any], path: Path) -> RecordedSpeed:
    validation = line.get(VALIDATION)
    for key, kind in (FIELDS if validation is None else {**FIELDS, VALIDATION: float}).items():
        value = line.get(key)
        if not isinstance(value, kind) and not (kind is float and type(value) is int):
            raise UsageError(f"{path}: {key} = {value!r} in {dict(line)} should be a {kind.__name__}")
    if line["rank"] < 1 or line["batch"] < 1 or line["seconds_per_epoch"] < 0:
        raise UsageError(f"{path}: rank and batch must be at least 1, and seconds at least 0, got {dict(line)}.")
    return RecordedSpeed(
        dataset=line["dataset"],
        form=line["form"],
        rank=line["rank"],
        batch=line["batch"],
        seconds=float(line["seconds_per_epoch"]),
        validation=None if validation is None else float(validation),
    )
