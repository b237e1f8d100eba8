"""Draws the tests by pattern: a panel per tied form, a line per group of questions, a mark per dataset."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from conjoin.graph.patterns.detect import CARDINALITIES
from conjoin.graph.patterns.report import NONE, PATTERNS
from conjoin.report.document import Figure
from conjoin.report.figure_style import finish
from conjoin.report.pattern_effects import EVERYTHING
from conjoin.report.pattern_text import FormEffect, named
from conjoin.runtime.plotting import FAINT, INK, label, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MARKS = (("o", "#3d9bd6"), ("s", "#ec7a21"), ("D", "#19a67c"), ("^", "#c15a9b"), ("v", "#8a8f20"), ("P", "#7a7f87"))
"""Shape and colour per dataset; the brightness is medium, so that marks are visible on light and dark pages."""
STRAIGHT = 0.01
"""The axis is linear up to this difference and logarithmic beyond."""
TICKS = {-1.0: "−1", -0.1: "−.1", -0.01: "−.01", 0.0: "0", 0.01: "+.01", 0.1: "+.1"}
LINE, WIDTH, LEFT, GAP, TOP, BOTTOM = 0.34, 1.38, 1.05, 0.14, 0.6, 0.5


@styled()
def plot_pattern_effects(effects: Sequence[FormEffect]) -> tuple[Figure, ...]:
    """Plot differences of MRR (tied − original) with intervals; filled marks are decided after Holm's correction."""
    from matplotlib.figure import Figure as Drawing
    from matplotlib.lines import Line2D

    if not effects:
        return ()
    groups = _groups(effects)
    datasets = list(dict.fromkeys(test.dataset for effect in effects for test in effect.tests))
    width = WIDTH if len(effects) > 1 else 2 * WIDTH + GAP
    across = LEFT + len(effects) * (width + GAP) + 0.1
    down = TOP + LINE * len(groups) + BOTTOM
    figure = Drawing(figsize=(across, down))
    for place, effect in enumerate(effects):
        left = (LEFT + place * (width + GAP)) / across
        ax = figure.add_axes((left, BOTTOM / down, width / across, LINE * len(groups) / down))
        _panel(ax, effect, groups, datasets)
        if place == 0:
            ax.set_yticks(range(len(groups)), [named(group) for group in groups])
        else:
            ax.set_yticks([])
    handles = [
        Line2D([], [], marker=MARKS[n % len(MARKS)][0], color=MARKS[n % len(MARKS)][1], linestyle="", markersize=5)
        for n in range(len(datasets))
    ]
    figure.legend(handles, datasets, loc="upper left", ncols=len(datasets), frameon=False, handletextpad=0.2)
    figure.text(1 - 0.1 / across, 1 - 0.2 / down, "open mark: not decided", ha="right", va="baseline", color=FAINT)
    figure.text(
        (LEFT + len(effects) * (width + GAP) / 2) / across,
        0.08 / down,
        "test MRR, tied less original (logarithmic beyond ±.01)",
        ha="center",
    )
    title = "Where tied forms gain and lose, by pattern and cardinality of the relation"
    words = "Differences of test MRR between tied forms and their originals, by relation pattern and dataset"
    return (finish(figure, "pattern-effects", title, words),)


def _groups(effects: Sequence[FormEffect]) -> list[str]:
    tested = {test.group for effect in effects for test in effect.tests}
    return [name for name in (EVERYTHING, *PATTERNS, NONE, *CARDINALITIES) if name in tested]


def _panel(ax: Axes, effect: FormEffect, groups: Sequence[str], datasets: Sequence[str]) -> None:
    ax.set_xscale("symlog", linthresh=STRAIGHT, linscale=0.9)
    ax.axvline(0, color=FAINT, linewidth=0.8, zorder=1)
    for line in range(len(groups)):
        if line % 2:
            ax.axhspan(line - 0.5, line + 0.5, color=FAINT, alpha=0.09, linewidth=0, zorder=0)
    step = 0.78 / max(len(datasets), 1)
    for number, dataset in enumerate(datasets):
        shape, colour = MARKS[number % len(MARKS)]
        shift = step * (number - (len(datasets) - 1) / 2)
        mine = [(groups.index(test.group) + shift, test) for test in effect.tests if test.dataset == dataset]
        spans = [test.paired.interval for _, test in mine]
        ax.hlines(
            [y for y, _ in mine], [each.low for each in spans], [each.high for each in spans], colour, linewidth=1
        )
        for decided in (True, False):
            marks = [
                (t.paired.difference, y) for y, t in mine if (t.verdict(effect.alpha) != "not told apart") == decided
            ]
            if marks:
                face = colour if decided else "none"
                ax.plot(*zip(*marks, strict=True), shape, color=colour, markersize=3.4, mew=0.8, mfc=face, zorder=3)
    ends = [end for test in effect.tests for end in (test.paired.interval.low, test.paired.interval.high)]
    ax.set_xlim(min(-0.1, *ends) * 1.3, max(0.03, *ends) * 1.3)
    low, high = ax.get_xlim()
    ax.set_xticks([tick for tick in TICKS if low <= tick <= high], [t for v, t in TICKS.items() if low <= v <= high])
    ax.minorticks_off()
    ax.set_ylim(len(groups) - 0.5, -0.5)
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)
    ax.axhline(0.5, color=INK, linewidth=0.6)
    if effect.cardinalities:
        ax.axhline(len(groups) - len(effect.cardinalities) - 0.5, color=INK, linewidth=0.6)
    ax.set_title(label(f"{effect.tied} − {effect.original}"), fontsize=8.5)
