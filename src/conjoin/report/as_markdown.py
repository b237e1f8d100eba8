"""Writes a report in GitHub's Markdown."""

from __future__ import annotations

from collections.abc import Iterable

from conjoin.report.document import CODE, Document, Entry, Figure, ReportTable
from conjoin.runtime.plotting import SUBSCRIPT

_RULES = {"left": ":---", "right": "---:", "words": ":---"}
_ESCAPED = str.maketrans({char: f"\\{char}" for char in "\\|*<>[]"})


def markdown(document: Document, *, figures: str) -> str:
    """The whole report. Plots are files in the folder `figures`."""
    parts = [f"# {_text(document.title)}", *map(_paragraph, document.words)]
    for section in document.sections:
        parts += [f"## {_text(section.title)}", *map(_paragraph, section.words)]
        parts += [_figure(figure, figures) for figure in section.figures]
        parts += [_table(table) for table in section.tables]
    return "\n\n".join(parts) + "\n"


def _figure(figure: Figure, folder: str) -> str:
    return f"**{_text(figure.title)}**\n\n![{_text(figure.words)}]({folder}/{figure.name}.svg)"


def _table(table: ReportTable) -> str:
    lines = [
        _line(_text(column.title) for column in table.columns),
        _line(_RULES[column.align] for column in table.columns),
        *(_line(map(_entry, row)) for row in table.rows),
    ]
    return "\n\n".join([f"**{_text(table.title)}**", "\n".join(lines), *map(_paragraph, table.notes)])


def _line(texts: Iterable[str]) -> str:
    return f"| {' | '.join(texts)} |"


def _entry(entry: Entry) -> str:
    text = _text(entry.text)
    text = f"**{text}**" if entry.bold else text
    text = f"*{text}*" if entry.italic else text
    return f"{text}<br><sub>{_text(entry.note)}</sub>" if entry.note else text


def _paragraph(words: str) -> str:
    """A paragraph; text between backticks is not escaped."""
    return "".join(f"`{part}`" if odd % 2 else _text(part) for odd, part in enumerate(CODE.split(words)))


def _text(text: str) -> str:
    return SUBSCRIPT.sub(r"<sub>\1</sub>", text.translate(_ESCAPED))
