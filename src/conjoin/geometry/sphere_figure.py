"""Spheres on paper. Orthographic: what lies on a sphere is hidden exactly where it turns away. matplotlib on demand."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import numpy as np

from conjoin.errors import UsageError
from conjoin.geometry.mobius import Reals, to_sphere
from conjoin.geometry.scene import Scene
from conjoin.runtime.atomic_files import replacing
from conjoin.runtime.plotting import FAINT, INK, label, panels, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLUE, GREEN, RED = "#0077bb", "#009988", "#cc3311"
"""Paul Tol's vibrant blue, teal and red: told apart with every kind of colour vision."""
WAY = "#aab1b9"
FORMATS = ("png", "svg", "pdf", "html")
DOTS = 220
"""Dots per inch of a PNG."""
TURNED, RAISED = 10.0, -8.0
"""Degrees by which the camera stands right of what it looks at, and above the equator: below, because trained entities
are mostly smaller than 1 and lie south."""
PALEST = 0.6
"""How far the last iterate is mixed with white."""
BEHIND = 0.25
"""The opacity of curves on the far side."""
CLOSE = 0.11
"""The least distance between two numbers; closer ones are left out."""
LINE = 0.13
"""Inches from one line above a sphere to the next."""
WIDE = 52
"""Characters that fit into such a line."""
MARKS = {
    "attracting": ("o", INK, "attracting fixed point"),
    "repelling": ("o", "#ffffff", "repelling fixed point"),
    "centre": ("D", INK, "fixed points (axis)"),
    "double": ("s", INK, "fixed point (double)"),
    "value": ("*", GREEN, "the one value"),
}


def camera(longitude: float, latitude: float) -> Reals:
    """Rows: right, up, towards the eye; angles in radians."""
    c, s = np.cos, np.sin
    eye = np.array([c(latitude) * c(longitude), c(latitude) * s(longitude), s(latitude)])
    right = np.array([-s(longitude), c(longitude), 0.0])
    return np.stack([right, np.cross(eye, right), eye])


def draw_spheres(scenes: Sequence[Scene]) -> Figure:
    """Scenes side by side, seen from the same side, with one legend below."""
    with styled():
        below = 0.62 if len(scenes) > 1 else 0.8
        lines = max(len(_subtitle(scene)) for scene in scenes)
        figure, axes = panels(
            len(scenes), columns=2, width=3.2, height=3.2, left=0.15, right=0.15, top=0.37 + LINE * lines, bottom=below
        )
        for ax, scene in zip(axes, scenes, strict=True):
            _sphere(ax, scene, lines=lines)
        _legend(figure, scenes)
    return figure


def written(figure: Figure, kind: str) -> bytes:
    """The figure in one format, the same bytes for the same content."""
    metadata: dict[str, Any] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {"Software": None}}
    stream = io.BytesIO()
    with styled():
        figure.savefig(stream, format=kind, dpi=DOTS, facecolor="#ffffff", metadata=metadata[kind])
    return stream.getvalue()


def files_for(out: Path) -> dict[str, Path]:
    """The files to write for `-o`, by format: one if the name has an ending, else one per format."""
    if out.name in ("", ".."):
        raise UsageError(f"{out} is a folder. Write to a file, such as {out / 'figure.png'}.")
    ending = out.suffix.lower().removeprefix(".")
    if ending in FORMATS:
        return {ending: out}
    if ending and ending.isalpha() and len(ending) <= 4:
        raise UsageError(f"{out} has an unknown ending. Use {', '.join(FORMATS)}, or no ending to write all formats.")
    return {kind: out.with_name(f"{out.name}.{kind}") for kind in FORMATS}


