"""Read RDF (N-Triples and Turtle) with the parser pyoxigraph.

How RDF becomes a graph of names:
- An IRI is a name, complete and without its angle brackets.
- A triple whose object is a literal is dropped and counted; `literals='keep'` makes the literal an entity whose
  name is its spelling in N-Triples: "Paris"@fr, "1"^^<http://www.w3.org/2001/XMLSchema#integer>.
- rdfs:label and skos:prefLabel with a literal give the subject, entity or relation, its label. A label without
  language or in English is preferred to other languages, then the first in the file. Only `literals='keep'` makes them
  triples too.
- A blank node is an entity of its file alone: `_:b0` in train.nt is named `_:train.b0`, so that two files never share
  one. The nameless nodes of Turtle are numbered in order: `_:train.[1]`. `blank_nodes='drop'` drops and counts every
  triple that has one.
- A triple as the object of another (RDF 1.2) has no name: it is counted like a broken line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, BinaryIO

from conjoin.errors import GraphError, NotInstalled, quoted
from conjoin.io.delimited import broken_bytes
from conjoin.io.read_report import LONG_LINE, LONG_NAME, Sink, is_long_name, too_long
from conjoin.io.turtle import TurtleBytes
from conjoin.runtime import file_limits

LABELS = ("http://www.w3.org/2000/01/rdf-schema#label", "http://www.w3.org/2004/02/skos/core#prefLabel")
BLOCK_BYTES = 1 << 20
# The parser recurses into quoted triples and would crash the process where they are nested ten thousand deep.
QUOTED, DEEPEST = b"<<(", 100
GENERATED = re.compile(r"[a-f][0-9a-f]{25,31}")
POSITION = re.compile(r"^Parser error at line \d+ |\s*\(line \d+\)$")


class Statements:
    """Turns the statements of one RDF file into triples, labels and counts."""

    def __init__(self, sink: Sink, scope: str, *, generated: bool) -> None:
        self._ox = _parser()
        self._sink, self._scope, self._generated = sink, scope, generated
        self._blank: dict[str, str] = {}
        self._nameless = 0

    def take(self, line: int | None, subject: Any, predicate: Any, value: Any) -> None:
        """One statement: subject, predicate and object as the parser's terms."""
        ox, sink = self._ox, self._sink
        kind = type(value)
        if kind is ox.NamedNode is type(subject):
            sink.add(line, subject.value, predicate.value, value.value)
            return
        if ox.BlankNode in (type(subject), kind) and sink.options.blank_nodes == "drop":
            sink.blank_triples_dropped += 1
            return
        if kind is ox.Literal:
            self._take_literal(line, subject, predicate, value)
        elif kind is ox.Triple:
            detail = f"the object of <{predicate.value}> is a triple, which cannot be the name of an entity"
            sink.problem(line, "triple as object", detail)
        else:
            sink.add(line, self._name(subject), predicate.value, self._name(value))

    def _take_literal(self, line: int | None, subject: Any, predicate: Any, value: Any) -> None:
        sink = self._sink
        is_label = predicate.value in LABELS
        if is_label:
            sink.label_statements += 1
            self._take_label(line, self._name(subject), value)
        if sink.options.literals == "keep":
            sink.literals_kept += sink.add(line, self._name(subject), predicate.value, str(value))
        elif not is_label:
            sink.literals_dropped += 1

    def _take_label(self, line: int | None, name: str, value: Any) -> None:
        for text in (name, value.value):
            if is_long_name(text):
                detail = f"the label {quoted(value.value)} or its subject has {too_long(file_limits.NAME)}"
                self._sink.problem(line, LONG_NAME, detail)
                return
        language = value.language or ""
        rank = 0 if language in ("", "en") else 1 if language.startswith("en-") else 2
        if value.value.strip():
            self._sink.label(name, value.value, rank=rank)

    def _name(self, term: Any) -> str:
        identifier: str = term.value
        if type(term) is not self._ox.BlankNode:
            return identifier
        name = self._blank.get(identifier)
        if name is None:
            local = identifier
            if self._generated and GENERATED.fullmatch(identifier):
                self._nameless += 1
                local = f"[{self._nameless}]"
            name = self._blank[identifier] = f"_:{self._scope}.{local}"
            self._sink.blank_nodes += 1
        return name


