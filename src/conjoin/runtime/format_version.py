"""The version of the files of a run: settings, result, weights, checkpoint and calibration. Does not import torch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from conjoin.errors import NewerFormat, RunError

FORMAT_VERSION = 1
"""Raise it when older code would misread new files. Files without a version, which were written before it was recorded,
have version 1."""
KEY = "format_version"
STAMP = {KEY: FORMAT_VERSION}
"""What every file of a run records."""


def check_format_version(stored: Mapping[str, Any], file: Path) -> None:
    """Raise NewerFormat if the file was written in a version that this code does not know yet."""
    version = stored.get(KEY, FORMAT_VERSION)
    if type(version) is not int or version < 1:
        raise RunError(f"{file} is damaged: its {KEY} is {version!r}, not a positive integer. Train the run again.")
    if version > FORMAT_VERSION:
        raise NewerFormat(
            f"{file} has format version {version}, and this version of conjoin reads up to {FORMAT_VERSION}. "
            "Install a newer version of conjoin (pip install --upgrade conjoin)."
        )
