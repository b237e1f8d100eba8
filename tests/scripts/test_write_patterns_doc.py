"""The page about patterns says what the results say, and the study of ties is what the algebra enumerates."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

pytest.importorskip("scipy", reason="tests between models need SciPy: pip install 'conjoin[study]'")
ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import write_patterns_doc  # noqa: E402
import write_ties_study  # noqa: E402

from conjoin.algebra.notation import parse  # noqa: E402
from conjoin.algebra.orbits import representatives  # noqa: E402
from conjoin.report.predictions import Predictions  # noqa: E402
from conjoin.study.study import Study  # noqa: E402


def test_the_page_is_current() -> None:
    text = write_patterns_doc.DOC.read_text(encoding="utf-8")
    named = [block["name"] for block in write_patterns_doc.BLOCK.finditer(text)]
    assert sorted(named) == sorted(write_patterns_doc.BLOCKS)
    assert write_patterns_doc.filled(text) == text, "run `python scripts/write_patterns_doc.py`"


def test_the_study_of_ties_is_current() -> None:
    written = write_ties_study.FILE.read_text(encoding="utf-8")
    assert written == write_ties_study.content(), "run `python scripts/write_ties_study.py`"


def test_the_study_of_ties_has_every_orbit_once() -> None:
    study = Study.read(write_ties_study.FILE)
    forms = [parse(row.form_text) for row in study.rows.values() if row.group != "control"]
    assert sorted(map(str, forms)) == sorted(map(str, representatives()))


def test_predictions_are_about_the_study() -> None:
    study = Study.read(ROOT / "studies" / "patterns.toml")
    asked = Predictions.read(ROOT / "studies" / "patterns-predictions.toml", study)
    assert sum(len(each.claims) for each in asked.predictions) > 20
