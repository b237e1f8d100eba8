"""Read triples of names from TSV, CSV, Parquet, N-Triples and Turtle files, each also compressed with gzip.

    triples, report = read_triples("facts.tsv.gz", ReadOptions(on_error="skip"))

A line ends with a line feed (a carriage return before it is not part of the line). Text is UTF-8; a byte-order mark is
removed. A line is bad if it has a wrong number of columns, an empty or blank name, a NUL byte, invalid UTF-8 or broken
RDF. Duplicates are kept. `conjoin.io.rdf` describes how RDF is read.
"""

from __future__ import annotations

import os
import zlib
from typing import BinaryIO, NamedTuple

from conjoin.errors import ConjoinError, GraphError
from conjoin.io.delimited import read_text_table
from conjoin.io.formats import FORMATS, AnyPath, blocks_of_statements, format_of, opened, split_name, text_lines
from conjoin.io.parquet import read_parquet
from conjoin.io.rdf import blank_scope, read_ntriples, read_turtle
from conjoin.io.read_options import ReadOptions
from conjoin.io.read_report import HOW_TO_SKIP, ReadReport, Sink, Triples
from conjoin.runtime import plugins

__all__ = ["HOW_TO_SKIP", "ReadOptions", "ReadReport", "Triples", "read_triples"]

PLAIN = ReadOptions()


def read_triples(
    path: AnyPath, options: ReadOptions = PLAIN, *, scope: str | None = None, may_be_empty: bool = False
) -> tuple[Triples, ReadReport]:
    """The triples of one file and the report on it. The suffix determines the format.

    `scope` is the prefix of blank nodes, by default the file's name without suffixes. A file without any triple is an
    error unless `may_be_empty`.
    """
    sink = Sink(os.fspath(path), format_of(path), options)
    return sink.triples, _fill(path, sink, scope=scope, may_be_empty=may_be_empty)


class LocatedFact(NamedTuple):
    """A fact and its line, counted from 1; None if the parser does not report it."""

    line: int | None
    fact: tuple[str, str, str]


def read_located(path: AnyPath, options: ReadOptions = PLAIN) -> tuple[list[LocatedFact], ReadReport]:
    """The triples of one file, each with its line, and the report on it."""
    sink = _LocatingSink(os.fspath(path), format_of(path), options)
    report = _fill(path, sink, scope=None, may_be_empty=False)
    return list(map(LocatedFact, sink.line_numbers, sink.triples)), report


class _LocatingSink(Sink):
    """A sink that keeps the line number of each triple."""

    def __init__(self, file: str, file_format: str, options: ReadOptions) -> None:
        super().__init__(file, file_format, options)
        self.line_numbers: list[int | None] = []

    def add(self, line: int | None, head: str, relation: str, tail: str) -> bool:
        added = super().add(line, head, relation, tail)
        self.line_numbers += [line] * added
        return added


def _fill(path: AnyPath, sink: Sink, *, scope: str | None, may_be_empty: bool) -> ReadReport:
    file_format = format_of(path)
    scope = blank_scope(split_name(path)[0] if scope is None else scope)
    if file_format == "Parquet":
        read_parquet(path, sink)
    else:
        with opened(path) as stream:
            if read_whole_stream(file_format, stream, sink, scope):
                pass
            elif file_format == "N-Triples":
                read_ntriples(blocks_of_statements(stream, sink.file), sink, scope)
            else:
                read_text_table(text_lines(stream, sink.file), file_format, sink)
    report = sink.report()
    if not report.triples and not may_be_empty:
        raise GraphError(nothing(report))
    return report


def read_whole_stream(file_format: str, stream: BinaryIO, sink: Sink, scope: str) -> bool:
    """Read a format whose parser takes the whole stream (Turtle, a plugin's format). False for a format by lines."""
    if file_format == "Turtle":
        read_turtle(stream, sink, scope)
    elif file_format not in FORMATS.values():
        read_plugin_format(file_format, stream, sink)
    else:
        return False
    return True


def read_plugin_format(name: str, stream: BinaryIO, sink: Sink) -> None:
    """Read a file with the reader of a plugin, a function of the unpacked bytes and the sink."""
    read = plugins.load_plugin("reader", name)
    try:
        read(stream, sink)
    except (ConjoinError, OSError, EOFError, zlib.error):
        raise
    except Exception as error:
        raise plugins.broken("reader", name, f"{type(error).__name__} in {sink.file}: {error}") from error


def nothing(report: ReadReport) -> str:
    """The message about a file without triples."""
    if not report.lines:
        return f"{report.file}: the file is empty"
    notes = "; ".join(sentence.removeprefix(f"{report.file}: ") for sentence in report.sentences())
    return f"{report.file}: there are no triples in {report.lines:,} lines" + (f": {notes}" if notes else "")
