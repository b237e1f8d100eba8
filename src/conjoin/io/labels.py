"""Read labels: readable texts for names of entities and relations."""

from __future__ import annotations

import os

from conjoin.errors import GraphError, quoted
from conjoin.io.delimited import text_rows
from conjoin.io.formats import AnyPath, format_of, opened, text_lines
from conjoin.io.read_options import OnError, ReadOptions
from conjoin.io.read_report import LONG_NAME, ReadReport, Sink, is_long_name, too_long
from conjoin.runtime import file_limits


def read_labels(path: AnyPath) -> dict[str, str]:
    """Name to label, from a TSV or CSV file (gzip too) with two columns; further columns are ignored.

    If a name occurs twice, the first label counts. A line without a label is ignored.
    """
    return read_labels_with_report(path)[0]


def read_labels_with_report(path: AnyPath, *, on_error: OnError = "stop") -> tuple[dict[str, str], ReadReport]:
    """The labels and the report on the file; `on_error` as in `ReadOptions`."""
    file_format = format_of(path)
    if file_format not in ("TSV", "CSV"):
        raise GraphError(
            f"{os.fspath(path)}: labels cannot be read from {file_format}. "
            "Use .tsv, .txt or .csv, each also with .gz appended."
        )
    sink = Sink(os.fspath(path), file_format, ReadOptions(on_error=on_error))
    labels: dict[str, str] = {}
    with opened(path) as stream:
        rows, _ = text_rows(text_lines(stream, sink.file), file_format, sink)
        for number, cells in rows:
            if len(cells) < 2:
                sink.problem(number, "wrong number of columns", "1 column instead of a name and its label")
                rows.again()
            elif not cells[0].strip():
                sink.problem(number, "empty name", "the name in the first column is empty")
            elif is_long_name(cells[0]) or is_long_name(cells[1]):
                detail = f"the name {quoted(cells[0])} or its label has {too_long(file_limits.NAME)}"
                sink.problem(number, LONG_NAME, detail)
            elif label := cells[1].strip():
                labels.setdefault(cells[0], label)
    return labels, sink.report()
