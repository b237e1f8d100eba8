"""Escape text from files and users, so that it is harmless in terminals and spreadsheets."""

from __future__ import annotations

import re
import unicodedata

DIRECTIONS = frozenset(map(chr, (*range(0x202A, 0x202F), *range(0x2066, 0x206A))))
"""Characters that change the direction of the text after them, so that it looks different from its content."""
ENDS = frozenset("\u2028\u2029")
"""Line ends beyond ASCII."""
CELL_STARTS = re.compile(r"(^|[;,\t\r\n|])([\s\"'\ufeff\u200b-\u200f\u2060]*)(?=[=+\-@＝＋－＠﹢﹣﹦﹫−])")
"""Positions at which a spreadsheet may recognise a formula: the start of a cell, or after a delimiter of some locale,
followed by blanks, quotes or zero-width characters."""


def spelled(text: str, *, keep: str = "") -> str:
    """Text that cannot control a terminal: control characters are escaped as in Python, except those in `keep`.

    >>> spelled("\\x1b[31mred\\n"), spelled("two\\nlines\\x07", keep="\\n")
    ('\\\\x1b[31mred\\\\n', 'two\\nlines\\\\x07')
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(c if c in keep or not _is_control(c) else ascii(c)[1:-1] for c in text)


def _is_control(c: str) -> bool:
    return unicodedata.category(c) == "Cc" or c in DIRECTIONS or c in ENDS


def for_spreadsheet(cell: str) -> str:
    """A cell that a spreadsheet does not execute: an apostrophe before each formula, control characters escaped.

    >>> for_spreadsheet('=HYPERLINK("http://example.org")'), for_spreadsheet("a; @b"), for_spreadsheet("Peru")
    ('\\'=HYPERLINK("http://example.org")', "a; '@b", 'Peru')
    """
    return CELL_STARTS.sub(r"\1\2'", spelled(cell))
