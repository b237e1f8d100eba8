"""Opening files: formats by suffix, gzip, byte-order marks, and every failure of the file system as a GraphError."""

from __future__ import annotations

import gzip
import io
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from conjoin import plugins
from conjoin.errors import GraphError
from conjoin.graph.graph import Split

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


def split_name(path: AnyPath) -> tuple[str, str, bool]:
    """A file's name in three parts: what stands before the suffixes, the suffix in lower case, and whether .gz follows.

    >>> split_name("UMLS/Train.TXT.gz")
    ('Train', '.txt', True)
    """
    name = Path(path)
    zipped = name.suffix.lower() == ".gz"
    if zipped:
        name = name.with_suffix("")
    return name.stem, name.suffix.lower(), zipped


def format_of(path: AnyPath) -> str:
    """The format a file's suffix stands for; a split without one is a TSV, as the ComplEx-N3 code packs them."""
    stem, suffix, _ = split_name(path)
    if not suffix and stem.lower() in BARE:
        return "TSV"
    if not is_known(suffix):
        raise GraphError(f"{os.fspath(path)}: the suffix {suffix!r} is no known format; known are {known_suffixes()}")
    return FORMATS.get(suffix) or suffix.removeprefix(".")


def is_known(suffix: str) -> bool:
    """Is there a reader for files of this suffix, ours or another package's?"""
    return suffix in FORMATS or suffix.removeprefix(".") in plugins.names("reader")


def known_suffixes() -> str:
    """All suffixes, for messages."""
    return f"{', '.join([*FORMATS, *(f'.{name}' for name in plugins.names('reader'))])}, each also with .gz"


@contextmanager
def opened(path: AnyPath) -> Iterator[BinaryIO]:
    """The unpacked bytes of a file. What goes wrong on the way, also while the caller reads, is a GraphError."""
    shown = os.fspath(path)
    zipped = split_name(path)[2]
    try:
        with Path(path).open("rb") as raw:
            magic = raw.read(2)
            raw.seek(0)
            if magic == GZIP_MAGIC and not zipped:
                raise GraphError(f"{shown}: the file is packed with gzip: give it a name that ends in .gz")
            if zipped and magic:
                with gzip.GzipFile(fileobj=raw) as unpacked, io.BufferedReader(unpacked) as stream:
                    yield stream
            else:
                yield raw
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise GraphError(f"{shown}: damaged or truncated gzip ({error}): fetch or pack the file again") from error
    except FileNotFoundError as error:
        raise GraphError(f"{shown}: there is no such file") from error
    except IsADirectoryError as error:
        raise GraphError(f"{shown} is a folder, not a file: read_graph reads folders") from error
    except OSError as error:
        raise GraphError(f"{shown}: cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        if "null byte" not in str(error):
            raise
        raise GraphError(f"{shown!r} is no file name: {error}") from error


def text_lines(stream: BinaryIO, shown: str) -> Iterator[bytes]:
    """The lines as bytes with their ends, the byte-order mark of UTF-8 taken off. A line ends with a line feed."""
    first = stream.readline()
    if first:
        yield without_mark(first, shown)
    yield from stream


def without_mark(start: bytes, shown: str) -> bytes:
    """The start of a file without its byte-order mark."""
    if start.startswith(UTF16_MARKS):
        raise GraphError(f"{shown}: the text is UTF-16: save it as UTF-8")
    return start.removeprefix(UTF8_MARK)
