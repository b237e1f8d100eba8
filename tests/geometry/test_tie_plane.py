"""The plane of a tie: one entity under all relations lies in it, exactly when the form is tied by conjugation."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.geometry.trained import graph, model

from conjoin.errors import UsageError
from conjoin.geometry.plane_figure import cut, draw_planes
from conjoin.geometry.sphere_figure import written
from conjoin.geometry.tie_plane import transformed


@pytest.mark.parametrize("form", ["complex-conj", "complex-conj(layout=published)"])
@pytest.mark.parametrize("entity", [None, 0, 7])
def test_tied_entities_lie_in_the_plane(form: str, entity: int | None) -> None:
    found = transformed(model(form), graph(), run="run", form=form, entity=entity)
    assert found.off_plane < 1e-12
    a, b = found.plane
    assert a == pytest.approx(b)
    assert found.partner == found.coordinate + 3


@pytest.mark.parametrize("form", ["complex", "complex-twin"])
def test_others_leave_it(form: str) -> None:
    assert transformed(model(form), graph(), run="run", form=form, entity=3).off_plane > 0.1


def test_the_points_are_the_queries() -> None:
    own, net = graph(), model("complex")
    found = transformed(net, own, run="run", form="ComplEx", entity=4, coordinate=1)
    relations = torch.arange(2 * own.n_relations)
    query = net.query(torch.full_like(relations, 4), relations).numpy()
    z = query[:, :6] + 1j * query[:, 6:]
    assert np.allclose(found.z, z[:, [1, 4]])
    assert np.allclose(found.points[:, 2], z[:, 4].real)
    assert np.allclose(np.hypot(found.points[:, 0], found.points[:, 1]), np.abs(z[:, 1]))
    assert len(found.relations) == len(found.z)


def test_explained_variance_equals_least_squares() -> None:
    own, net = graph(), model("complex-conj")
    found = transformed(net, own, run="run", form="Complεx", coordinate=2)
    x = net.entities.weight.numpy()
    h = x[:, :6] + 1j * x[:, 6:]
    slots = net.form.unfold(net.relations)
    shares = []
    for r in range(4):
        a = complex(slots["a1"].re[r, 2], slots["a1"].im[r, 2])
        first, second = a * h[:, 2], (a.conjugate() * h[:, 5]).real
        table = np.stack([first.real, first.imag, np.ones(12)], axis=1)
        guess = table @ np.linalg.solve(table.T @ table, table.T @ second)
        shares.append(1 - ((second - guess) ** 2).sum() / ((second - second.mean()) ** 2).sum())
    assert found.explained == pytest.approx(np.mean(shares))


def test_other_families_and_coordinates_are_refused() -> None:
    with pytest.raises(UsageError, match="FiveStar"):
        transformed(model("5star"), graph(), run="run", form="5★E")
    with pytest.raises(UsageError, match="3"):
        transformed(model("complex"), graph(), run="run", form="ComplEx", coordinate=3)


@pytest.mark.parametrize(("a", "b", "corners"), [(0, 0, 4), (0.5, 0.5, 4), (0.75, 0.75, 6), (3, 0, 4), (0, -7, 4)])
def test_the_plane_is_cut_out_of_the_box(a: float, b: float, corners: int) -> None:
    polygon = cut(a, b)
    assert len(np.unique(polygon.round(9), axis=0)) == corners
    assert np.abs(polygon).max() <= 1 + 1e-12
    assert np.allclose(polygon[:, 2], a * polygon[:, 0] + b * polygon[:, 1])


def test_both_panels_are_drawn() -> None:
    shown = [transformed(model(form), graph(), run="run", form=form) for form in ("complex", "complex-conj")]
    svg = written(draw_planes(shown), "svg")
    assert len(svg) < 300_000
    assert written(draw_planes(shown), "svg") == svg
