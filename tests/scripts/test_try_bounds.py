"""try_bounds tests the version bounds of pyproject.toml."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts import try_bounds

ROOT = Path(__file__).resolve().parents[2]

PROJECT = """
[project]
dependencies = ["torch>=2.11", "numpy>=1.26"]
[project.optional-dependencies]
study = ["scipy>=1.13", "conjoin[plot]"]
serve = ["prometheus-client>=0.20"]
dev = ["pytest>=8"]
"""


def test_bounds_become_versions() -> None:
    found = try_bounds.lowest(PROJECT)
    assert found == {"torch": "2.11", "numpy": "1.26", "scipy": "1.13", "prometheus-client": "0.20"}


@pytest.mark.parametrize("line", ["scipy~=1.13", "scipy[x]>=1", "scipy", "scipy>=1.13,<2"])
def test_unsupported_version_bound_is_refused(line: str) -> None:
    with pytest.raises(SystemExit, match="not read"):
        try_bounds.lowest(PROJECT.replace("scipy>=1.13", line))


def test_every_declared_dependency_is_tested() -> None:
    found = try_bounds.lowest((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    pinned = try_bounds.usual((ROOT / "constraints.txt").read_text(encoding="utf-8"))
    assert {"torch", "pyarrow", "typer", "duckdb", "optuna", "fastapi", "umap-learn"} <= found.keys() <= pinned.keys()
    assert set(try_bounds.TOOLS) <= pinned.keys()
    assert all((ROOT / room).exists() for room in try_bounds.ROOMS)
