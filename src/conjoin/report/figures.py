"""Draws the plots of a report: size against quality, p-values, time per epoch, learning curves.

Imports matplotlib only when drawing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from conjoin.report.best import competing
from conjoin.report.collect import Findings, RowResult
from conjoin.report.curves import FOLLOWED, history
from conjoin.report.document import Figure
from conjoin.report.figure_style import finish, style_of
from conjoin.report.formatting import seconds
from conjoin.report.significance import RunTest
from conjoin.report.stats import one_digit
from conjoin.report.tables import place
from conjoin.runtime.plotting import FAINT, INK, apart, inches, label, panels, styled
from conjoin.studies.spec import MEASURES

if TYPE_CHECKING:
    from matplotlib.axes import Axes

OFF_SCALE = {"frontier": 0.8, "curves": 0.5}
"""Models below this fraction of the best MRR are only named, because one failed model would flatten the others."""
CHARACTER = 0.058
"""Inches that a character of a name needs to the right of its point."""
LINE = 9.2 / 72
"""Inches from one name to the next."""
DARKEST = 1e-20
"""p-values up to this one have the darkest shade."""


@styled()
def frontier(findings: Findings) -> tuple[Figure, ...]:
    """Plot parameters against MRR, a panel per dataset; the line joins models that no smaller model beats."""
    chosen = [(name, outcomes) for name in findings.study.datasets if (outcomes := _ran(findings, name))]
    if not chosen:
        return ()
    figure, axes = panels(len(chosen), columns=2, width=3.6, height=2.7, right=1.75)
    largest = max(m.mean for _, outcomes in chosen for o in outcomes if (m := o.moments("parameters")))
    unit, word = (1e6, "million") if largest >= 1e6 else (1e3, "thousand")
    for ax, (name, outcomes) in zip(axes, chosen, strict=True):
        _frontier_panel(ax, outcomes, unit=unit)
        ax.set_title(place(findings, name))
        ax.set_xlabel(f"parameters ({word})")
    for ax in axes[::2]:
        ax.set_ylabel("test MRR")
    words = "Test MRR against the number of parameters of every model, per dataset"
    return (finish(figure, "frontier", "Size against quality; open marks are ablations and controls", words),)


@styled()
def times(findings: Findings) -> tuple[Figure, ...]:
    """Seconds per epoch as bars, a panel per dataset."""
    chosen = [
        (name, timed)
        for name in findings.study.datasets
        if (timed := [outcome for outcome in findings.on(name) if outcome.moments("seconds")])
    ]
    if not chosen:
        return ()
    most = max(len(timed) for _, timed in chosen)
    figure, axes = panels(len(chosen), columns=2, width=3.0, height=0.24 * most + 0.2, left=1.75, right=0.6)
    for ax, (name, timed) in zip(axes, chosen, strict=True):
        moments = [m for outcome in timed if (m := outcome.moments("seconds"))]
        for line, (outcome, value) in enumerate(zip(timed, moments, strict=True)):
            colour, _, _ = style_of(outcome.row)
            strength = 0.9 if outcome.row.group == "main" else 0.5
            ax.barh(line, value.mean, height=0.66, color=colour, alpha=strength, linewidth=0)
            if value.sd:
                ax.errorbar(value.mean, line, xerr=value.sd, color=INK, elinewidth=0.8, capsize=0)
            ax.annotate(
                seconds(value.mean),
                (value.mean + (value.sd or 0), line),
                (4, 0),
                textcoords="offset points",
                va="center",
            )
        ax.set_yticks(range(len(timed)), [label(outcome.row.label) for outcome in timed])
        ax.set_ylim(most - 0.4, -0.6)
        ax.set_xlim(0, 1.02 * max(value.mean + (value.sd or 0) for value in moments))
        ax.tick_params(axis="y", length=0)
        ax.spines["left"].set_visible(False)
        ax.set_title(place(findings, name))
        ax.set_xlabel("seconds per epoch")
    words = "Seconds per epoch of every model, per dataset, with standard deviations"
    return (finish(figure, "times", "Time per epoch; paler bars are ablations and controls", words),)


@styled()
def pvalues(findings: Findings, tests: Sequence[RunTest]) -> tuple[Figure, ...]:
    """Welch's p for every compared pair: a panel for time and one for MRR, a figure per dataset."""
    figures = []
    for name in findings.study.datasets:
        made = [test for test in tests if test.dataset == name and test.p is not None]
        if not made:
            continue
        rows = [outcome.row.name for outcome in competing(findings, name)]
        down = [row for row in rows if any(test.a.row.name == row and test.b.row.name in rows for test in made)]
        across = [row for row in rows if any(test.b.row.name == row and test.a.row.name in rows for test in made)]
        if not down:
            continue
        sides = {"width": 0.47 * len(across), "height": 0.42 * len(down)}
        figure, axes = panels(2, columns=2, **sides, left=0.95, right=0.45, top=0.85, bottom=0.1)
        for ax, measure in zip(axes, MEASURES, strict=True):
            _heat(ax, findings, [test for test in made if test.measure == measure], down, across)
            words = "time" if measure == "seconds" else "MRR"
            ax.text(-0.85, -1.45, words, fontsize=9, fontweight="bold", ha="right")
        title = (
            f"p-values on {place(findings, name)}: the darker, the surer that two models differ; grey: not told apart"
        )
        words = f"p-values of Welch's tests between models on {name}, by time and by MRR"
        figures.append(finish(figure, f"pvalues-{name}", title, words))
    return tuple(figures)


