"""Limits of lines, names, labels, pages and nesting: what is beyond is refused with its place, in little memory."""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.io.bombs import measured, write_bomb

from conjoin.errors import GraphError
from conjoin.io.formats import blocks_of_lines, is_long, may_have_long, text_lines
from conjoin.io.labels import read_labels, read_labels_with_report
from conjoin.io.parquet_pages import largest_page
from conjoin.io.read_options import ReadOptions
from conjoin.io.read_report import ReadReport, Sink
from conjoin.io.readers import read_triples
from conjoin.io.stream import stream_triples
from conjoin.io.turtle import TurtleBytes
from conjoin.runtime import file_limits

SKIP = ReadOptions(on_error="skip")
MOST = 256 << 20
"""Bytes of memory that refusing a file may take, of whatever size."""
BOMB = 2 << 30
"""Bytes that a packed file unpacks to."""
READING = """
import json
import re

def prepare():
    import conjoin.io.stream, pyarrow.parquet, pyarrow.csv, pyarrow.compute, pyoxigraph

def read(how, file, on_error):
    from conjoin.io.stream import stream_triples
    from conjoin.io.labels import read_labels
    from conjoin.io.readers import read_located, read_triples
    from conjoin.io.read_options import ReadOptions
    options = ReadOptions(on_error=on_error)
    if how == "labels":
        return len(read_labels(file))
    if how == "placed":
        return len(read_located(file, options)[0])
    if how == "flow":
        return stream_triples(file, options, lambda batch: None, scope="s", threads=1).triples
    return len(read_triples(file, options, may_be_empty=True)[0])

def work():
    found = []
    for how, file, on_error in json.loads(words[0]):
        try:
            found.append(read(how, file, on_error))
        except ConjoinError as error:
            found.append(type(error).__name__)
    return found
"""
BOMBS = {
    "line.tsv.gz": (b"a\tr\t", b"x", b"\nc\tr\td\n"),
    "tabs.tsv.gz": (b"a\tr\tb", b"\t", b"\n"),
    "line.csv.gz": (b"a,r,", b"x", b"\nc,r,d\n"),
    "quoted.csv.gz": (b'a,r,"', b"x" * 100 + b"\n", b'"\n'),
    "header.csv.gz": (b"head,relation,tail", b",column", b"\na,r,b\n"),
    "nul.tsv.gz": (b"a\tr\t", b"\0", b"\n"),
    "literal.nt.gz": (b'<a:s> <a:p> "', b"x", b'" .\n'),
    "blank.nt.gz": (b"", b" ", b"\n"),
    "literal.ttl.gz": (b'<a:s> <a:p> "', b"x", b'" .\n'),
    "long.ttl.gz": (b'<a:s> <a:p> """', b"x\n", b'""" .\n'),
    "iri.ttl.gz": (b"<a:", b"x", b"> <a:p> <a:o> .\n"),
    "comment.ttl.gz": (b"#", b"x", b"\n<a:s> <a:p> <a:o> .\n"),
    "lists.ttl.gz": (b"<a:s> <a:p> ", b"(", b""),
    "nodes.ttl.gz": (b"<a:s> <a:p> ", b"[<a:p> ", b""),
    "list.ttl.gz": (b"<a:s> <a:p> ", b"(1 ", b""),
    "zeros.parquet.gz": (b"", b"\0", b""),
}


def outcomes(*reads: tuple[str, Path, str]) -> tuple[list[object], int]:
    """Read files one after another in a separate process: triples or error of each, and the memory that it took."""
    found = measured(READING, json.dumps([(how, str(file), on_error) for how, file, on_error in reads]))
    return found["found"], found["grown"]


FEW = ("line.tsv.gz", "quoted.csv.gz", "literal.nt.gz", "nodes.ttl.gz", "zeros.parquet.gz")


@pytest.mark.parametrize("names", [FEW, pytest.param(tuple(BOMBS), marks=pytest.mark.slow)], ids=["few", "all"])
def test_packed_files_of_one_long_line_are_refused_in_little_memory(names: tuple[str, ...], tmp_path: Path) -> None:
    reads = []
    for name in names:
        start, repeated, end = BOMBS[name]
        file = write_bomb(tmp_path / name, start, repeated, BOMB, end)
        assert file.stat().st_size < 32 << 20
        reads += [(how, file, "stop") for how in ("whole", "flow", "placed")]
        reads += [("labels", file, "stop")] if name.endswith((".tsv.gz", ".csv.gz")) else []
    found, grown = outcomes(*reads)
    assert found == ["GraphError"] * len(reads)
    assert grown < MOST


