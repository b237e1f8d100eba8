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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that write a whole page as slow: each takes seconds, and the page itself is tested anyway."""
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here) and "place" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.slow)
