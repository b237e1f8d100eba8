"""A report as a value: sections with paragraphs, tables and figures. The `as_*` modules write it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Align = Literal["left", "right", "words"]
"""Alignment of a column; `words` marks long texts that may break over lines."""
CODE = re.compile(r"`([^`]*)`")


@dataclass(frozen=True)
class Entry:
    """One table cell. `note` is a smaller second line; `latex` replaces the text in LaTeX."""

    text: str = "-"
    bold: bool = False
    italic: bool = False
    note: str = ""
    latex: str = ""


@dataclass(frozen=True)
class TableColumn:
    title: str
    align: Align = "right"
    latex: str = ""


@dataclass(frozen=True, kw_only=True)
class ReportTable:
    """A title, columns, and rows with one entry per column; `notes` are paragraphs below the table."""

    title: str
    columns: tuple[TableColumn, ...]
    rows: tuple[tuple[Entry, ...], ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, eq=False)
class Figure:
    """A plot: `name` names its file, `words` is its text alternative, `inches` its width."""

    name: str
    title: str
    words: str
    inches: float
    svg: str
    pdf: bytes


@dataclass(frozen=True, kw_only=True, eq=False)
class Section:
    """A section; `words` are paragraphs in which `backticks` mark code."""

    title: str
    words: tuple[str, ...] = ()
    tables: tuple[ReportTable, ...] = ()
    figures: tuple[Figure, ...] = ()


@dataclass(frozen=True, kw_only=True, eq=False)
class Document:
    title: str
    words: tuple[str, ...]
    sections: tuple[Section, ...]

    @property
    def figures(self) -> tuple[Figure, ...]:
        return tuple(figure for section in self.sections for figure in section.figures)
