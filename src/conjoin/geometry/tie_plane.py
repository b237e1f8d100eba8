"""What the tie a2 = conj(a1) does to a transformed entity: a linear constraint, and which cloud of points obeys it.

An entity x becomes z = (a1 x1 | a2 x2). With a2 = conj(a1), coordinate by coordinate, z2 = κ conj(z1) with
κ = x2 / conj(x1), whatever the relation: the third number Re z2 is a Re z1 + b Im z1, with a + ib = κ. So *one entity
under all relations* lies in a plane. All entities under one relation do not: their x1 and x2 are free.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from conjoin.errors import UsageError
from conjoin.forms.complex import ComplEx
from conjoin.geometry.mobius import Complexes, Reals
from conjoin.graph.graph import Graph
from conjoin.model.model import Model


@dataclass(frozen=True, eq=False, kw_only=True)
class TransformedEntity:
    """One entity under every relation and reciprocal, in coordinates i and i + rank/2."""

    run: str
    form: str
    entity: str
    coordinate: int
    partner: int
    x: tuple[complex, complex]
    z: Complexes
    relations: tuple[str, ...]
    explained: float

    @property
    def turn(self) -> complex:
        """The phase of a coordinate is a convention: turning it for all entities changes no score. This one makes
        a = b, so that the planes of all models lean to the same side."""
        kappa = self.x[1] / np.conj(self.x[0])
        return complex(np.exp(1j * (np.pi / 4 - np.angle(kappa))))

    @property
    def points(self) -> Reals:
        """Re z1, Im z1, Re z2 of every relation, (n, 3), with z1 turned by `turn`."""
        first = self.z[:, 0] * self.turn
        return np.stack([first.real, first.imag, self.z[:, 1].real], axis=1)

    @property
    def plane(self) -> tuple[float, float]:
        """a and b of the constraint Re z2 = a Re z1 + b Im z1."""
        kappa = self.x[1] / np.conj(self.x[0]) * self.turn
        return float(kappa.real), float(kappa.imag)

    @property
    def off_plane(self) -> float:
        """The mean distance of Re z2 from the constraint, as a share of the size of Re z2 (root mean squares)."""
        a, b = self.plane
        p = self.points
        rest = p[:, 2] - a * p[:, 0] - b * p[:, 1]
        return float(np.sqrt((rest**2).mean() / max(float((p[:, 2] ** 2).mean()), 1e-300)))


def transformed(
    model: Model, graph: Graph, *, run: str, form: str, entity: int | None = None, coordinate: int | None = None
) -> TransformedEntity:
    """An entity (by default the one with most facts) in a coordinate (by default where it is moved most).

    `explained` is the share of the variance of Re z2 that Re z1 and Im z1 explain over all *entities*, averaged over
    the relations.
    """
    half = model.rank // 2
    if not isinstance(model.form, ComplEx):
        raise UsageError(f"{run} has the form {model.form.family}. This figure needs ComplEx or one of its tied forms.")
    if coordinate is not None and not 0 <= coordinate < half:
        raise UsageError(
            f"Coordinate {coordinate} is out of range. Choose i from 0 to {half - 1}; its partner is i + {half}."
        )
    e = int(graph.degrees().argmax()) if entity is None else entity
    with torch.no_grad():
        slots = model.form.unfold(model.relations.double().cpu())
        heads = model.form.head(model.entities.all_rows().double().cpu())
    x = heads.re.numpy() + 1j * heads.im.numpy()
    a = np.concatenate([slots[name].re.numpy() + 1j * slots[name].im.numpy() for name in ("a1", "a2")], axis=1)
    size = np.sqrt((np.abs(a * x[e]) ** 2).mean(axis=0))
    i = int(np.argmax(size[:half] * size[half:])) if coordinate is None else coordinate
    names = graph.relations
    labels = [names.label(r) for r in range(graph.n_relations)]
    return TransformedEntity(
        run=run,
        form=form,
        entity=graph.entities.label(e),
        coordinate=i,
        partner=i + half,
        x=(complex(x[e, i]), complex(x[e, i + half])),
        z=(a * x[e])[:, [i, i + half]],
        relations=(*labels, *(f"{name}, reversed" for name in labels)),
        explained=float(np.mean([_explained(row[i] * x[:, i], row[i + half] * x[:, i + half]) for row in a])),
    )


def _explained(first: Complexes, second: Complexes) -> float:
    """R² of Re second on Re first, Im first and a constant."""
    table = np.stack([first.real, first.imag, np.ones(len(first))], axis=1)
    found, *_ = np.linalg.lstsq(table, second.real, rcond=None)
    spread = second.real - second.real.mean()
    rest = second.real - table @ found
    return 1 - float((rest**2).sum() / max(float((spread**2).sum()), 1e-300))