@pytest.mark.parametrize(
    "names",
    [("line.tsv.gz",), pytest.param(("line.csv.gz", "literal.nt.gz"), marks=pytest.mark.slow)],
    ids=["few", "others"],
)
def test_long_lines_are_skipped_in_little_memory(names: tuple[str, ...], tmp_path: Path) -> None:
    reads = []
    for name in names:
        start, repeated, end = BOMBS[name]
        end += b"<a:s> <a:p> <a:o> .\n" if name.endswith(".nt.gz") else b""
        file = write_bomb(tmp_path / name, start, repeated, 192 << 20, end)
        reads += [(how, file, "skip") for how in (("whole",) if name == "line.csv.gz" else ("whole", "flow"))]
    found, grown = outcomes(*reads)
    assert found == [1] * len(reads)
    assert grown < MOST


@pytest.mark.slow
def test_packed_parquet_that_unpacks_to_gigabytes_is_refused_in_little_memory(tmp_path: Path) -> None:
    file = write_bomb(tmp_path / "zeros.parquet.gz", b"PAR1", b"\0", BOMB, b"PAR1")
    found, grown = outcomes(("whole", file, "stop"), ("flow", file, "skip"))
    assert found == ["GraphError"] * 2
    assert grown < MOST


def test_a_giant_cell_of_parquet_is_refused_in_little_memory(tmp_path: Path) -> None:
    heads = ["a"] * 10_000 + ["x" * (file_limits.PAGE + 1)]
    table = pa.table({"head": heads, "relation": ["r"] * len(heads), "tail": ["b"] * len(heads)})
    file = tmp_path / "facts.parquet"
    pq.write_table(table, file, compression="zstd", write_statistics=False)
    assert file.stat().st_size < 1 << 20
    found, grown = outcomes(("whole", file, "stop"), ("flow", file, "skip"))
    assert found == ["GraphError"] * 2
    assert grown < file_limits.PAGE


@pytest.mark.slow
def test_long_names_that_parquet_holds_once_are_read_in_little_memory(tmp_path: Path) -> None:
    """A dictionary holds a name of 60 kB once; as text, 65,536 rows of it are 4 GB."""
    rows = 10_000
    columns = {"head": ["x" * 60_000] * rows, "relation": ["r"] * rows, "tail": [str(i) for i in range(rows)]}
    pq.write_table(pa.table(columns), tmp_path / "facts.parquet")
    found, grown = outcomes(("whole", tmp_path / "facts.parquet", "stop"))
    assert found == [rows]
    assert grown < 2 * MOST


# Lines within the limits are read, longer ones are reported with their line number. Small limits keep these tests fast.


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_limits, "LINE", 100)
    monkeypatch.setattr(file_limits, "NAME", 40)
    monkeypatch.setattr(file_limits, "STATEMENT", 200)


def both(file: Path) -> tuple[list[tuple[str, str, str]], ReadReport]:
    """The triples and the report of both readers, which must agree."""
    triples, report = read_triples(file, SKIP, may_be_empty=True)
    flown: list[tuple[str, str, str]] = []
    other = stream_triples(
        file, SKIP, lambda batch: flown.extend(tuple(row.values()) for row in batch.to_pylist()), scope=file.stem
    )
    assert flown == [*triples]
    assert (other.lines, other.problems, other.samples) == (report.lines, report.problems, report.samples)
    return flown, report


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("packed", [False, True])
def test_lines_above_the_limit_are_reported(end: str, packed: bool, tmp_path: Path) -> None:
    lines = ["a\tr\tb", "a\tr\t" + "b" * 40, "a\tr\t" + "b" * 41, "é" * 20 + "\tr\tb", "é" * 21 + "\tr\tb"]
    lines += ["x" * 101, "x" * 5000, "c\tr\td"]
    content = (end.join(lines) + end).encode()
    file = tmp_path / ("facts.tsv.gz" if packed else "facts.tsv")
    file.write_bytes(gzip.compress(content) if packed else content)
    found, report = both(file)
    assert [head for head, _, _ in found] == ["a", "a", "é" * 20, "c"]
    assert [(bad.line, bad.reason) for bad in report.samples] == [
        (3, "name too long"),
        (5, "name too long"),
        (6, "line too long"),
        (7, "line too long"),
    ]
    for bad in (3, 6):
        (tmp_path / "one.tsv").write_text(lines[bad - 1] + "\n")
        with pytest.raises(GraphError, match=r"one\.tsv:1: .*\b(100|40)\b"):
            read_triples(tmp_path / "one.tsv")


