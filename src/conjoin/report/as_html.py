"""Writes a report as one self-contained HTML page, for light and dark, wide and narrow screens."""

from __future__ import annotations

import re
from html import escape
from importlib import resources

from conjoin.report.document import CODE, Document, Entry, Figure, ReportTable, Section
from conjoin.runtime.plotting import SUBSCRIPT

_ID = re.compile(r'(\bid="|href="#|url\(#)')


def html(document: Document) -> str:
    """The whole page."""
    style = resources.files("conjoin.report").joinpath("report.css").read_text(encoding="utf-8")
    titles = [section.title for section in document.sections]
    links = "".join(f'<a href="#{_anchor(title)}">{_text(title)}</a>\n' for title in titles)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(document.title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n"
        f"<h1>{_text(document.title)}</h1>\n{_paragraphs(document.words)}<nav>\n{links}</nav>\n<main>\n"
        + "".join(map(_section, document.sections))
        + "</main>\n</body>\n</html>\n"
    )


def _section(section: Section) -> str:
    inside = "".join([*map(_figure, section.figures), *map(_table, section.tables)])
    title = f'<h2 id="{_anchor(section.title)}">{_text(section.title)}</h2>'
    return f"<section>\n{title}\n{_paragraphs(section.words)}{inside}</section>\n"


def _figure(figure: Figure) -> str:
    """A plot as HTML. Its ids get the plot's name as a prefix, because a page contains several plots."""
    drawing = _ID.sub(rf"\g<1>{figure.name}-", figure.svg[figure.svg.index("<svg") :])
    drawing = drawing.replace("<svg ", f'<svg role="img" aria-label="{escape(figure.words)}" ', 1)
    return f'<figure>\n<figcaption>{_text(figure.title)}</figcaption>\n<div class="scroll">{drawing}</div>\n</figure>\n'


def _table(table: ReportTable) -> str:
    heads = "".join(f'<th scope="col" class="{column.align}">{_text(column.title)}</th>' for column in table.columns)
    aligns = [column.align for column in table.columns]
    rows = "".join(f"<tr>{''.join(map(_entry, row, aligns, range(len(row))))}</tr>\n" for row in table.rows)
    notes = "".join(f'<p class="note">{_paragraph(note)}</p>\n' for note in table.notes)
    return (
        f'<figure>\n<figcaption>{_text(table.title)}</figcaption>\n<div class="scroll"><table>\n'
        f"<thead><tr>{heads}</tr></thead>\n<tbody>\n{rows}</tbody>\n</table></div>\n{notes}</figure>\n"
    )


def _entry(entry: Entry, align: str, place: int) -> str:
    text = _text(entry.text)
    text = f"<strong>{text}</strong>" if entry.bold else text
    text = f"<em>{text}</em>" if entry.italic else text
    text += f"<small>{_text(entry.note)}</small>" if entry.note else ""
    return f'<td class="{align}">{text}</td>' if place else f'<th scope="row" class="{align}">{text}</th>'


def _paragraphs(words: tuple[str, ...]) -> str:
    return "".join(f"<p>{_paragraph(each)}</p>\n" for each in words)


def _paragraph(words: str) -> str:
    parts = CODE.split(words)
    return "".join(f"<code>{escape(part)}</code>" if odd % 2 else _text(part) for odd, part in enumerate(parts))


def _text(text: str) -> str:
    return SUBSCRIPT.sub(r"<sub>\1</sub>", escape(text))


def _anchor(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.casefold()).strip("-")
