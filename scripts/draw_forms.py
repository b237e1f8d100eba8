"""Draw docs/images/forms.svg from the named forms: which slots own numbers, and which are derived from them."""

from __future__ import annotations

from html import escape
from pathlib import Path

from scripts.script_words import parser

from conjoin.forms.notation import FORMS, SYMBOLS
from conjoin.forms.tied import TiedForm

TARGET = Path(__file__).parents[1] / "docs" / "images" / "forms.svg"
SHOWN = ("complex", "complex-conj", "5star", "5star-conj", "5star-neg", "5star-vert", "5star-horiz", "quate")
COLOURS = {"a": "#1f6feb", "a1": "#1f6feb", "b": "#d29922", "a2": "#d29922", "c": "#2da44e", "d": "#bf3989"}
CELL, GAP, TOP, WIDTH = 54, 6, 74, 170


def main() -> None:
    """Write the picture."""
    shown = [(name, form) for name in SHOWN if isinstance(form := FORMS[name], TiedForm)]
    parts = [_form(name, form, place) for place, (name, form) in enumerate(shown)]
    columns = 4
    height = 28 + (TOP + 2 * CELL + 46) * -(-len(SHOWN) // columns)
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {columns * WIDTH + 20} {height}" '
        'font-family="Helvetica, Arial, sans-serif" role="img" aria-label="Stored and derived slots of each form">\n'
        f'<rect width="100%" height="100%" fill="#ffffff"/>\n{"".join(parts)}'
        f'<text x="20" y="{height - 10}" font-size="12" fill="#57606a">At rank 500. Filled: owns numbers. '
        "Outlined: derived from the slot of its colour, owns none.</text>\n</svg>\n"
    )
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    TARGET.write_text(svg, encoding="utf-8")


def _form(name: str, form: TiedForm, place: int) -> str:
    left, top = 20 + place % 4 * WIDTH, 14 + place // 4 * (TOP + 2 * CELL + 40)
    lines = [
        f'<text x="{left}" y="{top + 16}" font-size="16" font-weight="bold" fill="#1f2328">{SYMBOLS[name]}</text>\n',
        f'<text x="{left}" y="{top + 34}" font-size="12" fill="#57606a">{name}</text>\n',
        f'<text x="{left}" y="{top + 50}" font-size="12" fill="#57606a">'
        f"{form.relation_width(500):,} reals per relation</text>\n",
    ]
    for number, slot in enumerate(form.SLOTS):
        lines.append(_slot(form, slot, left + number % 2 * (CELL + GAP), top + 62 + number // 2 * (CELL + GAP)))
    return "".join(lines)


def _slot(form: TiedForm, slot: str, x: int, y: int) -> str:
    tie = form.ties.get(slot)
    colour = COLOURS[slot if tie is None or tie.slot is None else tie.slot]
    fill, ink = (colour, "#ffffff") if tie is None else ("#ffffff", colour)
    words = slot if tie is None else str(tie)
    return (
        f'<rect x="{x}" y="{y}" width="{CELL}" height="{CELL}" rx="8" fill="{fill}" stroke="{colour}" '
        f'stroke-width="2"/>\n<text x="{x + CELL / 2}" y="{y + CELL / 2 + 5}" font-size="{17 if tie is None else 12}" '
        f'text-anchor="middle" fill="{ink}">{escape(words)}</text>\n'
    )


if __name__ == "__main__":
    parser(__doc__).parse_args()
    main()
