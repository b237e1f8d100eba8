"""Plots: what is drawn, that names do not overlap, and that drawing repeats itself."""

from __future__ import annotations

import re
import sys
import xml.etree.ElementTree as ET
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.report.fabricated import finished, tiny

from conjoin.errors import NotInstalled
from conjoin.report.collect import Findings, collect
from conjoin.report.figures import curves, frontier, pvalues, times
from conjoin.report.significance import run_tests
from conjoin.runtime.plotting import apart, label

pytestmark = pytest.mark.slow


def filled(root: Path, *, validated: bool = True, worst: float = 0.9) -> Findings:
    study = tiny(root)
    for row, mrrs in {"complex": (0.930, 0.932), "tied": (0.910, 0.912), "half": (worst,)}.items():
        for seed, mrr in enumerate(mrrs):
            events = [
                {"epoch": e, "loss": 1 / e, "seconds": 1.0, **({"valid": {"mrr": mrr * e / 3}} if validated else {})}
                for e in (1, 2, 3)
            ]
            finished(root, study.cell("UMLS", study.rows[row], seed), mrr=mrr, seconds=1 + seed / 10, events=events)
    return collect(study, root)


@pytest.mark.slow
def test_every_plot_is_drawn(tmp_path: Path) -> None:
    found = filled(tmp_path)
    drawn = [*frontier(found), *times(found), *pvalues(found, run_tests(found)), *curves(found)]
    assert [figure.name for figure in drawn] == ["frontier", "times", "pvalues-UMLS", "curves"]
    for figure in drawn:
        root = ET.fromstring(figure.svg)
        assert root.tag.endswith("svg")
        assert "currentColor" in figure.svg
        assert "<metadata>" not in figure.svg
        assert figure.pdf.startswith(b"%PDF")
        assert figure.words


def test_drawing_repeats_itself(tmp_path: Path) -> None:
    found = filled(tmp_path)
    one, other = frontier(found)[0], frontier(found)[0]
    assert one.svg == other.svg
    assert one.pdf == other.pdf


def test_nothing_to_draw(tmp_path: Path) -> None:
    found = collect(tiny(tmp_path), tmp_path)
    assert (frontier(found), times(found), pvalues(found, run_tests(found)), curves(found)) == ((), (), (), ())


def test_without_validation_the_loss_is_drawn(tmp_path: Path) -> None:
    assert curves(filled(tmp_path, validated=False))[0].svg != curves(filled(tmp_path / "valid"))[0].svg


def test_sizes_that_are_nearly_the_same_are_told(tmp_path: Path) -> None:
    """Ties save little where relations are few: no round number need lie between."""
    study = tiny(tmp_path)
    for row, parameters in (("complex", 312_672), ("tied", 312_064)):
        finished(tmp_path, study.cell("UMLS", study.rows[row], 0), mrr=0.9, parameters=parameters)
    (figure,) = frontier(collect(study, tmp_path))
    told = [float(text) for text in re.findall(r"<!-- (31\d(?:\.\d+)?) -->", figure.svg)]
    assert len(told) >= 2
    assert len({*told}) == len(told)


def test_a_model_that_failed_does_not_flatten_the_others(tmp_path: Path) -> None:
    """Off scale, it is only named; matplotlib repeats texts as comments."""
    good, bad = frontier(filled(tmp_path / "good"))[0].svg, frontier(filled(tmp_path / "bad", worst=0.01))[0].svg
    assert bad.count("LineCollection") == good.count("LineCollection") - 1
    assert "<!-- off scale:" in bad
    assert "<!-- off scale:" not in good


def test_without_matplotlib_the_way_out_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = filled(tmp_path)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(NotInstalled, match=r"conjoin\[plot\]"):
        frontier(found)


def test_labels_as_matplotlib_writes_them() -> None:
    assert label("5★ε_n") == "5★ε$_n$"
    assert label("5★ε∇") == r"5★ε$_\nabla$"
    assert label("costs $5") == r"costs \$5"


@given(st.lists(st.floats(0, 1), max_size=8))
def test_names_are_kept_apart_in_order_and_in_bounds(wanted: list[float]) -> None:
    placed = apart(wanted, 0.1, low=0.0, high=1.0)
    order = sorted(range(len(wanted)), key=lambda place: wanted[place])
    ordered = [placed[place] for place in order]
    assert all(after - before >= 0.1 - 1e-9 for before, after in pairwise(ordered))
    assert all(-1e-9 <= value <= 1 + 1e-9 for value in placed)


def test_names_with_room_stay_where_they_are() -> None:
    assert apart([0.1, 0.5, 0.9], 0.1, low=0, high=1) == pytest.approx([0.1, 0.5, 0.9])
    assert apart([0.5, 0.5], 0.2, low=0, high=1) == pytest.approx([0.4, 0.6])
    assert apart([0.0, 0.0], 0.2, low=0, high=1) == pytest.approx([0.0, 0.2])