@pytest.mark.usefixtures("small")
def test_quoted_cells_have_the_line_limit(tmp_path: Path) -> None:
    file = tmp_path / "facts.csv"
    file.write_text('a,r,"b\nb"\nc,r,"' + "x\n" * 200 + '"\nd,r,e\n')
    found, report = both(file)
    assert found == [("a", "r", "b\nb"), ("d", "r", "e")]
    assert (report.samples[0].line, report.samples[0].reason) == (3, "line too long")
    file.write_text('a,r,"' + "x" * 150 + '"\nb,r,c\n')
    assert both(file)[1].problems == {"line too long": 1}


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_statements_above_the_limit_are_reported(end: str, tmp_path: Path) -> None:
    long = f'<a:s> <a:p> "{"x" * 300}" .'
    lines = ["<a:s> <a:p> <a:o> .", long, "# " + "x" * 5000, "<a:s> <a:p> <a:q> .", f"<a:s> <a:p> <a:{'o' * 50}> ."]
    file = tmp_path / "facts.nt"
    file.write_bytes((end.join(lines) + end).encode())
    found, report = both(file)
    assert found == [("a:s", "a:p", "a:o"), ("a:s", "a:p", "a:q")]
    assert [bad.reason for bad in report.samples] == ["line too long", "line too long", "name too long"]
    assert report.samples[0].line == 2


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("name", ["facts.nt", "facts.ttl"])
def test_rdf_labels_have_the_name_limit(name: str, tmp_path: Path) -> None:
    label = "<http://www.w3.org/2000/01/rdf-schema#label>"
    text = f'<a:s> <a:p> <a:o> .\n<a:s> {label} "{"x" * 41}" .\n<a:o> {label} "{"x" * 40}" .\n'
    (tmp_path / name).write_text(text)
    triples, report = read_triples(tmp_path / name, SKIP)
    assert triples.labels == {"a:o": "x" * 40}
    assert report.problems == {"name too long": 1}


@pytest.mark.usefixtures("small")
def test_label_files_have_the_name_limit(tmp_path: Path) -> None:
    file = tmp_path / "labels.tsv"
    file.write_text("a\tAnn\n" + "b\t" + "x" * 41 + "\n" + "c" * 41 + "\tCid\n" + "d\t" + "x" * 200 + "\ne\tEve\n")
    found, report = read_labels_with_report(file, on_error="skip")
    assert found == {"a": "Ann", "e": "Eve"}
    assert [(bad.line, bad.reason) for bad in report.samples] == [
        (2, "name too long"),
        (3, "name too long"),
        (4, "line too long"),
    ]
    with pytest.raises(GraphError, match=r"labels\.tsv:2: .*\b40\b"):
        read_labels(file)


@pytest.mark.usefixtures("small")
def test_parquet_names_have_the_name_limit(tmp_path: Path) -> None:
    table = pa.table({"head": ["a", "x" * 41], "relation": ["r", "r"], "tail": ["b", "c"]})
    pq.write_table(table, tmp_path / "facts.parquet")
    found, report = both(tmp_path / "facts.parquet")
    assert found == [("a", "r", "b")]
    assert [(bad.line, bad.reason) for bad in report.samples] == [(2, "name too long")]


LINES = st.lists(st.binary(max_size=12), max_size=12).map(b"\n".join)


