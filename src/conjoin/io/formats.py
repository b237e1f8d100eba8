"""Open files: format by suffix, gzip, byte-order marks. Every failure of the file system becomes a GraphError."""

from __future__ import annotations

import gzip
import io
import os
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from conjoin.errors import GraphError
from conjoin.graph.graph import Split
from conjoin.runtime import file_limits, plugins
from conjoin.runtime.atomic_files import open_regular

AnyPath = str | os.PathLike[str]
FORMATS = {".txt": "TSV", ".tsv": "TSV", ".csv": "CSV", ".parquet": "Parquet", ".nt": "N-Triples", ".ttl": "Turtle"}
SPLIT_NAMES: dict[Split, tuple[str, ...]] = {
    "train": ("train",),
    "valid": ("valid", "validation", "val", "dev"),
    "test": ("test",),
}
BARE = frozenset(name for names in SPLIT_NAMES.values() for name in names)
UTF8_MARK = b"\xef\xbb\xbf"
UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
GZIP_MAGIC = b"\x1f\x8b"
END, ENDS = re.compile(rb"\n"), re.compile(rb"\r\n?|\n")
PIECE = 1 << 20
"""Bytes of one read."""


def split_name(path: AnyPath) -> tuple[str, str, bool]:
    """A file's name in three parts: the stem, the suffix in lower case, and whether .gz follows.

    >>> split_name("UMLS/Train.TXT.gz")
    ('Train', '.txt', True)
    """
    name = Path(path)
    zipped = name.suffix.lower() == ".gz"
    if zipped:
        name = name.with_suffix("")
    return name.stem, name.suffix.lower(), zipped


def format_of(path: AnyPath) -> str:
    """The format by a file's suffix. A file `train`, `valid` or `test` without suffix is TSV (ComplEx-N3's layout)."""
    stem, suffix, _ = split_name(path)
    if not suffix and stem.lower() in BARE:
        return "TSV"
    if not is_known(suffix):
        raise GraphError(
            f"{os.fspath(path)}: no reader for the suffix {suffix!r}. Readable suffixes are {known_suffixes()}."
        )
    return FORMATS.get(suffix) or suffix.removeprefix(".")


def is_known(suffix: str) -> bool:
    """Does this package or a plugin have a reader for files with this suffix?"""
    return suffix in FORMATS or suffix.removeprefix(".") in plugins.names("reader")


def known_suffixes() -> str:
    """All readable suffixes, for messages."""
    return f"{', '.join([*FORMATS, *(f'.{name}' for name in plugins.names('reader'))])}, each also with .gz appended"


@contextmanager
def opened(path: AnyPath) -> Iterator[BinaryIO]:
    """The unpacked bytes of a file. Every failure is a GraphError, also one while the caller reads."""
    shown = os.fspath(path)
    zipped = split_name(path)[2]
    try:
        with open_regular(Path(path)) as raw:
            magic = raw.read(2)
            raw.seek(0)
            if magic == GZIP_MAGIC and not zipped:
                raise GraphError(f"{shown}: the file is compressed with gzip. Rename it so that the name ends in .gz.")
            if zipped and magic:
                with gzip.GzipFile(fileobj=raw) as unpacked, io.BufferedReader(unpacked) as stream:
                    yield stream
            else:
                yield raw
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise GraphError(
            f"{shown}: the gzip data are damaged or truncated ({error}). Download or compress the file again."
        ) from error
    except FileNotFoundError as error:
        raise GraphError(f"{shown}: there is no such file") from error
    except IsADirectoryError as error:
        raise GraphError(f"{shown} is a folder, and a file is expected. Read a folder with read_graph.") from error
    except OSError as error:
        raise GraphError(f"{shown} cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        if "null byte" not in str(error):
            raise
        raise GraphError(f"{shown!r} is not a valid file name: {error}") from error


def text_lines(stream: BinaryIO, shown: str) -> Iterator[bytes]:
    """The lines as bytes with their line ends, without the byte-order mark of UTF-8. A line ends with a line feed.

    A line that `is_long` is cut.
    """
    for block in blocks_of_lines(stream, shown, limit=file_limits.LINE):
        yield from io.BytesIO(block)


def blocks_of_lines(
    stream: BinaryIO, shown: str, *, limit: int, size: int = PIECE, with_returns: bool = False
) -> Iterator[bytes]:
    """The file in blocks of whole lines, without the byte-order mark, in bounded memory.

    A line of more than `limit` bytes is cut at or after the limit, so that `is_long` recognises it. `with_returns`: a
    carriage return ends a line too.
    """
    rest, within = without_mark(stream.read(4), shown), False
    while piece := stream.read(size):
        if within:
            end = (ENDS if with_returns else END).search(piece)
            within, piece = end is None, b"" if end is None else piece[end.end() :]
        block = rest + piece
        cut = block.rfind(b"\n") + 1
        if with_returns:  # the last byte may be the first of two that end a line
            cut = max(cut, block.rfind(b"\r", 0, len(block) - 1) + 1)
        whole, rest = block[:cut], block[cut:]
        if len(rest) > limit + 2:
            whole, rest, within = whole + rest[: limit + 1] + b"\n", b"", True
        if whole:
            yield whole
    if rest:
        yield rest


def blocks_of_statements(stream: BinaryIO, shown: str, *, size: int = PIECE) -> Iterator[bytes]:
    """`blocks_of_lines` for N-Triples, where a carriage return ends a line too and lines may be longer."""
    return blocks_of_lines(stream, shown, size=size, limit=file_limits.STATEMENT, with_returns=True)


def is_long(line: bytes, limit: int) -> bool:
    """Does a line have more than `limit` bytes, without its line end?"""
    return len(line) > limit and len(line.rstrip(b"\r\n")) > limit


def may_have_long(block: bytes, limit: int) -> bool:
    """Could one of these lines exceed the limit? False is certain. Looks at a few bytes of the block only."""
    start = 0
    while start + limit < len(block):
        end = block.rfind(b"\n", start, start + limit) + 1
        if not end:
            return True
        start = end
    return False


def without_mark(start: bytes, shown: str) -> bytes:
    """The start of a file without its byte-order mark."""
    if start.startswith(UTF16_MARKS):
        raise GraphError(f"{shown}: the text is encoded in UTF-16. Save it as UTF-8.")
    return start.removeprefix(UTF8_MARK)