def read_ntriples(lines: Iterator[bytes], sink: Sink, scope: str) -> None:
    """Read N-Triples into `sink`, in blocks of lines. A block that fails is read again line by line."""
    ox = _parser()
    statements = Statements(sink, scope, generated=False)
    for block in _blocks(lines):
        quads = _block_of_quads(ox, block)
        if quads is None:
            for line in block:
                sink.lines += 1
                _take_line(ox, line, sink, statements)
            continue
        sink.lines += len(block)
        if len(quads) < len(block):
            blank = sum(not line.strip() for line in block)
            sink.blank_lines += blank
            sink.comments += len(block) - len(quads) - blank
        for quad in quads:
            statements.take(None, quad.subject, quad.predicate, quad.object)


def _blocks(lines: Iterator[bytes]) -> Iterator[list[bytes]]:
    """Lines in lists of about BLOCK_BYTES. In N-Triples a carriage return ends a line too."""
    block: list[bytes] = []
    size = 0
    for raw in lines:
        block.extend(raw.splitlines())
        size += len(raw)
        if size >= BLOCK_BYTES:
            yield block
            block, size = [], 0
    if block:
        yield block


def _block_of_quads(ox: Any, block: list[bytes]) -> list[Any] | None:
    """The statements of a block, or None if its lines must be read one by one."""
    if max(map(len, block)) > file_limits.NAME:  # may be too long, and then the report needs the line number
        return None
    text = b"\n".join(block)
    if text.count(QUOTED) or b"\0" in text:
        return None
    try:
        return list(ox.parse(text.decode(), format=ox.RdfFormat.N_TRIPLES))
    except (UnicodeDecodeError, SyntaxError, MemoryError):
        return None


def _take_line(ox: Any, line: bytes, sink: Sink, statements: Statements) -> None:
    number = sink.lines
    if len(line) > file_limits.STATEMENT:
        sink.problem(number, LONG_LINE, too_long(file_limits.STATEMENT))
        return
    if line.count(QUOTED) > DEEPEST:
        sink.problem(number, "triple as object", "triples nested too deep")
        return
    try:
        quads = list(ox.parse(line.decode(), format=ox.RdfFormat.N_TRIPLES))
    except UnicodeDecodeError as error:
        sink.problem(number, "bad UTF-8", broken_bytes(error))
        return
    except (SyntaxError, MemoryError) as error:
        sink.problem(number, "broken RDF", _complaint(error))
        return
    if not quads:
        sink.blank_lines += not line.strip()
        sink.comments += bool(line.strip())
    for quad in quads:
        statements.take(number, quad.subject, quad.predicate, quad.object)


def read_turtle(stream: BinaryIO, sink: Sink, scope: str) -> None:
    """Read Turtle into `sink`. A syntax error is always raised: the start of the next statement is unknown."""
    ox = _parser()
    statements = Statements(sink, scope, generated=True)
    try:
        for quad in ox.parse(TurtleBytes(stream, sink), format=ox.RdfFormat.TURTLE):
            statements.take(None, quad.subject, quad.predicate, quad.object)
    except SyntaxError as error:
        reason = "bad UTF-8" if "Invalid UTF-8" in str(error) else "broken RDF"
        raise GraphError(
            f"{sink.file}:{error.lineno}: {reason}: {_complaint(error)}. Turtle cannot be read beyond a broken "
            "statement, also with on_error='skip'. Fix the statement, or convert the file to N-Triples."
        ) from error
    except MemoryError as error:
        raise GraphError(f"{sink.file}: near line {sink.lines}: {_complaint(error)}. Shorten or remove it.") from error


def _complaint(error: Exception) -> str:
    """The message of the parser without the position, at most 300 characters."""
    if isinstance(error, MemoryError):
        return f"a term or comment has {too_long(file_limits.STATEMENT)}"
    message = POSITION.sub("", str(error))
    return message if len(message) <= 300 else message[:300] + "…"


def blank_scope(stem: str) -> str:
    """The prefix of the blank nodes of a file named `stem`, without dots."""
    return re.sub(r"[^\w-]", "_", stem) or "file"


def _parser() -> Any:
    try:
        import pyoxigraph
    except ModuleNotFoundError as error:
        raise NotInstalled("pyoxigraph", "rdf", "reading N-Triples and Turtle") from error
    return pyoxigraph
