"""matplotlib style, panels and labels."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from conjoin.errors import NotInstalled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing


INK = "#1c1e21"
FAINT = "#80868d"
_MARKS = {"∇": r"$_\nabla$", "◇": "◇"}
_STYLE: Any = {
    "font.size": 8,
    "axes.titlesize": 9,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.labelsize": 8,
    "axes.edgecolor": FAINT,
    "axes.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.major.width": 0.7,
    "ytick.major.width": 0.7,
    "xtick.major.size": 3,
    "ytick.major.size": 3,
    "lines.dashed_pattern": (3, 1.5),
    "svg.hashsalt": "conjoin",
    "svg.fonttype": "path",
    "pdf.fonttype": 42,
}


SUBSCRIPT = re.compile(r"(?<=5★[εE])_?([a-z∇◇])(?![a-z])")
"""The paper's marks on 5★ models: 5★ε_n, 5★E_r, 5★ε∇."""


@contextmanager
def styled() -> Iterator[None]:
    """Within this context, matplotlib uses the style of all reports."""
    try:
        from matplotlib import rc_context
    except ImportError as error:
        raise NotInstalled("matplotlib", "plot", "plotting") from error
    with rc_context(_STYLE):
        yield


def panels(
    n: int,
    *,
    columns: int,
    width: float,
    height: float,
    left: float = 0.65,
    right: float = 0.2,
    top: float = 0.35,
    bottom: float = 0.5,
) -> tuple[Drawing, list[Axes]]:
    """A figure with n panels; all sizes are inches, of each panel and of the margins around it."""
    from matplotlib.figure import Figure as Drawing

    columns = min(n, columns)
    across, down = left + width + right, top + height + bottom
    lines = -(-n // columns)
    figure = Drawing(figsize=(columns * across, lines * down))
    axes = [
        figure.add_axes(
            (
                (i % columns * across + left) / (columns * across),
                1 - (i // columns * down + top + height) / (lines * down),
                width / (columns * across),
                height / (lines * down),
            )
        )
        for i in range(n)
    ]
    return figure, axes


def inches(ax: Axes) -> tuple[float, float]:
    """Width and height of a panel."""
    figure = ax.get_figure(root=True)
    box = ax.get_position()
    across, down = figure.get_size_inches() if figure else (1.0, 1.0)
    return float(box.width * across), float(box.height * down)


def label(text: str) -> str:
    """The name of a row with the paper's subscripts, in matplotlib's notation."""
    plain = text.replace("$", r"\$")
    return SUBSCRIPT.sub(lambda mark: _MARKS.get(mark[1], f"$_{mark[1]}$"), plain)


def apart(wanted: Sequence[float], gap: float, *, low: float, high: float) -> list[float]:
    """Positions at least `gap` apart and as near as possible to `wanted` (least squares), within the bounds.

    Isotonic regression: positions that are too close are pooled around their common mean.
    """
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    pools: list[list[float]] = []
    for step, i in enumerate(order):
        pools.append([wanted[i] - step * gap])
        while len(pools) > 1 and _mean(pools[-2]) > _mean(pools[-1]):
            last = pools.pop()
            pools[-1] += last
    flat = [_mean(pool) for pool in pools for _ in pool]
    spread = [value + step * gap for step, value in enumerate(flat)]
    if spread and spread[-1] > high:
        spread = [min(value, high - (len(spread) - 1 - step) * gap) for step, value in enumerate(spread)]
    if spread and spread[0] < low:
        spread = [max(value, low + step * gap) for step, value in enumerate(spread)]
    placed = [0.0] * len(wanted)
    for i, value in zip(order, spread, strict=True):
        placed[i] = value
    return placed


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
