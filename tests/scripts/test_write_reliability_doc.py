"""The page shows the counts of the last runs, and a line for every part of the stress tests."""

from __future__ import annotations

from pathlib import Path

import tests.stress.__main__ as parts

from scripts import write_reliability_doc

ROOT = Path(__file__).resolve().parents[2]


def test_page_is_current() -> None:
    text = write_reliability_doc.PAGE.read_text(encoding="utf-8")
    assert write_reliability_doc.with_counts(text) == text, "run `python -m scripts.write_reliability_doc`"


def test_every_part_has_a_title() -> None:
    assert list(write_reliability_doc.TITLES) == list(parts.PARTS)