@given(LINES, st.integers(1, 9), st.integers(1, 8), st.booleans())
def test_line_blocks_drop_only_the_ends_of_long_lines(content: bytes, size: int, limit: int, returns: bool) -> None:
    if content.startswith((b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf")):
        return
    blocks = [*blocks_of_lines(io.BytesIO(content), "x", size=size, limit=limit, with_returns=returns)]
    assert max(map(len, blocks), default=0) <= size + 2 * limit + 4
    if returns:
        got, whole = b"".join(blocks).splitlines(), content.splitlines()
    else:
        got, whole = b"".join(blocks).removesuffix(b"\n").split(b"\n"), content.removesuffix(b"\n").split(b"\n")
    assert len(got) == len(whole) or (returns and b"\r" in content)
    for one, other in zip(got, whole, strict=False):
        if b"\r" not in content:
            assert is_long(one, limit) == is_long(other, limit)
            assert other.startswith(one)
            assert one == other or is_long(other, limit)
    for block in blocks:
        if any(is_long(line, limit) for line in block.split(b"\n")):
            assert may_have_long(block, limit)


def test_text_lines_yields_the_lines_of_the_file_without_byte_order_mark() -> None:
    content = b"\xef\xbb\xbfa\r\n\nb" * 3
    assert [*text_lines(io.BytesIO(content), "x")] == [*io.BytesIO(content.removeprefix(b"\xef\xbb\xbf"))]


# Turtle: what the parser reads is the file, and brackets count outside of texts, IRIs and comments only.

PARTS = st.sampled_from(
    [b'"', b"'", b'"""', b"'''", b"\\", b"<", b">", b"<<(", b")>>", b"#", b"\n", b"(", b")", b"[", b"]", b"x", b" "]
)


@given(st.lists(PARTS, max_size=60).map(b"".join), st.integers(1, 5), st.integers(1, 7))
def test_turtle_parser_receives_every_byte(content: bytes, piece: int, size: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("conjoin.io.turtle.PIECE", piece)
        stream = TurtleBytes(io.BytesIO(content), Sink("x.ttl", "Turtle", SKIP))
        assert b"".join(iter(lambda: stream.read(size), b"")) == content


@pytest.mark.parametrize(
    "text",
    [
        '<a:s> <a:p> "((((((((((" .',
        "<a:s> <a:p> '[[[[[[[[[[' .",
        '<a:s> <a:p> """(((("((("((\n(((""" .',
        "<a:s> <a:p> '''[[[['[[[''[[[[\\'''' .",
        '<a:s> <a:p> "\\"((((((((((" .',
        "<a:s> <a:p> <a:((((((((((> . # ((((((((((((((",
        "@prefix a: <a:> . a:s a:p a:\\(\\(\\(\\(\\(\\(\\(\\(\\(\\( .",
        "<a:s> <a:p> " + "(1) , " * 20 + "[] .",
    ],
)
@pytest.mark.parametrize("piece", [1, 2, 3, 7, 64])
def test_brackets_in_texts_and_comments_are_not_counted(
    text: str, piece: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("conjoin.io.turtle.PIECE", piece)
    nesting = (((b"[", b"("), (b"]", b")"), 5), ((b"<<",), (b">>",), 5))
    monkeypatch.setattr("conjoin.io.turtle.NESTING", nesting)
    (tmp_path / "facts.ttl").write_text(text)
    assert read_triples(tmp_path / "facts.ttl", ReadOptions(literals="keep"))[1].triples


@pytest.mark.parametrize("text", ["(" * 6, "[<a:p> " * 6, '"(" , (((((( "x" ', "(1 " * 6, "<<( <a:s> <a:p> " * 6])
def test_brackets_that_are_nested_too_deep_are_refused(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nesting = (((b"[", b"("), (b"]", b")"), 5), ((b"<<",), (b">>",), 5))
    monkeypatch.setattr("conjoin.io.turtle.NESTING", nesting)
    (tmp_path / "facts.ttl").write_text(f"<a:s> <a:p> {text}")
    with pytest.raises(GraphError, match=r"facts\.ttl.*\b5\b"):
        read_triples(tmp_path / "facts.ttl")


# Parquet: `largest_page` returns the sizes that the writer put into the page headers.


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("compression", ["none", "zstd"])
@pytest.mark.parametrize("dictionary", [False, True])
def test_the_largest_page_is_found(version: str, compression: str, dictionary: bool, tmp_path: Path) -> None:
    columns = {"a": [str(i) for i in range(5000)], "b": ["x" * 50_000] * 3 + ["y"] * 4997, "c": ["z"] * 5000}
    pq.write_table(
        pa.table(columns),
        tmp_path / "a.parquet",
        data_page_version=version,
        compression=compression,
        use_dictionary=dictionary,
        row_group_size=1000,
    )
    with (tmp_path / "a.parquet").open("rb") as stream:
        assert 50_000 < largest_page(stream, {0, 1}) < 200_000 + 5 * 5000
        assert 0 < largest_page(stream, {0, 2}) < 50_000
        assert largest_page(stream, ()) == 0


@given(st.binary(max_size=200), st.binary(max_size=64))
def test_any_parquet_footer_and_page_header_is_parsed_without_crash(footer: bytes, pages: bytes) -> None:
    content = b"PAR1" + pages + footer + len(footer).to_bytes(4, "little") + b"PAR1"
    assert largest_page(io.BytesIO(content), range(100)) >= 0


# Headers of very many columns.


def test_error_on_a_very_wide_header_is_short(tmp_path: Path) -> None:
    wide = [f"c{i}" for i in range(100_000)]
    file = tmp_path / "wide.csv"
    file.write_text(",".join(["head", "relation", "tail", *wide]) + "\n" + ",".join(["a", "r", "b", *wide]) + "\n")
    found, report = both(file)
    assert found == [("a", "r", "b")]
    assert max(map(len, report.sentences())) < 1000
    with pytest.raises(GraphError) as refused:
        read_triples(file, ReadOptions(columns=("head", "relation", "tial")))
    assert len(str(refused.value)) < 2000


def test_security_page_states_every_limit() -> None:
    page = (Path(__file__).parents[2] / "docs" / "threats.md").read_text(encoding="utf-8")
    stated = {int(number.replace(",", "")) for number in re.findall(r"\| ([0-9][0-9,]*)\b", page)}
    numbers = {name: value for name, value in vars(file_limits).items() if name.isupper()}
    assert {name for name, value in numbers.items() if value not in stated} == set()
    assert csv.field_size_limit() in stated
