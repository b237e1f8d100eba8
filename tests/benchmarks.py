"""Benchmark datasets for tests: taken from CONJOIN_DATA or the download cache, never downloaded."""

from __future__ import annotations

from pathlib import Path

import pytest

from conjoin.datasets.load import locate


def benchmark_folder(name: str) -> Path:
    """The folder of a dataset on this machine; skips the test where there is none."""
    folder = locate(name)
    if folder is None:
        pytest.skip(f"the dataset {name} is not on this machine: set CONJOIN_DATA, or run `conjoin fetch {name}`")
    return folder
