"""The counts on the page are those of the last runs, and every part of the torture has a line."""

from __future__ import annotations

import sys
from pathlib import Path

import torture.__main__ as parts

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import write_reliability_doc  # noqa: E402


def test_the_page_is_current() -> None:
    text = write_reliability_doc.PAGE.read_text(encoding="utf-8")
    assert write_reliability_doc.with_counts(text) == text, "run `python scripts/write_reliability_doc.py`"


def test_every_part_has_a_title() -> None:
    assert list(write_reliability_doc.TITLES) == list(parts.PARTS)
