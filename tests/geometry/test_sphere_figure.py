"""Spheres on paper: small files, the same bytes each time, names that cannot break the drawing."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.geometry.test_scene import scene

from conjoin.errors import UsageError
from conjoin.geometry.sphere_figure import BLUE, camera, draw_spheres, files_for, write_figure, written

pytestmark = pytest.mark.slow


def test_the_camera_is_a_rotation() -> None:
    for longitude, latitude in ((0.0, 0.0), (2.0, 0.4), (-1.0, -1.2)):
        view = camera(longitude, latitude)
        assert np.allclose(view @ view.T, np.eye(3))
        assert np.linalg.det(view) == pytest.approx(1)
    assert camera(0.3, 0.2)[1, 2] > 0, "up is up"


def test_two_spheres_are_small_files_and_always_the_same() -> None:
    pair = [scene(2 + 1j, 0.3, 0.2, 1, iterates=5), scene(1 + 0.5j, 0.7, -0.7, 1 - 0.5j, iterates=5)]
    first = {kind: written(draw_spheres(pair), kind) for kind in ("png", "svg", "pdf")}
    assert first["png"].startswith(b"\x89PNG")
    assert first["pdf"].startswith(b"%PDF")
    assert BLUE.encode() in first["svg"]
    assert all(len(content) < 600_000 for content in first.values())
    assert written(draw_spheres(pair), "svg") == first["svg"]


@pytest.mark.parametrize("slots", [(1, 0, 0, 1), (1, 2, 2, 4), (1, 2, 2, 1)])
def test_odd_maps_and_odd_names_are_drawn(slots: tuple[complex, ...]) -> None:
    odd = replace(scene(*slots), relation="$x^{ <b>" + "long" * 30, entity="$\\frac", form="FiveStar(c=0)")
    png = written(draw_spheres([odd]), "png")
    from matplotlib.image import imread

    pixels = imread(io.BytesIO(png), format="png")
    assert len(np.unique(pixels.reshape(-1, pixels.shape[-1]), axis=0)) > 20


def test_output_files_by_ending(tmp_path: Path) -> None:
    assert files_for(Path("a/b.PDF")) == {"pdf": Path("a/b.PDF")}
    assert {kind: path.name for kind, path in files_for(Path("a/v1.5")).items()}["svg"] == "v1.5.svg"
    with pytest.raises(UsageError, match=r"figure\.jpeg"):
        files_for(Path("figure.jpeg"))
    for folder in (".", "..", "/"):
        with pytest.raises(UsageError, match=r"figure\.png"):
            files_for(Path(folder))
    write_figure(tmp_path / "new" / "x.svg", b"<svg/>")
    assert (tmp_path / "new" / "x.svg").read_bytes() == b"<svg/>"
