"""The tables of measurements in the docs equal the committed results."""

from __future__ import annotations

from pathlib import Path

import pytest
from scripts.write_bench_tables import PAGES, filled

from bench import mining
from scripts import write_bench_tables

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("page", PAGES)
def test_tables_are_current(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    assert filled(text) == text, "run python -m scripts.write_bench_tables"


def test_latest_measurement_is_shown_for_any_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for cores, day in ((2, 15), (16, 17), (4, 16)):
        (tmp_path / f"threads_{cores}cores_2026-11-{day}.json").write_text(f'{{"date": "2026-11-{day}"}}')
    monkeypatch.setattr(write_bench_tables, "RESULTS", tmp_path)
    assert write_bench_tables.latest("threads_*.json")["date"] == "2026-11-17"


def test_mining_page_equals_the_generated_text() -> None:
    """Words changed in docs/mining.md alone would be gone with the next measurement."""
    written = mining.page(write_bench_tables.latest("mining_*.json"))
    assert written == (ROOT / "docs" / "mining.md").read_text(encoding="utf-8"), "change them in bench/mining.py"
