"""Draw what was measured: python -m scripts.draw_bench

Reads the newest bench/results/train_* and growth_* of every machine and writes docs/images/speed.svg and growth.svg.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.compare.results import latest, read
from scripts.script_words import parser

from conjoin.runtime.plotting import FAINT, INK, panels, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ROOT = Path(__file__).resolve().parents[1]
RESULTS, IMAGES = ROOT / "bench" / "results", ROOT / "docs" / "images"
BARS = {
    "seconds_per_epoch": ("Conjoin", "#a23b00"),
    "plain_seconds": ("plain PyTorch", "#3d9bd6"),
    "wide_seconds": ("plain, published widths", "#00507d"),
    "pykeen_seconds": ("PyKEEN", "#19a67c"),
}
MACHINES = ("#a23b00", "#00507d", "#00664a")
TITLES = {"h200": "one NVIDIA H200", "2cores": "two CPU cores"}


def results(theme: str) -> list[dict[str, Any]]:
    """The newest results of every machine, cards before cores."""
    names = {match[1] for path in RESULTS.glob(f"{theme}_*.json") if (match := re.match(r"([^_]+_[^_]+)_", path.name))}
    found = [read(path) for name in names if (path := latest(RESULTS, name))]
    return sorted(found, key=lambda told: (told["hardware"].endswith("cores"), told["hardware"]))


def speed(measured: Sequence[dict[str, Any]]) -> Figure:
    """Seconds per epoch as bars on a logarithmic axis, a panel per machine; a line shows the floor."""
    most = max(len(told["cells"]) for told in measured)
    figure, axes = panels(len(measured), columns=2, width=3.0, height=0.42 * most, left=1.75, top=0.55)
    for ax, told in zip(axes, measured, strict=True):
        _bars(ax, told)
        ax.set_title(f"Seconds per epoch, {TITLES.get(told['hardware'], told['hardware'])}", x=-0.5)
    shown = [entry for ax in axes for entry in zip(*ax.get_legend_handles_labels(), strict=True)]
    named = {name: handle for handle, name in shown}
    figure.legend(named.values(), named.keys(), loc="lower center", ncols=len(named), frameon=False, fontsize=7)
    return figure


def _bars(ax: Axes, told: dict[str, Any]) -> None:
    cells = told["cells"]
    shown = [key for key in BARS if any(cell.get(key) for cell in cells)]
    thick = 0.8 / len(shown)
    for place, key in enumerate(shown):
        points = [(y, cell[key]) for y, cell in enumerate(cells) if cell.get(key)]
        name, colour = BARS[key]
        where = [y - 0.4 + thick * (place + 0.5) for y, _ in points]
        ax.barh(where, [seconds for _, seconds in points], height=0.9 * thick, color=colour, label=name)
    for y, cell in enumerate(cells):
        label = "floor" if y == 0 else None
        ax.plot([cell["floor_seconds"]] * 2, [y - 0.42, y + 0.42], color=INK, linewidth=1, label=label)
    ax.set_xscale("log")
    ax.set_ylim(len(cells) - 0.5, -0.5)
    ax.set_yticks(
        range(len(cells)),
        [f"{c['dataset']} {c['form']}\nrank {c['rank']}, batch {c['batch']}, {c['precision']}" for c in cells],
    )
    ax.tick_params(axis="y", length=0, labelsize=7)
    ax.grid(axis="x", color=FAINT, alpha=0.3, linewidth=0.5)
    ax.set_axisbelow(True)


def growth(measured: Sequence[dict[str, Any]]) -> Figure:
    """Milliseconds and memory of a step against entities, rank and batch, both axes logarithmic."""
    figure, axes = panels(6, columns=3, width=2.1, height=1.6)
    for told, colour in zip(measured, MACHINES, strict=False):
        for column, moves in enumerate(("entities", "rank", "batch")):
            line = [cell for cell in told["cells"] if cell["moves"] == moves]
            sizes = [cell[moves] for cell in line]
            label = TITLES.get(told["hardware"], told["hardware"])
            axes[column].plot(sizes, [1000 * c["seconds"] for c in line], "o-", color=colour, markersize=3, label=label)
            axes[3 + column].plot(sizes, [c["peak_bytes"] / 2**30 for c in line], "o-", color=colour, markersize=3)
            if told["hardware"] == measured[0]["hardware"]:
                fixed = ", ".join(f"{n} {line[0][n]:,}" for n in ("entities", "rank", "batch") if n != moves)
                axes[column].set_title(fixed if len(measured) == 1 else f"against {moves}", fontsize=8)
                axes[3 + column].set_xlabel(moves)
    for ax in axes:
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.grid(color=FAINT, alpha=0.3, linewidth=0.5)
    axes[0].set_ylabel("milliseconds per step")
    axes[3].set_ylabel("peak memory, GiB")
    axes[0].legend(frameon=False, fontsize=7)
    return figure


def save(figure: Figure, name: str) -> None:
    """On white, so that it reads on dark pages too; the same bytes for the same numbers."""
    figure.savefig(IMAGES / name, format="svg", facecolor="white", metadata={"Date": None})


def main() -> None:
    """Both pictures, where there is something to draw."""
    with styled():
        for theme, draw, name in (("train", speed, "speed.svg"), ("growth", growth, "growth.svg")):
            if measured := results(theme):
                save(draw(measured), name)


if __name__ == "__main__":
    parser(__doc__).parse_args()
    main()