@styled()
def curves(findings: Findings) -> tuple[Figure, ...]:
    """Plot validation MRR by epoch, or the loss without validation: mean over seeds, a panel per dataset."""
    chosen = []
    for name in findings.study.datasets:
        for value in FOLLOWED:
            lines = ((o, [point[:2] for point in history(o, value)]) for o in findings.on(name))
            if drawn := [(o, line) for o, line in lines if line]:
                chosen.append((name, value, drawn))
                break
    if not chosen:
        return ()
    figure, axes = panels(len(chosen), columns=2, width=3.6, height=2.7, right=1.85)
    for ax, (name, value, drawn) in zip(axes, chosen, strict=True):
        floor = OFF_SCALE["curves"] * max(line[-1][1] for _, line in drawn) if value == "valid" else -math.inf
        for outcome, line in drawn:
            colour, dashes, width = style_of(outcome.row)
            ax.plot(*zip(*line, strict=True), color=colour, linestyle=dashes, linewidth=width, solid_capstyle="round")
        ax.set_xlim(left=0)
        if value == "loss":
            ax.set_yscale("log")
        elif any(level < floor for _, line in drawn for _, level in line):
            ax.set_ylim(bottom=floor)
        _name_points(ax, [(outcome, *line[-1]) for outcome, line in drawn if line[-1][1] >= floor], at_edge=True)
        _off_scale(ax, [(outcome, line[-1][1]) for outcome, line in drawn if line[-1][1] < floor])
        ax.set_title(place(findings, name))
        ax.set_xlabel("epoch")
        ax.set_ylabel("validation MRR" if value == "valid" else "training loss")
    words = "Validation MRR (or training loss) of every model by epoch, per dataset"
    return (finish(figure, "curves", "Mean over seeds by epoch; dashed are ablations and controls", words),)


def _frontier_panel(ax: Axes, outcomes: Sequence[RowResult], *, unit: float) -> None:
    points = [(o, p.mean / unit, m) for o in outcomes if (p := o.moments("parameters")) and (m := o.moments("mrr"))]
    floor = OFF_SCALE["frontier"] * max(m.mean for _, _, m in points)
    shown = [point for point in points if point[2].mean >= floor]
    for outcome, x, m in shown:
        colour, _, _ = style_of(outcome.row)
        face = colour if outcome.row.group == "main" else "none"
        ax.errorbar(x, m.mean, yerr=m.sd or 0, color=colour, elinewidth=0.9, capsize=0, zorder=3)
        ax.plot(x, m.mean, "o", markersize=5, color=colour, markerfacecolor=face, zorder=4)
    steps: list[tuple[float, float]] = []
    for _, x, m in sorted(shown, key=lambda point: (point[1], -point[2].mean)):
        if not steps or m.mean > steps[-1][1]:
            steps.append((x, m.mean))
    ax.set_xscale("log")
    _plain_log_ticks(ax, [x for _, x, _ in shown])
    ax.margins(x=0.12, y=0.12)
    if len(steps) > 1:
        ax.step(*zip(*steps, strict=True), where="post", color=FAINT, linewidth=3, alpha=0.25, zorder=1)
    _name_points(ax, [(outcome, x, m.mean) for outcome, x, m in shown], at_edge=False)
    _off_scale(ax, [(outcome, m.mean) for outcome, _, m in points if m.mean < floor])


