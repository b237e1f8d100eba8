"""The content of a sphere figure: a curve, the map that moves it, its fixed points. Does not import torch.

The plot, the interactive page and the service draw the same scenes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from conjoin.geometry.mobius import Complexes, Mobius, Reals, from_sphere, to_sphere

RADIUS = 0.27
"""The angle at the sphere's centre between an entity and the circle around it, in radians."""
CORNERS = 96
"""Points of the circle."""
LINES = 8
"""Points of the circle whose way along the flow is drawn."""
STEPS = 361
ASIDE = np.radians(35)
"""How far from the middle of the sphere an entity may be turned to show more of its images."""
SLOW = 0.012
"""A flow line leaves out points that come closer than this to the last one."""

Role = Literal["attracting", "repelling", "centre", "double", "value"]
ROLES: dict[str, tuple[Role, ...]] = {
    "loxodromic": ("attracting", "repelling"),
    "hyperbolic": ("attracting", "repelling"),
    "elliptic": ("centre", "centre"),
    "parabolic": ("double",),
    "constant": ("value",),
    "identity": (),
}


@dataclass(frozen=True, eq=False, kw_only=True)
class Scene:
    """One sphere: `map` moves the circle around `place`, the point of `entity`."""

    map: Mobius
    place: Complexes
    run: str
    form: str
    relation: str
    entity: str
    coordinate: int
    note: str
    iterates: int = 5
    borrowed: bool = False
    """Is the map one that the run does not compute: the Möbius map of numbers that were trained in another reading?"""

    @cached_property
    def facing(self) -> float:
        """The longitude that spheres turn to the eye: the middle of the images, as far as the entity stays in view."""
        around = [image for sign in (1, -1) for image in self.images(sign)]
        sizes = [float(np.linalg.norm(each - each[0], axis=1).max()) for each in around]
        middle = sum((size * each[:-1].mean(axis=0) for size, each in zip(sizes, around, strict=True)), np.zeros(3))
        own, other = (float(np.arctan2(y, x)) for x, y, _ in (to_sphere(self.place), middle))
        aside = (other - own + np.pi) % (2 * np.pi) - np.pi if np.hypot(*middle[:2]) > SLOW else 0.0
        return own + float(np.clip(aside, -ASIDE, ASIDE))

    @cached_property
    def curve(self) -> Complexes:
        """The circle around the entity, points (CORNERS + 1, 2), closed."""
        return from_sphere(circle(to_sphere(self.place)))

    @property
    def apart(self) -> bool:
        """Do odd and even iterates lie on two sides of the unit circle?"""
        return self.map.disc == "swapped"

    def images(self, sign: int) -> list[Reals]:
        """The circle under the iterates 1, 2, … of the map (sign 1) or of its inverse (sign -1), each (corners, 3)."""
        if self.map.degenerate:
            return [to_sphere(self.map(self.curve))] if sign > 0 else []
        return [to_sphere(self.map.power(sign * n)(self.curve)) for n in range(1, self.iterates + 1)]

    def lines(self) -> list[Reals]:
        """The ways of some points of the circle along the flow, from the last inverse iterate to the last iterate."""
        if self.map.degenerate or self.map.kind == "identity":
            return []
        starts = self.curve[: -1 : CORNERS // LINES]
        if self.apart:
            starts = np.concatenate([starts, self.map(starts)])
        flowing = self.flowing
        steps = [flowing.flow(t) for t in np.linspace(-self.reach, self.reach, STEPS)]
        ways = np.stack([to_sphere(step(starts)) for step in steps], axis=1)
        return [thinned(way) for way in ways]

    @property
    def flowing(self) -> Mobius:
        """The map whose flow is drawn: where odd iterates lie on the other side, every second one, which does not."""
        return self.map.power(2) if self.apart else self.map

    @property
    def reach(self) -> float:
        """How long flow lines are: to the last iterate, but at most once around, which closes an elliptic one."""
        turn = abs(np.angle(self.flowing.multiplier))
        if self.map.kind == "elliptic":
            return float(np.pi / turn)
        most = self.iterates / (2 if self.apart else 1)
        return float(min(most, 2 * np.pi / max(turn, 1e-9)))

    @property
    def still(self) -> list[tuple[Reals, Role]]:
        """The fixed points on the sphere and what each is."""
        return list(zip(to_sphere(self.map.fixed), ROLES[self.map.kind], strict=False))

    @property
    def words(self) -> str:
        """The map in words: its class and what it does."""
        kind, m = self.map.kind, self.map.multiplier if not self.map.degenerate else 1
        turn, stretch = abs(np.degrees(np.angle(m))), abs(m)
        match kind:
            case "elliptic":
                rigid = ", a rotation of the sphere" if self.map.turns_rigidly else ""
                return f"elliptic{rigid}, by {turn:.0f}°"
            case "hyperbolic":
                return f"hyperbolic, stretches {stretch:.3g} times"
            case "loxodromic":
                swap = ", swaps the sides" if self.apart else ""
                return f"loxodromic, stretches {stretch:.3g} times, turns by {turn:.0f}°{swap}"
            case "parabolic":
                return "parabolic, pushes along circles through one point"
            case "identity":
                return "the identity: nothing moves"
        return "constant: everything goes to one point"

    def to_json(self) -> dict[str, Any]:
        """What sphere.js draws; complex numbers are pairs."""
        regular = not self.map.degenerate
        m = self.map.multiplier if regular else None
        return {
            "run": self.run,
            "form": self.form,
            "relation": self.relation,
            "entity": self.entity,
            "coordinate": self.coordinate,
            "note": self.note,
            "borrowed": self.borrowed,
            "words": self.words,
            "kind": self.map.kind,
            "stretch": None if m is None else abs(m),
            "turn": None if m is None else float(np.angle(m)),
            "matrix": _pairs(self.map.matrix),
            "generator": _pairs(self.map.generator) if regular else None,
            "flowing": _pairs(self.flowing.generator) if regular else None,
            "reach": self.reach if regular else 0.0,
            "place": _pairs(self.place),
            "curve": [_pairs(point) for point in self.curve],
            "value": None if regular else to_sphere(self.map(self.place)).tolist(),
            "fixed": [{"place": place.tolist(), "role": role} for place, role in self.still],
            "facing": self.facing,
            "apart": self.apart,
            "iterates": self.iterates,
        }


def circle(centre: Reals) -> Reals:
    """A closed circle on the sphere around a point of it, (CORNERS + 1, 3)."""
    other = np.eye(3)[np.argmin(np.abs(centre))]
    first = np.cross(centre, other)
    first /= np.linalg.norm(first)
    second = np.cross(centre, first)
    angle = np.linspace(0, 2 * np.pi, CORNERS + 1)[:, None]
    around = np.cos(angle) * first + np.sin(angle) * second
    return np.asarray(np.cos(RADIUS) * centre + np.sin(RADIUS) * around)


def thinned(way: Reals) -> Reals:
    """A line without the points that nearly repeat the last one kept."""
    kept = [0]
    for i in range(1, len(way)):
        if np.linalg.norm(way[i] - way[kept[-1]]) >= SLOW:
            kept.append(i)
    return way[kept]


def _pairs(values: Complexes) -> list[list[float]]:
    return [[float(z.real), float(z.imag)] for z in values.ravel()]
