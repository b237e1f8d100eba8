"""One entity under all relations, in a box, with the plane that a tie confines it to. matplotlib on demand."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from conjoin.geometry.mobius import Reals
from conjoin.geometry.sphere_figure import BLUE, RED, camera, panel_title
from conjoin.geometry.tie_plane import TransformedEntity
from conjoin.runtime.plotting import FAINT, INK, label, panels, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LONGITUDE, LATITUDE = np.radians(-58), np.radians(22)
ON_IT = 1e-6
"""The largest distance from the plane, relative to the box, of a point that counts as on it."""


def draw_planes(shown: Sequence[TransformedEntity]) -> Figure:
    """Clouds side by side in boxes of one scale, each with its plane."""
    reach = 1.05 * max(float(np.abs(each.points).max()) for each in shown)
    with styled():
        figure, axes = panels(len(shown), columns=2, width=3.2, height=3.0, left=0.15, right=0.15, top=0.5, bottom=0.62)
        for ax, each in zip(axes, shown, strict=True):
            _box(ax, each, reach)
        _legend(figure, shown)
    return figure


def _box(ax: Axes, each: TransformedEntity, reach: float) -> None:
    from matplotlib.patches import Polygon

    view = camera(LONGITUDE, LATITUDE)
    points, (a, b) = each.points / reach, each.plane
    ax.set_xlim(-1.75, 1.75)
    ax.set_ylim(-1.72, 1.6)
    ax.set_aspect("equal")
    ax.set_axis_off()
    _frame(ax, view, each, reach)
    corners = cut(a, b) @ view.T
    ax.add_patch(Polygon(corners[:, :2], facecolor=BLUE, edgecolor=BLUE, alpha=0.22, linewidth=0, zorder=3))
    ax.add_patch(Polygon(corners[:, :2], fill=False, edgecolor=BLUE, linewidth=0.9, zorder=3))
    feet = points.copy()
    feet[:, 2] = a * points[:, 0] + b * points[:, 1]
    off = points[:, 2] - feet[:, 2]
    seen, landed = points @ view.T, feet @ view.T
    normal = view @ np.array([-a, -b, 1.0])
    hidden = off * normal[2] < -ON_IT
    for k in range(len(points)):
        inside = abs(feet[k, 2]) <= 1
        if abs(off[k]) > ON_IT and inside:
            ax.plot(
                [seen[k, 0], landed[k, 0]], [seen[k, 1], landed[k, 1]], color=RED, linewidth=0.6,
                zorder=2 if hidden[k] else 4, alpha=0.8,
            )  # fmt: skip
    for side, order, face in ((hidden, 2, "#7d838a"), (~hidden, 5, INK)):
        ax.plot(seen[side, 0], seen[side, 1], "o", color=face, markersize=2.6, markeredgewidth=0, zorder=order)
    away = each.off_plane
    words = "on the plane" if away < ON_IT else f"off the plane by {100 * away:.0f} % of Re $z_{{{each.partner}}}$"
    ax.set_title(f"{label(each.form)}   {panel_title(each.entity)}", pad=14, loc="center")
    words = f"{len(points)} relations, {words}"
    ax.text(0.5, 1.005, words, transform=ax.transAxes, ha="center", va="bottom", color=FAINT)


def _frame(ax: Axes, view: Reals, each: TransformedEntity, reach: float) -> None:
    """The box with the names of its three axes. Edges behind the points are drawn in a fainter colour."""
    corners = np.array(list(itertools.product((-1, 1), repeat=3)), dtype=float)
    farthest = corners[np.argmin((corners @ view.T)[:, 2])]
    for p, q in itertools.combinations(corners, 2):
        if np.abs(p - q).sum() == 2:
            behind = bool((p == farthest).all() or (q == farthest).all())
            nearest = bool((p == -farthest).all() or (q == -farthest).all())
            if nearest:
                continue
            line = np.stack([p, q]) @ view.T
            ax.plot(line[:, 0], line[:, 1], color=FAINT, linewidth=0.45 if behind else 0.7, zorder=1,
                    linestyle=(0, (2, 2)) if behind else "-")  # fmt: skip
    i, j = each.coordinate, each.partner
    names = (rf"Re $z_{{{i}}}$", rf"Im $z_{{{i}}}$", rf"Re $z_{{{j}}}$")
    edges = (((-1, -1, -1), (1, -1, -1)), ((1, -1, -1), (1, 1, -1)), ((-1, -1, -1), (-1, -1, 1)))
    for name, (start, stop) in zip(names, edges, strict=True):
        ends = np.array([start, stop], dtype=float) @ view.T
        middle = ends.mean(axis=0)[:2]
        out = middle / np.linalg.norm(middle)
        x, y = middle + 0.22 * out
        angle = float(np.degrees(np.arctan2(*(ends[1] - ends[0])[[1, 0]])))
        ax.text(float(x), float(y), name, ha="center", va="center", rotation=angle if abs(angle) < 60 else 90,
                rotation_mode="anchor")  # fmt: skip
        for end, value in zip(ends, (-reach, reach), strict=True):
            place = end[:2] + 0.12 * out + 0.07 * (middle - end[:2])
            ax.text(
                float(place[0]),
                float(place[1]),
                f"{value:.2g}".replace("-", "−"),
                ha="center",
                va="center",
                color=FAINT,
                fontsize=6,
            )


def cut(a: float, b: float) -> Reals:
    """The polygon that the plane z = a x + b y cuts out of the box [-1, 1]³, its corners in order, (n, 3)."""
    found = []
    for x, y in itertools.product((-1.0, 1.0), repeat=2):
        if abs(a * x + b * y) <= 1:
            found.append((x, y, a * x + b * y))
    for z, side in itertools.product((-1.0, 1.0), repeat=2):
        if b and abs((z - a * side) / b) <= 1:
            found.append((side, (z - a * side) / b, z))
        if a and abs((z - b * side) / a) <= 1:
            found.append(((z - b * side) / a, side, z))
    corners = np.array(found)
    first, second = np.array([1, 0, a]), np.cross([-a, -b, 1], [1, 0, a])
    turn = np.arctan2(corners @ second / np.linalg.norm(second), corners @ first / np.linalg.norm(first))
    return np.asarray(corners[np.argsort(turn)])


def _legend(figure: Figure, shown: Sequence[TransformedEntity]) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles = [
        Line2D([], [], linestyle="", marker="o", markersize=3.5, color=INK, label="the entity, moved by one relation"),
        Patch(facecolor=BLUE, alpha=0.35, label=r"the constraint Re $z_j = a$ Re $z_i + b$ Im $z_i$"),
    ]
    if any(each.off_plane >= ON_IT for each in shown):
        handles.append(Line2D([], [], color=RED, linewidth=0.8, label="distance from it"))
    figure.legend(handles=handles, loc="lower center", ncols=3, frameon=False, fontsize=7.5, bbox_to_anchor=(0.5, 0.02))
