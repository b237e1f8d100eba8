"""Scenes: curves lie where the map puts them, and JSON holds what sphere.js needs."""

from __future__ import annotations

import json

import numpy as np
import pytest

from conjoin.geometry.mobius import Mobius, chordal, from_sphere, points_of, to_sphere
from conjoin.geometry.scene import RADIUS, Scene, circle, thinned


def scene(*slots: complex, at: complex = 0.4 + 0.3j, iterates: int = 3) -> Scene:
    return Scene(
        map=Mobius.of(*slots),
        place=points_of(at),
        run="run",
        form="5★E",
        relation="borders",
        entity="France",
        coordinate=0,
        note="",
        iterates=iterates,
    )


@pytest.mark.parametrize("at", [0, 1, -2j, 0.4 + 0.3j, np.inf])
def test_the_circle_has_one_distance_from_the_entity(at: complex) -> None:
    centre = to_sphere(points_of(at))
    around = circle(centre)
    assert np.allclose(around @ centre, np.cos(RADIUS))
    assert np.allclose(around[0], around[-1])
    assert np.allclose(scene(2, 1, 0, 1, at=at).curve, from_sphere(around))


def test_a_rotation_keeps_the_size_and_another_map_does_not() -> None:
    turned = scene(1 + 0.5j, 0.7, -0.7, 1 - 0.5j)
    for image in [*turned.images(1), *turned.images(-1)]:
        assert np.linalg.norm(image[0] - image[48]) == pytest.approx(2 * np.sin(RADIUS))
    assert turned.words == "elliptic, a rotation of the sphere, by 81°"
    sizes = [np.linalg.norm(image[0] - image[48]) for image in scene(5, 0, 0, 1).images(1)]
    assert sizes[2] < sizes[1] < 2 * np.sin(RADIUS)


def test_forwards_and_backwards_meet_and_lines_pass_through_all_images() -> None:
    one = scene(1.5 + 1j, 0.2, 0.1j, 1)
    assert len(one.images(1)) == len(one.images(-1)) == 3
    again = to_sphere(one.map.power(2)(from_sphere(one.images(-1)[1])))
    assert np.allclose(again, to_sphere(one.curve), atol=1e-9)
    for n, sign in ((1, 1), (2, -1)):
        target = one.images(sign)[n - 1][0]
        assert min(np.linalg.norm(place - target) for place in one.lines()[0]) < 0.03


def test_an_elliptic_flow_closes() -> None:
    way = scene(1j, 0, 0, 1).lines()[0]
    assert np.linalg.norm(way[0] - way[-1]) < 0.02


def test_swapped_discs_are_named_in_the_description() -> None:
    assert scene(1, 2, 2, 1).apart
    assert "swaps" in scene(1 + 1j, 2, 2, 1 - 1j).words
    assert not scene(2, 1, 1, 2).apart


@pytest.mark.parametrize(
    ("slots", "roles"),
    [
        ((2, 0, 0, 1), ["attracting", "repelling"]),
        ((1j, 0, 0, 1), ["centre", "centre"]),
        ((1, 1, 0, 1), ["double"]),
        ((1, 0, 0, 1), []),
        ((1, 2, 2, 4), ["value"]),
        ((0, 1, 0, 0), []),
    ],
)
def test_every_kind_of_map_can_be_drawn(slots: tuple[complex, ...], roles: list[str]) -> None:
    one = scene(*slots)
    told = json.loads(json.dumps(one.to_json(), allow_nan=False))
    assert [still["role"] for still in told["fixed"]] == roles
    assert (told["generator"] is None) == one.map.degenerate == (told["value"] is not None)
    assert len(told["curve"]) == len(one.curve)
    assert told["words"]
    assert len(one.images(-1)) == (0 if one.map.degenerate else 3)
    assert len(one.lines()) == (0 if one.map.kind in ("constant", "identity") else 8)


def test_the_motion_is_turned_to_the_eye() -> None:
    """A stretching along a meridian faces it; of a rotation about an axis in the equator, the axis' near end does."""
    assert scene(2, 0, 0, 1, at=1j).facing == pytest.approx(np.pi / 2)
    quarter = scene(
        np.cos(np.pi / 5), 1j * np.sin(np.pi / 5), 1j * np.sin(np.pi / 5), np.cos(np.pi / 5), at=0.5, iterates=5
    )
    assert quarter.map.fixed.shape == (2, 2)
    assert abs(quarter.facing) < np.pi / 4
    for one in (quarter, scene(1 + 1j, 2, 2, 1 - 1j), scene(1, 1, 0, 1), scene(1, 2, 2, 4), scene(1j, 0, 0, 1, at=0)):
        eye = np.array([np.cos(one.facing), np.sin(one.facing), 0.0])
        centres = [
            to_sphere(one.curve)[:-1].mean(axis=0),
            *(i[:-1].mean(axis=0) for i in one.images(1) + one.images(-1)),
        ]
        assert sum(centres) @ eye > -0.1
    assert chordal(scene(2, 0, 0, 1, at=3).place, points_of(3)) == 0


def test_lines_drop_points_that_do_not_move() -> None:
    way = np.stack([np.linspace(0, 1e-3, 50), np.zeros(50), np.ones(50)], axis=1)
    assert len(thinned(way)) == 1
