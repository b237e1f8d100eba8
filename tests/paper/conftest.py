from __future__ import annotations

import shutil
from pathlib import Path

import pytest

STUDIES = Path(__file__).resolve().parents[2] / "studies"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A repository with the studies that the page reads, and no result."""
    (tmp_path / "studies").mkdir()
    for name in ("paper", "mobius", "layout", "readings"):
        shutil.copy(STUDIES / f"{name}.toml", tmp_path / "studies")
    return tmp_path
