"""Writes a report in LaTeX that pdflatex compiles with booktabs, amssymb and the standard packages."""

from __future__ import annotations

import unicodedata

from conjoin.report.document import CODE, Document, Entry, Figure, ReportTable, TableColumn
from conjoin.runtime.plotting import SUBSCRIPT

_SYMBOLS = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{char: f"\\{char}" for char in "&%$#_{}"},
    **{char: f"${char}$" for char in "<>|"},
    "★": r"$^{\bigstar}$",
    "ε": r"$\epsilon$",
    "α": r"$\alpha$",
    "∇": r"$\nabla$",
    "◇": r"$\diamondsuit$",
    "±": r"$\pm$",
    "−": "$-$",
    "×": r"$\times$",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    "→": r"$\to$",
    "–": "--",
    "—": "---",
    "…": r"\dots{}",
    "’": "'",
    "“": "``",
    "”": "''",
}
_ACCENTS = {
    "\N{COMBINING GRAVE ACCENT}": "`",
    "\N{COMBINING ACUTE ACCENT}": "'",
    "\N{COMBINING CIRCUMFLEX ACCENT}": "^",
    "\N{COMBINING TILDE}": "~",
    "\N{COMBINING DIAERESIS}": '"',
    "\N{COMBINING RING ABOVE}": "r",
    "\N{COMBINING CARON}": "v",
    "\N{COMBINING CEDILLA}": "c",
    "\N{COMBINING MACRON}": "=",
}
_COLUMNS = {"left": "l", "right": "r"}
_TEXT_WIDTH = 26.7
"""Centimetres across a landscape page."""
_SHORT = 18
"""Tables with at most this number of rows stay on one page; longer ones may break."""

_OPENING = r"""\documentclass{article}
\usepackage[a4paper,landscape,margin=1.5cm]{geometry}
\usepackage{amssymb,array,booktabs,graphicx,longtable}
\setlength{\parindent}{0pt}
\setlength{\parskip}{4pt}
\setlength{\tabcolsep}{4pt}
\setlength{\LTleft}{0pt}
\setcounter{secnumdepth}{0}
\emergencystretch=3em
\raggedbottom
\newcommand{\tabletitle}[1]{\refstepcounter{table}\textbf{Table \thetable.} #1}
\newcommand{\lines}[2]{\begin{tabular}[t]{@{}#1@{}}#2\end{tabular}}
"""


def latex(document: Document, *, figures: str) -> str:
    """The whole report. Plots are files in the folder `figures`."""
    parts = [
        _OPENING,
        f"\\title{{{tex(document.title)}}}\n\\date{{}}\n\\begin{{document}}\n\\maketitle\n",
        *map(_paragraph, document.words),
    ]
    for section in document.sections:
        parts += [f"\\section{{{tex(section.title)}}}\n", *map(_paragraph, section.words)]
        parts += [_figure(figure, figures) for figure in section.figures]
        parts += [_table(table) for table in section.tables]
    return "\n".join([*parts, r"\end{document}", ""])


def tex(text: str) -> str:
    """Plain text escaped for LaTeX; a character without a known command becomes its code point."""
    pieces: list[str] = []
    position = 0
    for mark in SUBSCRIPT.finditer(text):
        below = _SYMBOLS.get(mark[1], mark[1]).strip("$")
        pieces += [*map(_character, text[position : mark.start()]), f"$_{{{below}}}$"]
        position = mark.end()
    return "".join([*pieces, *map(_character, text[position:])])


def _character(char: str) -> str:
    if char in _SYMBOLS:
        return _SYMBOLS[char]
    if char.isascii():
        return char
    base, accent = unicodedata.normalize("NFD", char)[0], unicodedata.normalize("NFD", char)[1:]
    if base.isascii() and accent in _ACCENTS:
        return f"\\{_ACCENTS[accent]}{{{base}}}"
    return f"\\texttt{{U+{ord(char):04X}}}"


def _paragraph(words: str) -> str:
    parts = (f"\\texttt{{{tex(part)}}}" if odd % 2 else tex(part) for odd, part in enumerate(CODE.split(words)))
    return "".join(parts) + "\n"


def _figure(figure: Figure, folder: str) -> str:
    width = min(2.54 * figure.inches, _TEXT_WIDTH)
    return (
        f"\\begin{{minipage}}{{\\textwidth}}\n\\textbf{{{tex(figure.title)}}}\\\\[6pt]\n"
        f"\\includegraphics[width={width:.1f}cm,height=.85\\textheight,keepaspectratio]{{{folder}/{figure.name}.pdf}}\n"
        "\\end{minipage}\\par\\bigskip\n"
    )


def _table(table: ReportTable) -> str:
    broad = sum(column.align == "words" for column in table.columns)
    words = f">{{\\raggedright\\arraybackslash}}p{{{_TEXT_WIDTH / (4 if broad == 1 else 7):.1f}cm}}"
    columns = f"@{{}}{''.join(_COLUMNS.get(column.align, words) for column in table.columns)}@{{}}"
    heads = f"\\toprule\n{' & '.join(_head(column) for column in table.columns)} \\\\\n\\midrule\n"
    aligns = [column.align for column in table.columns]
    lines = "".join(" & ".join(map(_entry, row, aligns)) + " \\\\\n" for row in table.rows)
    title = f"\\tabletitle{{{tex(table.title)}}}"
    notes = "".join(f"{{\\footnotesize {_paragraph(note).strip()}\\par}}\n" for note in table.notes)
    if len(table.rows) <= _SHORT:
        return (
            f"\\begin{{minipage}}{{\\textwidth}}\\footnotesize\n{title}\\\\[4pt]\n\\begin{{tabular}}{{{columns}}}\n"
            f"{heads}{lines}\\bottomrule\n\\end{{tabular}}\n\\end{{minipage}}\\par\\medskip\n{notes}\\bigskip\n"
        )
    return (
        f"{{\\footnotesize\n\\begin{{longtable}}{{{columns}}}\n"
        f"\\multicolumn{{{len(table.columns)}}}{{@{{}}l}}{{{title}}}\\\\[4pt]\n"
        f"{heads}\\endfirsthead\n{heads}\\endhead\n\\bottomrule\n\\endlastfoot\n{lines}\\end{{longtable}}}}\n{notes}"
    )


def _head(column: TableColumn) -> str:
    if column.latex:
        return column.latex
    broken = column.title if "(" in column.title else column.title.replace(", ", ",\n").replace(" − ", "\n− ")
    lines = [tex(line) for line in broken.splitlines()]
    return _stacked(lines, column.align) if len(lines) > 1 else "".join(lines)


def _entry(entry: Entry, align: str) -> str:
    text = entry.latex or tex(entry.text)
    text = f"\\textbf{{\\boldmath {text}}}" if entry.bold else text
    text = f"\\textit{{{text}}}" if entry.italic else text
    if not entry.note:
        return text
    note = f"{{\\scriptsize {tex(entry.note)}}}"
    return f"{text} {note}" if align == "words" else _stacked([text, note], align)


def _stacked(lines: list[str], align: str) -> str:
    inside = r"\\".join(lines)
    return f"\\lines{{{_COLUMNS.get(align, 'l')}}}{{{inside}}}"
