"""The tables of measurements in the docs are those of the committed results."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

from write_bench_tables import PAGES, filled  # noqa: E402


@pytest.mark.parametrize("page", PAGES)
def test_tables_are_current(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    assert filled(text) == text, "run python scripts/write_bench_tables.py"
