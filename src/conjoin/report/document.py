"""A report as a value: sections of words, tables and figures. How it is written is up to the `as_*` modules."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Align = Literal["left", "right", "words"]
"""`words` are long texts that may break over lines."""
CODE = re.compile(r"`([^`]*)`")


@dataclass(frozen=True)
class Entry:
    """One cell. `note` is a smaller second line; `latex` is the text where LaTeX has its own."""

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
    """A title, columns, and rows with one entry per column; `notes` stand below."""

    title: str
    columns: tuple[TableColumn, ...]
    rows: tuple[tuple[Entry, ...], ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, eq=False)
class Figure:
    """A plot: `name` is its file's, `words` describe it to those who cannot see it, `inches` is its width."""

    name: str
    title: str
    words: str
    inches: float
    svg: str
    pdf: bytes


@dataclass(frozen=True, kw_only=True, eq=False)
class Section:
    """`words` are paragraphs in which `backticks` mark what is typed."""

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
