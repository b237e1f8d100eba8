"""Measured speeds that estimates can rest on: seconds per epoch of a form on a dataset, from a file. No torch.

The file is JSON: a list of objects, or an object that holds such a list under `cells`. Of each object are read
`dataset`, `form`, `rank`, `batch`, `seconds_per_epoch` and, where it is there, `seconds_per_validation`; the files that
`conjoin bench train` writes have these fields.
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
    """One epoch of a form at a rank and batch size on a dataset, measured; `validation` is one ranking of valid."""

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
    """Forms of one family cost nearly the same: what their tables are read with is the same product."""
    return "5star" if form.casefold().startswith(("5star", "5★", "fivestar")) else "complex"


def read_speeds(path: Path) -> tuple[RecordedSpeed, ...]:
    """The speeds of a file; lines without a time (a cell that did not run) are passed over."""
    told = read_json(path)
    lines = told.get("cells") if isinstance(told, dict) else told
    if not isinstance(lines, list) or not all(isinstance(line, dict) for line in lines):
        raise UsageError(f"{path} holds no speeds: write a list of objects with {', '.join(FIELDS)}")
    return tuple(_speed(line, path) for line in lines if line.get("seconds_per_epoch"))


def _speed(line: Mapping[str, Any], path: Path) -> RecordedSpeed:
    validation = line.get(VALIDATION)
    for key, kind in (FIELDS if validation is None else {**FIELDS, VALIDATION: float}).items():
        value = line.get(key)
        if not isinstance(value, kind) and not (kind is float and type(value) is int):
            raise UsageError(f"{path}: {key} = {value!r} in {dict(line)} should be a {kind.__name__}")
    if line["rank"] < 1 or line["batch"] < 1 or line["seconds_per_epoch"] < 0:
        raise UsageError(f"{path}: rank and batch are at least 1, seconds at least 0, unlike in {dict(line)}")
    return RecordedSpeed(
        dataset=line["dataset"],
        form=line["form"],
        rank=line["rank"],
        batch=line["batch"],
        seconds=float(line["seconds_per_epoch"]),
        validation=None if validation is None else float(validation),
    )
