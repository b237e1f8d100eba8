from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.report.test_pattern_effects import filled, study_of

from conjoin.report import pattern_plot
from conjoin.report.build import write_report
from conjoin.report.collect import collect
from conjoin.report.pattern_effects import pattern_effects
from conjoin.report.pattern_plot import plot_pattern_effects
from conjoin.report.pattern_text import form_effects

pytestmark = pytest.mark.slow

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

pytest.importorskip("scipy", reason="relation patterns need SciPy: pip install 'conjoin[study]'")
pytest.importorskip("matplotlib", reason="plots need matplotlib: pip install 'conjoin[study]'")


def test_no_tests_no_plot() -> None:
    assert plot_pattern_effects([]) == ()


def test_the_plot_is_the_same_for_the_same_tests(tmp_path: Path) -> None:
    study = study_of(tmp_path)
    filled(study, tmp_path)
    effects = form_effects(pattern_effects(collect(study, tmp_path), tmp_path).tests, alpha=0.05)
    (first,), (second,) = plot_pattern_effects(effects), plot_pattern_effects(effects)
    assert first.svg == second.svg
    assert first.pdf.startswith(b"%PDF")
    assert "currentColor" in first.svg, "text takes the page's colour"


def test_all_words_lie_within_the_plot_of_one_form(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = study_of(tmp_path)
    filled(study, tmp_path)
    effects = form_effects(pattern_effects(collect(study, tmp_path), tmp_path).tests, alpha=0.05)[:1]
    drawn: list[Drawing] = []
    monkeypatch.setattr(pattern_plot, "finish", lambda figure, *_: drawn.append(figure))
    plot_pattern_effects(effects)
    (figure,) = drawn
    places = [text.get_window_extent() for text in figure.texts]
    assert len(places) == 2
    assert all(place.x0 >= 0 and place.x1 <= figure.bbox.x1 for place in places)


def test_a_report_has_the_plot_and_the_sentences(tmp_path: Path) -> None:
    study = study_of(tmp_path)
    filled(study, tmp_path)
    write_report(study, tmp_path, tmp_path / "report")
    page = (tmp_path / "report" / "report.md").read_text(encoding="utf-8")
    assert "over all questions it loses on one of one dataset" in page
    assert "figures/pattern-effects.svg" in page
    assert (tmp_path / "report" / "figures" / "pattern-effects.svg").exists()