def write_figure(file: Path, content: bytes) -> None:
    """Write a file as a whole, with the folders that lead to it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with replacing(file) as aside:
        aside.write_bytes(content)


def _sphere(ax: Axes, scene: Scene, *, lines: int) -> None:
    from matplotlib.patches import Circle

    view = camera(scene.facing + np.radians(TURNED), np.radians(RAISED))
    ax.set_xlim(-1.12, 1.12)
    ax.set_ylim(-1.12, 1.12)
    ax.set_aspect("equal")
    ax.set_axis_off()
    ax.add_patch(Circle((0, 0), 1, facecolor="#f3f5f7", edgecolor=FAINT, linewidth=0.7, zorder=0))
    angle = np.linspace(0, 2 * np.pi, 181)
    equator = np.stack([np.cos(angle), np.sin(angle), np.zeros_like(angle)], axis=1)
    _line(ax, equator @ view.T, FAINT, 0.7)
    for pole, name in ((1.0, "∞"), (-1.0, "0")):
        x, y, near = view @ np.array([0, 0, pole])
        ax.plot(x, y, ".", color=FAINT, markersize=3, alpha=1 if near > 0 else 0.6, zorder=5)
        ax.annotate(name, (x, y), (0, 4 if pole > 0 else -4), textcoords="offset points", color=FAINT, ha="center",
                    va="bottom" if pole > 0 else "top", zorder=1)  # fmt: skip
    for way in scene.lines():
        _line(ax, way @ view.T, WAY, 0.5)
    numbers: list[tuple[float, float, str, str]] = []
    for sign, colour in ((-1, RED), (1, GREEN)):
        images = scene.images(sign)
        for n, image in reversed(list(enumerate(images, start=1))):
            shade = _mixed(colour, PALEST * (n - 1) / max(scene.iterates - 1, 1))
            dashed = scene.apart and n % 2 == 1
            _line(ax, image @ view.T, shade, 1.5, dashed=dashed)
            x, y, near = view @ to_sphere(scene.map.power(sign * n)(scene.place))
            size = float(np.linalg.norm(image - image[0], axis=1).max())
            if near > 0.15 and size > 0.16:
                numbers.append((x, y, f"{'−' if sign < 0 else ''}{n}", colour))
    blue = to_sphere(scene.curve) @ view.T
    _line(ax, blue, BLUE, 2.0)
    x, y, near = view @ to_sphere(scene.place)
    ax.plot(x, y, "o", color=BLUE, markersize=2.6, alpha=1 if near > 0 else BEHIND, zorder=7)
    _write_numbers(ax, [(x, y, "", BLUE), *sorted(numbers, key=lambda one: abs(int(one[2].replace("−", "-"))))])
    for place, role in scene.still:
        x, y, near = view @ place
        mark, face, _ = MARKS[role]
        size = {"*": 7.0, "D": 3.8}.get(mark, 4.6)
        ax.plot(x, y, mark, markersize=size, markerfacecolor=face, markeredgecolor=INK, markeredgewidth=0.9,
                alpha=1 if near >= -0.02 else 0.45, zorder=8, clip_on=False)  # fmt: skip
    ax.set_title(
        f"{label(scene.form)}   {panel_title(scene.relation)}, coordinate {scene.coordinate}",
        pad=4.5 + 72 * LINE * lines,
        loc="center",
    )
    under = "\n".join([*_subtitle(scene), *[""] * (lines - len(_subtitle(scene)))])
    ax.text(0.5, 1.005, under, transform=ax.transAxes, ha="center", va="bottom", color=FAINT, linespacing=1.1)


def _subtitle(scene: Scene) -> list[str]:
    """The description of the map, in lines that fit above a panel."""
    borrowed = ["the Möbius map of numbers trained in another reading"] if scene.borrowed else []
    return [*wrap(scene.words, WIDE), *borrowed]


def _line(ax: Axes, seen: Reals, colour: str, width: float, *, dashed: bool = False) -> None:
    """A curve on the sphere in the camera's axes. Its parts on the far side are drawn in a fainter colour."""
    front = seen[:, 2] >= 0
    for side, opacity, order in ((~front, BEHIND, 1.0), (front, 1.0, 4.0)):
        kept = side | np.roll(side, 1) | np.roll(side, -1) if side.any() else side
        points = np.where(kept[:, None], seen[:, :2], np.nan)
        style: Any = (0, (2.2, 1.2)) if dashed else "-"
        ax.plot(points[:, 0], points[:, 1], color=colour, linewidth=width, alpha=opacity, linestyle=style,
                zorder=order + width / 10, solid_capstyle="butt", dash_capstyle="butt")  # fmt: skip


def _write_numbers(ax: Axes, numbers: Sequence[tuple[float, float, str, str]]) -> None:
    """The numbers of iterates beside their circles. Low numbers come first; numbers without room are left out."""
    taken: list[tuple[float, float]] = []
    for x, y, text, colour in numbers:
        if all(np.hypot(x - a, y - b) > CLOSE for a, b in taken):
            taken.append((x, y))
            ax.text(x, y, text, color=_mixed(colour, -0.25), fontsize=6.5, ha="center", va="center", zorder=7)


def _legend(figure: Figure, scenes: Sequence[Scene]) -> None:
    from matplotlib.lines import Line2D

    entity, n = panel_title(scenes[0].entity), scenes[0].iterates
    if all(scene.entity == scenes[0].entity for scene in scenes):
        what = f"circle around {entity}"
    else:
        what = "circle around an entity"
    several = f"n = 1 … {n}" if n > 1 else "n = 1"
    handles = [
        Line2D([], [], color=BLUE, linewidth=2, label=what),
        Line2D([], [], color=GREEN, linewidth=1.5, label=rf"its images under $\vartheta^n$, {several}"),
        Line2D([], [], color=RED, linewidth=1.5, label=r"under $\vartheta^{-n}$"),
        Line2D([], [], color=WAY, linewidth=0.8, label=r"the flow $\vartheta^t$"),
    ]
    if any(scene.apart for scene in scenes):
        handles.append(Line2D([], [], color=INK, linewidth=1.2, linestyle=(0, (2.2, 1.2)), label="odd n"))
    for role in dict.fromkeys(role for scene in scenes for _, role in scene.still):
        mark, face, words = MARKS[role]
        handles.append(
            Line2D([], [], linestyle="", marker=mark, markersize=4.5, color=face, markeredgecolor=INK, label=words)
        )
    columns, size = (4, 7.5) if len(scenes) > 1 else (2, 7.0)
    figure.legend(handles=handles, loc="lower center", ncols=columns, frameon=False, fontsize=size, handlelength=1.8,
                  columnspacing=1.6, bbox_to_anchor=(0.5, 0.01))  # fmt: skip


def _mixed(colour: str, share: float) -> str:
    """A colour with a share of white, or of black where the share is negative."""
    from matplotlib.colors import to_hex, to_rgb

    other = np.ones(3) if share >= 0 else np.zeros(3)
    red, green, blue = ((1 - abs(share)) * np.array(to_rgb(colour)) + abs(share) * other).tolist()
    return str(to_hex((red, green, blue)))


def panel_title(name: str, most: int = 34) -> str:
    """A name that fits above a panel. Of a long name the end is kept, because it says most."""
    plain = name.replace("$", r"\$")
    return plain if len(plain) <= most else f"…{plain[-most + 1 :]}"
