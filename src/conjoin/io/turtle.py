"""Pass the bytes of a Turtle file to its parser: count lines, refuse long terms and deep nesting.

The parser needs half a kilobyte for every open bracket, and a compressed file of some kilobytes can open a hundred
million. Therefore brackets outside of strings, IRIs and comments are counted before the parser sees them.
"""

from __future__ import annotations

import io
import re
from typing import BinaryIO

from conjoin.errors import GraphError
from conjoin.io.formats import without_mark
from conjoin.io.read_report import Sink, too_long
from conjoin.runtime import file_limits

PIECE = 1 << 16
"""Bytes of one read."""
LONG = rb'"""(?:[^"\\]++|\\.|"{1,2}(?!"))*+'
SHORT = rb'"(?!")(?:[^"\\\r\n]++|\\.)*+'
IRI = rb'<[^<>"\s{}|^`]*+'
COMMENT = rb"#[^\r\n]*+"


def _either(*kinds: bytes) -> bytes:
    """A pattern that matches any of `kinds`; a kind with double quotes also matches with single quotes."""
    return b"|".join(dict.fromkeys(each for kind in kinds for each in (kind, kind.replace(b'"', b"'"))))


TEXT = _either(LONG + b'"""', SHORT + b'"', b'""(?=[^"])')
WHOLE = b"|".join([TEXT, IRI + b">", COMMENT + rb"[\r\n]", rb"\\."])
"""A quoted string, an IRI, a comment, or an escaped character of a short name: brackets in them do not count."""
TOKEN = re.compile(WHOLE, re.DOTALL)
TOKENS = re.compile(rb"(?:[^\"'<#\\]++|" + WHOLE + rb'|<(?=[<"\s{}|^`]))*+', re.DOTALL)
BEGUN = re.compile(
    _either(LONG + rb'(?:"{1,2}|\\)?', SHORT + rb"\\?", rb'""') + b"|" + b"|".join([IRI, COMMENT, rb"\\"]), re.DOTALL
)
"""A token that is not complete yet."""
SLICE = 1 << 12
NESTING = (((b"[", b"("), (b"]", b")"), file_limits.BRACKETS), ((b"<<",), (b">>",), file_limits.QUOTED))


class TurtleBytes(io.RawIOBase):
    """The stream for the parser: the file without its byte-order mark."""

    def __init__(self, stream: BinaryIO, sink: Sink) -> None:
        self._stream, self._sink = stream, sink
        self._begun = False
        self._rest = b""
        self._ready, self._at = b"", 0
        self._depths = [0] * len(NESTING)
        self._unsure = 0
        self._last = b"\n"

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        if self._at == len(self._ready):
            self._ready, self._at = self._next(), 0
        stop = len(self._ready) if size < 0 else self._at + size
        part = self._ready[self._at : stop]
        self._at += len(part)
        self._sink.lines += part.count(b"\n") + (not part and self._last != b"\n")
        self._last = part[-1:] or b"\n"
        return part

    def _next(self) -> bytes:
        """The next piece of the file, without an incomplete token at its end; empty at the end of the file."""
        while True:
            piece = self._stream.read(max(PIECE, len(self._rest)))
            if not self._begun:
                self._begun, piece = True, without_mark(piece, self._sink.file)
            if not piece:
                last, self._rest = self._rest, b""
                return last
            text = self._rest + piece
            end = TOKENS.match(text).end()  # type: ignore[union-attr]
            self._rest = text[end:]
            if self._rest and not BEGUN.fullmatch(self._rest):
                # The parser will probably refuse these bytes. The limit below also holds if it does not.
                self._unsure += len(self._rest)
                end, self._rest = len(text), b""
            if max(len(self._rest), self._unsure) > file_limits.STATEMENT:
                raise GraphError(
                    f"{self._sink.file}: near line {self._sink.lines + 1}: a term or comment has "
                    f"{too_long(file_limits.STATEMENT)}. Shorten or remove it."
                )
            if end:
                self._count(text[:end])
                return text[:end]

    def _count(self, text: bytes) -> None:
        """Count the open brackets after each slice of a text; within a slice the depth grows by its length at most."""
        if not any(sign in text for opening, closing, _ in NESTING for sign in (*opening, *closing)):
            return
        bare = TOKEN.sub(b"", text)
        for start in range(0, len(bare), SLICE):
            part = bare[start : start + SLICE]
            for kind, (opening, closing, deepest) in enumerate(NESTING):
                self._depths[kind] += sum(map(part.count, opening)) - sum(map(part.count, closing))
                if self._depths[kind] > deepest:
                    position = f"{self._sink.file}: near line {self._sink.lines + 1}"
                    raise GraphError(
                        f"{position}: {opening[0].decode()} is nested more than {deepest:,} levels deep. "
                        "Use fewer levels, or convert the file to N-Triples."
                    )