def _off_scale(ax: Axes, below: Sequence[tuple[RowResult, float]]) -> None:
    """Name the models whose values are below the axis."""
    words = [f"{label(outcome.row.label)} {value:.3f}" for outcome, value in below]
    lines = [", ".join(words[start : start + 2]) for start in range(0, len(words), 2)]
    if lines:
        text = "\n".join(["off scale:", *lines])
        ax.text(0.98, 0.03, text, transform=ax.transAxes, ha="right", va="bottom", color=FAINT)


def _plain_log_ticks(ax: Axes, values: Sequence[float]) -> None:
    """Set round ticks (20, 50, 100) where they fit, otherwise evenly spaced ones."""
    from matplotlib.ticker import FixedLocator, MaxNLocator, NullFormatter, ScalarFormatter

    low, high = min(values), max(values)
    grid = [digit * 10.0**power for power in range(-4, 7) for digit in (1, 1.5, 2, 3, 5, 7)]
    ticks = [tick for tick in grid if low / 1.3 <= tick <= high * 1.3]
    few = low < high and sum(low <= tick <= high for tick in ticks) < 2
    ax.xaxis.set_major_locator(MaxNLocator(4) if few else FixedLocator(ticks))
    ax.xaxis.set_major_formatter(ScalarFormatter(useOffset=False))
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.tick_params(axis="x", which="minor", length=0)


def _name_points(ax: Axes, points: Sequence[tuple[RowResult, float, float]], *, at_edge: bool) -> None:
    """Write a name for each point, close to its height without overlap, joined to it by a thin line.

    Names are at the right edge of the panel, or to the right of a group of points that are too close for names between
    them.
    """
    ax.autoscale_view()
    width, height = inches(ax)
    to_axes = ax.transData + ax.transAxes.inverted()
    spots = [tuple(map(float, to_axes.transform((x, y)))) for _, x, y in points]
    groups: list[list[int]] = []
    for place_in in sorted(range(len(points)), key=lambda each: spots[each][0]):
        room = max((len(points[each][0].row.label) + 2 for group in groups[-1:] for each in group), default=0)
        if groups and (at_edge or spots[place_in][0] - spots[groups[-1][-1]][0] < room * CHARACTER / width):
            groups[-1].append(place_in)
        else:
            groups.append([place_in])
    for group in groups:
        column = (1.0 if at_edge else spots[group[-1]][0]) + 0.16 / width
        heights = apart([spots[each][1] for each in group], LINE / height, low=0.0, high=1.0)
        for each, level in zip(group, heights, strict=True):
            x, y = spots[each]
            colour, _, _ = style_of(points[each][0].row)
            corner = max(x, column - 0.12 / width)
            ax.plot(
                [x, corner, column - 0.03 / width],
                [y, level if corner > x else y, level],
                transform=ax.transAxes,
                color=FAINT,
                linewidth=0.4,
                clip_on=False,
                zorder=0,
            )
            ax.text(column, level, label(points[each][0].row.label), transform=ax.transAxes, va="center", color=colour)


def _heat(ax: Axes, findings: Findings, tests: Iterable[RunTest], down: Sequence[str], across: Sequence[str]) -> None:
    """Draw a shaded square with its p for every test; rows are the first models, columns the second."""
    from matplotlib import colormaps
    from matplotlib.patches import Rectangle

    shades = colormaps["Blues"]
    alpha = findings.study.alpha
    for test in tests:
        if test.p is None or test.a.row.name not in down or test.b.row.name not in across:
            continue
        x, y = across.index(test.b.row.name), down.index(test.a.row.name)
        depth = math.log(max(test.p, DARKEST) / alpha) / math.log(DARKEST / alpha)
        ground: Any = "#e4e6e9" if test.p >= alpha else shades(0.25 + 0.7 * depth)
        ax.add_patch(Rectangle((x - 0.47, y - 0.47), 0.94, 0.94, facecolor=ground, linewidth=0))
        ax.text(x, y, one_digit(test.p), ha="center", va="center", color="#ffffff" if depth > 0.4 else "#101214")
    ax.set_xlim(-0.5, len(across) - 0.5)
    ax.set_ylim(len(down) - 0.5, -0.5)
    rows = findings.study.rows
    heads = [label(rows[row].label) for row in across]
    ax.set_xticks(range(len(across)), heads, rotation=40, ha="left", rotation_mode="anchor")
    ax.set_yticks(range(len(down)), [label(rows[row].label) for row in down])
    ax.xaxis.tick_top()
    ax.tick_params(length=0, pad=2)
    for spine in ax.spines.values():
        spine.set_visible(False)


def _ran(findings: Findings, name: str) -> list[RowResult]:
    return [o for o in findings.on(name) if o.moments("mrr") and o.moments("parameters")]
