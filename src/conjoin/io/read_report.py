"""Collect the triples of a file and report on it. Everything that is dropped is counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from conjoin.errors import GraphError, quoted
from conjoin.io.read_options import ColumnChoice, ReadOptions
from conjoin.runtime import file_limits

SAMPLES = 1000
"""Bad lines whose line and reason are kept; further ones are only counted."""
ENOUGH = 10
"""The fewest facts of a file whose first line is checked for being a header (2 if it has a usual name of a column)."""
LONG_LINE, LONG_NAME = "line too long", "name too long"
SHOWN_CELLS = 12
"""The most cells of a header in a message."""
HOW_TO_SKIP = "Fix the line, or skip and count bad lines with ReadOptions(on_error='skip') (--on-error skip)."


@dataclass(frozen=True)
class ReadProblem:
    """One bad line. `line` counts from 1 (rows in Parquet); None if the parser does not report it."""

    file: str
    line: int | None
    reason: str
    detail: str

    def __str__(self) -> str:
        position = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{position}: {self.reason}: {self.detail}"


@dataclass(frozen=True, kw_only=True)
class ReadReport:
    """The counts and problems of one file.

    If every record is one line (TSV, N-Triples, rows of Parquet, CSV without quoted line breaks):
    lines = triples + blank_lines + comments + (header is not None) + n_problems
            + literals_dropped + label_statements (when literals are dropped) + blank_triples_dropped.
    """

    file: str
    format: str
    lines: int
    triples: int
    separator: str = ""
    columns: tuple[ColumnChoice, ...] = ()
    blank_lines: int = 0
    comments: int = 0
    header: tuple[str, ...] | None = None
    choice: str = ""
    spaced: bool = False
    like_a_header: tuple[str, ...] | None = None
    problems: Mapping[str, int] = field(default_factory=dict)
    samples: tuple[ReadProblem, ...] = ()
    multiline_rows: int = 0
    literals_dropped: int = 0
    literals_kept: int = 0
    label_statements: int = 0
    blank_nodes: int = 0
    blank_triples_dropped: int = 0

    @property
    def n_problems(self) -> int:
        return sum(self.problems.values())

    @property
    def read_as(self) -> str:
        """The format, delimiter and columns with which the file was read, as a sentence."""
        separator = f", separator {self.separator!r}" if self.separator else ""
        columns = f"; head, relation and tail are the columns {', '.join(map(repr, self.columns))}"
        return f"{self.file}: read as {self.format}{separator}{columns if self.columns else ''}"

    def sentences(self) -> tuple[str, ...]:
        """Notes for the user, one sentence each; empty for a file without peculiarities."""
        notes: list[str] = []
        if self.header is not None:
            notes.append(f"line 1 read as a header: {_header_text(self.header)}")
        if self.choice:
            notes.append(self.choice)
        if self.spaced:
            notes.append("a space follows every delimiter; it was read as part of the delimiter, not of the names")
        if self.like_a_header is not None:
            names = ", ".join(name if len(name) <= 60 else f"{name[:60]}…" for name in self.like_a_header)
            notes.append(
                f"the first line ({names}) was read as a fact, but none of its names occurs again. "
                "If it is a header, set ReadOptions(header=True) (--header)"
            )
        if self.problems:
            reasons = ", ".join(f"{reason} {count:,}" for reason, count in self.problems.items())
            notes.append(f"{self.n_problems:,} bad lines skipped ({reasons}); the first: {self.samples[0]}")
        counted = (
            (self.blank_lines, "blank lines"),
            (self.multiline_rows, "rows over several lines (quoted line breaks)"),
            (self.literals_dropped, "triples with a literal as object dropped"),
            (self.literals_kept, "triples with a literal as object kept"),
            (self.label_statements, "labels (rdfs:label, skos:prefLabel)"),
            (self.blank_nodes, "blank nodes kept as entities of this file only"),
            (self.blank_triples_dropped, "triples with blank nodes dropped"),
        )
        notes.extend(f"{count:,} {what}" for count, what in counted if count)
        return tuple(f"{self.file}: {note}" for note in notes)


@dataclass(frozen=True, eq=False)
class Triples:
    """Three equally long columns of names, and the labels of an RDF file. `Graph.from_triples` accepts it."""

    heads: list[str]
    relations: list[str]
    tails: list[str]
    labels: dict[str, str] = field(default_factory=dict)
    columns: ClassVar[tuple[str, str, str]] = ("head", "relation", "tail")

    def __len__(self) -> int:
        return len(self.heads)

    def __iter__(self) -> Iterator[tuple[str, str, str]]:
        return zip(self.heads, self.relations, self.tails, strict=True)

    def __getitem__(self, column: str) -> list[str]:
        return {"head": self.heads, "relation": self.relations, "tail": self.tails}[column]


class Sink:
    """Receives the triples, counts and problems from the reader of one file.

    Each distinct name is checked and kept once, however often it occurs.
    """

    def __init__(self, file: str, file_format: str, options: ReadOptions) -> None:
        self.file = file
        self.options = options
        self.triples = Triples([], [], [])
        self.lines = self.blank_lines = self.comments = self.multiline_rows = 0
        self.literals_dropped = self.literals_kept = self.label_statements = 0
        self.blank_nodes = self.blank_triples_dropped = 0
        self.header: tuple[str, ...] | None = None
        self.choice = ""
        self.separator = ""
        self.columns: tuple[ColumnChoice, ...] = ()
        self.spaced: bool | None = None
        self.enough = ENOUGH
        self._format = file_format
        self._names: dict[str, str] = {}
        self._problems: Counter[str] = Counter()
        self._samples: list[ReadProblem] = []
        self._label_ranks: dict[str, int] = {}

    def add(self, line: int | None, head: str, relation: str, tail: str) -> bool:
        """Add one triple, or count the problem with its names. True if it was added."""
        known = self._names.get
        h, r, t = known(head), known(relation), known(tail)
        if h is None or r is None or t is None:
            for name, role in ((head, "head"), (relation, "relation"), (tail, "tail")):
                if not self._admit(line, name, role):
                    return False
            h, r, t = self._names[head], self._names[relation], self._names[tail]
        self.triples.heads.append(h)
        self.triples.relations.append(r)
        self.triples.tails.append(t)
        return True

    def add_columns(self, columns: Sequence[Any]) -> bool:  # noqa: ARG002
        """Add three Arrow columns of names, one line per row. True if they were added; this class adds only triples."""
        return False

    def label(self, name: str, text: str, *, rank: int) -> None:
        """Set the label of a name: the lowest rank is preferred, then the first."""
        if rank < self._label_ranks.get(name, rank + 1):
            self._label_ranks[name] = rank
            self.triples.labels[name] = text

    def _admit(self, line: int | None, name: str, role: str) -> bool:
        if name in self._names:
            return True
        if not name or name.isspace():
            self.problem(line, "empty name", f"the {role} is empty")
            return False
        if "\0" in name and self._format != "Parquet":
            self.problem(line, "NUL byte", f"the {role} {quoted(name)} contains a NUL byte")
            return False
        if is_long_name(name):
            self.problem(line, LONG_NAME, f"the {role} {quoted(name)} has {too_long(file_limits.NAME)}")
            return False
        self._names[name] = name
        return True

    def problem(self, line: int | None, reason: str, detail: str) -> None:
        """Count a bad line, or raise GraphError if `on_error` is 'stop'."""
        problem = ReadProblem(self.file, line, reason, detail)
        if self.options.on_error == "stop":
            encoding = "If the file has another encoding, save it as UTF-8. " if reason == "bad UTF-8" else ""
            raise GraphError(f"{problem}. {encoding}{HOW_TO_SKIP}")
        self._problems[reason] += 1
        if len(self._samples) < SAMPLES:
            self._samples.append(problem)

    @property
    def may_lack_a_header(self) -> bool:
        """Is this a table without a header, although the options leave open whether it has one?"""
        return self._format in ("TSV", "CSV") and self.options.header is None and self.header is None

    def _like_a_header(self) -> tuple[str, ...] | None:
        """The first fact of a table if its names do not occur in any other fact."""
        if not self.may_lack_a_header or len(self.triples) < self.enough:
            return None
        h, r, t = first = next(iter(self.triples))
        heads, relations, tails = self.triples.heads, self.triples.relations, self.triples.tails
        alone = relations.count(r) == 1 and heads.count(h) + tails.count(h) == 1 == heads.count(t) + tails.count(t)
        return first if alone else None

    def report(self) -> ReadReport:
        return ReadReport(
            file=self.file,
            format=self._format,
            lines=self.lines,
            triples=len(self.triples),
            separator=self.separator,
            columns=self.columns,
            blank_lines=self.blank_lines,
            comments=self.comments,
            header=self.header,
            choice=self.choice,
            spaced=bool(self.spaced),
            like_a_header=self._like_a_header(),
            problems=dict(self._problems),
            samples=tuple(self._samples),
            multiline_rows=self.multiline_rows,
            literals_dropped=self.literals_dropped,
            literals_kept=self.literals_kept,
            label_statements=self.label_statements,
            blank_nodes=self.blank_nodes,
            blank_triples_dropped=self.blank_triples_dropped,
        )


def is_long_name(name: str) -> bool:
    """Does a name or label have more than `file_limits.NAME` bytes in UTF-8?"""
    return 4 * len(name) > file_limits.NAME < len(name.encode("utf-8", "surrogatepass"))


def too_long(limit: int) -> str:
    """How a message describes a line or name beyond its limit."""
    return f"more than {limit:,} bytes"


def _header_text(cells: Sequence[str], *, limit: int = 60) -> str:
    """The first cells of a line, shortened to `limit` characters each, for a message."""
    shown = [cell if len(cell) <= limit else f"{cell[:limit]}…" for cell in cells[:SHOWN_CELLS]]
    return ", ".join(shown) + (", …" if len(cells) > SHOWN_CELLS else "")
