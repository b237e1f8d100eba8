"""Colours and line styles by form, and figures as SVG."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING

from conjoin.report.document import Figure
from conjoin.runtime.plotting import INK
from conjoin.studies.spec import Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing


FAMILIES = {"complex": ("#00507d", "#3d9bd6"), "5star": ("#a23b00", "#ec7a21"), "fivestar": ("#a23b00", "#ec7a21")}
OTHERS = ("#00664a", "#19a67c")
"""Colours by family after Okabe and Ito: dark for untied forms, light for tied ones."""
_OF_THE_PAGE = {
    INK: "currentColor",
    **{dark: f"var(--dark-{number}, {dark})" for number, dark in enumerate(("#00507d", "#a23b00", "#00664a"))},
}
"""In SVG, text takes the page's colour and pages may replace the dark shades, for light and dark pages."""
UNTIED = ("complex", "5star", "5star-halfreg", "pair")
_METADATA = re.compile(r"\s*<metadata>.*?</metadata>", re.DOTALL)


def finish(figure: Drawing, name: str, title: str, words: str) -> Figure:
    """The figure as SVG and PDF; equal content gives equal bytes."""
    written: dict[str, bytes] = {}
    for kind, metadata in (("svg", {"Date": None}), ("pdf", {"CreationDate": None})):
        stream = io.BytesIO()
        figure.savefig(stream, format=kind, transparent=True, metadata=metadata)
        written[kind] = stream.getvalue()
    drawn = _METADATA.sub("", written["svg"].decode())
    for colour, words_for_it in _OF_THE_PAGE.items():
        drawn = drawn.replace(colour, words_for_it)
    width = float(figure.get_size_inches()[0])
    return Figure(name=name, title=title, words=words, inches=width, svg=drawn, pdf=written["pdf"])


def style_of(row: Row) -> tuple[str, str, float]:
    """Colour by family and tying, solid lines for the main rows, dashed and thinner ones for others."""
    form = row.form.casefold()
    shades = next((pair for family, pair in FAMILIES.items() if form.startswith(family)), OTHERS)
    colour = shades[0] if form in UNTIED else shades[1]
    return (colour, "-", 1.4) if row.group == "main" else (colour, "--", 0.9)
