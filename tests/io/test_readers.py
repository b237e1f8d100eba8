"""Reading triples: every format gives the same names, every bad line is named, nothing is dropped unseen."""

from __future__ import annotations

import contextlib
import csv
import gzip
import os
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.benchmarks import benchmark_folder

from conjoin.errors import GraphError
from conjoin.io.read_graph import split_files
from conjoin.io.readers import ReadOptions, ReadReport, Triples, read_triples

Row = tuple[str, str, str]
SKIP = ReadOptions(on_error="skip")
FACTS: list[Row] = [
    ("France", "borders", "Spain"),
    ("Saint Kitts & Nevis", 'is "called"', "سانت كيتس"),
    ("東京", "is in", "日本 🗾"),
    ("France", "borders", "Spain"),
]


def rows(triples: Triples) -> list[Row]:
    return list(triples)


def write_tsv(path: Path, facts: list[Row]) -> None:
    path.write_bytes("".join("\t".join(fact) + "\n" for fact in facts).encode())


def write_csv(path: Path, facts: list[Row]) -> None:
    with path.open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream).writerows(facts)


def write_parquet(path: Path, facts: list[Row]) -> None:
    columns = list(zip(*facts, strict=True)) or [(), (), ()]
    names = ("head", "relation", "tail")
    arrays = {name: pa.array(column, pa.string()) for name, column in zip(names, columns, strict=True)}
    pq.write_table(pa.table(arrays), path)


def write_ntriples(path: Path, facts: list[Row]) -> None:
    path.write_text("".join(" ".join(f"<{iri(name)}>" for name in fact) + " .\n" for fact in facts), encoding="utf-8")


def write_turtle(path: Path, facts: list[Row]) -> None:
    head = "@prefix : <http://example.org/> .\n"
    path.write_text(head + "".join(" ".join(f"<{iri(n)}>" for n in fact) + " .\n" for fact in facts), encoding="utf-8")


def iri(name: str) -> str:
    return "http://example.org/" + quote(name, safe="")


WRITERS: dict[str, Callable[[Path, list[Row]], None]] = {
    "txt": write_tsv,
    "tsv": write_tsv,
    "csv": write_csv,
    "parquet": write_parquet,
    "nt": write_ntriples,
    "ttl": write_turtle,
}


def anything(avoid: str) -> st.SearchStrategy[str]:
    characters = st.characters(exclude_categories=["Cs"], exclude_characters=avoid)
    nasty = st.sampled_from(
        ['"', "''", ",", " x ", "\u2028", "\x85", "\x0b", "ΑΒ", "é", "e\u0301", "👩‍👩‍👧", "שלום", "head"]
    )
    return (st.text(characters, min_size=1, max_size=8) | nasty).filter(lambda name: not name.isspace())


def facts_of(avoid: str) -> st.SearchStrategy[list[Row]]:
    name = anything(avoid)
    return st.lists(st.tuples(name, name, name), min_size=1, max_size=6)


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize("suffix", WRITERS)
def test_every_format_gives_the_same_triples(tmp_path: Path, suffix: str, zipped: bool) -> None:
    path = tmp_path / f"Facts.{suffix.upper()}"
    WRITERS[suffix](path, FACTS)
    if zipped:
        packed = tmp_path / f"{path.name}.GZ"
        packed.write_bytes(gzip.compress(path.read_bytes()))
        path = packed
    triples, report = read_triples(path)
    is_rdf = suffix in ("nt", "ttl")
    expected = [(iri(h), iri(r), iri(t)) for h, r, t in FACTS] if is_rdf else FACTS
    assert rows(triples) == expected
    assert (report.triples, report.lines) == (4, 5 if suffix == "ttl" else 4)
    assert report.sentences() == ()


@settings(max_examples=60, deadline=None)
@given(facts=facts_of("\t\n\0\ufeff"), end=st.sampled_from(["\n", "\r\n"]), final=st.booleans())
def test_tsv_round_trip(tmp_path_factory: pytest.TempPathFactory, facts: list[Row], end: str, final: bool) -> None:
    facts = [(h, r, t.rstrip("\r") or "x") for h, r, t in facts]
    facts = [(h, r, t if not t.isspace() else "x") for h, r, t in facts]
    text = end.join("\t".join(fact) for fact in facts) + (end if final else "")
    path = tmp_path_factory.mktemp("tsv") / "facts.tsv"
    path.write_bytes(text.encode())
    triples, report = read_triples(path, ReadOptions(header=False))
    assert rows(triples) == facts
    assert report.lines == len(facts)


@settings(max_examples=60, deadline=None)
@given(facts=facts_of("\0\ufeff"), delimiter=st.sampled_from([",", ";", "\t", "|", " "]))
def test_csv_round_trip(tmp_path_factory: pytest.TempPathFactory, facts: list[Row], delimiter: str) -> None:
    path = tmp_path_factory.mktemp("csv") / "facts.csv"
    with path.open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream, delimiter=delimiter).writerows(facts)
    triples, _ = read_triples(path, ReadOptions(header=False, delimiter=delimiter))
    assert rows(triples) == facts


@settings(max_examples=60, deadline=None)
@given(facts=facts_of(""))
def test_parquet_round_trip(tmp_path_factory: pytest.TempPathFactory, facts: list[Row]) -> None:
    path = tmp_path_factory.mktemp("parquet") / "facts.parquet"
    write_parquet(path, facts)
    triples, report = read_triples(path)
    assert rows(triples) == facts
    assert report.lines == len(facts)


@settings(max_examples=60, deadline=None)
@given(facts=facts_of(""))
def test_both_rdf_readers_agree(tmp_path_factory: pytest.TempPathFactory, facts: list[Row]) -> None:
    folder = tmp_path_factory.mktemp("rdf")
    write_ntriples(folder / "facts.nt", facts)
    write_turtle(folder / "facts.ttl", facts)
    by_line, _ = read_triples(folder / "facts.nt")
    by_statement, _ = read_triples(folder / "facts.ttl")
    assert rows(by_line) == rows(by_statement) == [(iri(h), iri(r), iri(t)) for h, r, t in facts]


LINES: list[tuple[bytes, str | None]] = [
    (b"a\tb\tc", None),
    (b"a b\t\"q\t'", None),
    (b"", "blank"),
    (b"  ", "blank"),
    (b"a\tb", "wrong number of columns"),
    (b"a b c", "wrong number of columns"),
    (b"a\tb\tc\td", "wrong number of columns"),
    (b"a\tb\tc\t", "wrong number of columns"),
    (b"\tb\tc", "empty name"),
    (b"a\t \tc", "empty name"),
    (b"\t\t", "empty name"),
    (b"a\tb\t\xff\xfe", "bad UTF-8"),
    (b"\xc3\tb\tc", "bad UTF-8"),
    (b"a\tb\tc\x00", "NUL byte"),
]


@settings(max_examples=80, deadline=None)
@given(chosen=st.lists(st.sampled_from(LINES), max_size=40), end=st.sampled_from([b"\n", b"\r\n"]))
def test_each_line_is_read_or_reported(
    tmp_path_factory: pytest.TempPathFactory, chosen: list[tuple[bytes, str | None]], end: bytes
) -> None:
    path = tmp_path_factory.mktemp("lines") / "facts.txt"
    path.write_bytes(b"".join(line + end for line, _ in chosen))
    kinds = [kind for _, kind in chosen]
    bad = [(number, kind) for number, kind in enumerate(kinds, start=1) if kind not in (None, "blank")]
    triples, report = read_triples(path, SKIP, may_be_empty=True)
    assert len(triples) == report.triples == kinds.count(None)
    assert report.blank_lines == kinds.count("blank")
    assert report.problems == Counter(kind for _, kind in bad)
    assert [(problem.line, problem.reason) for problem in report.samples] == bad
    assert report.lines == len(chosen) == report.triples + report.blank_lines + report.n_problems
    if bad:
        with pytest.raises(GraphError, match=re.escape(f"{path}:{bad[0][0]}: {bad[0][1]}: ")) as caught:
            read_triples(path)
        assert "--on-error skip" in str(caught.value)


def test_bad_line_error_states_line_reason_and_skip_option(tmp_path: Path) -> None:
    path = tmp_path / "facts.tsv"
    path.write_bytes(b"a\tb\tc\n\na b c\n")
    with pytest.raises(GraphError) as caught:
        read_triples(path)
    assert str(caught.value).startswith(f"{path}:3: wrong number of columns: ")
    for value in (r"'\t'", "ReadOptions(on_error='skip')", "--on-error skip"):
        assert value in str(caught.value)
    report = read_triples(path, SKIP)[1]
    skipped, blank = report.sentences()
    assert f"{path}:3: wrong number of columns: " in skipped
    assert (report.n_problems, report.blank_lines) == (1, 1)
    assert blank.startswith(f"{path}: 1 ")


def test_file_without_any_good_line_is_an_error_even_when_skipping(tmp_path: Path) -> None:
    path = tmp_path / "facts.tsv"
    path.write_bytes(b"a\n" * 30)
    samples = read_triples(path, SKIP, may_be_empty=True)[1].samples
    assert [problem.line for problem in samples] == list(range(1, 31))
    with pytest.raises(GraphError, match=r"\b30\b.*facts\.tsv:1: wrong number"):
        read_triples(path, SKIP)


@pytest.mark.parametrize("suffix", [*WRITERS, *(f"{suffix}.gz" for suffix in WRITERS)])
def test_an_empty_file_is_an_error_unless_it_may_be_empty(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"facts.{suffix}"
    for content in (b"", gzip.compress(b"")) if suffix.endswith("gz") else (b"",):
        path.write_bytes(content)
        with pytest.raises(GraphError, match=rf"facts\.{suffix}"):
            read_triples(path)
        triples, report = read_triples(path, may_be_empty=True)
        assert len(triples) == report.lines == 0


@pytest.mark.parametrize("suffix", ["txt", "csv", "nt", "ttl"])
def test_byte_order_marks(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"facts.{suffix}"
    WRITERS[suffix](path, FACTS)
    plain = rows(read_triples(path)[0])
    content = path.read_bytes()
    path.write_bytes(b"\xef\xbb\xbf" + content)
    assert rows(read_triples(path)[0]) == plain
    path.write_bytes(content.decode().encode("utf-16"))
    with pytest.raises(GraphError, match=r"UTF-16.*UTF-8"):
        read_triples(path)


@pytest.mark.parametrize("suffix", WRITERS)
def test_missing_files_and_folders(tmp_path: Path, suffix: str) -> None:
    with pytest.raises(GraphError, match=rf"nowhere\.{suffix}"):
        read_triples(tmp_path / f"nowhere.{suffix}")
    (tmp_path / f"folder.{suffix}").mkdir()
    with pytest.raises(GraphError, match=rf"folder\.{suffix}.*read_graph"):
        read_triples(tmp_path / f"folder.{suffix}")
    with pytest.raises(GraphError, match=r"a\\x00b"):
        read_triples(f"a\0b.{suffix}")


@pytest.mark.parametrize("name", ["facts", "facts.json", "facts.nq.gz", "facts.gz"])
def test_unknown_suffixes_name_the_known_ones(tmp_path: Path, name: str) -> None:
    with pytest.raises(GraphError, match=re.escape(".txt, .tsv, .csv, .parquet, .nt, .ttl, ")):
        read_triples(tmp_path / name)


@pytest.mark.parametrize("suffix", WRITERS)
def test_damaged_gzip_is_refused(tmp_path: Path, suffix: str) -> None:
    plain, packed = tmp_path / f"plain.{suffix}", tmp_path / f"facts.{suffix}.gz"
    WRITERS[suffix](plain, FACTS)
    content = gzip.compress(plain.read_bytes(), mtime=0)
    expected = rows(read_triples(plain)[0])
    step = max(1, len(content) // 60)
    for length in range(1, len(content), step):
        packed.write_bytes(content[:length])
        with pytest.raises(GraphError, match=rf"facts\.{suffix}\.gz.*gzip"):
            read_triples(packed, SKIP)
    for place in range(0, len(content), step):
        packed.write_bytes(content[:place] + bytes([content[place] ^ 0x10]) + content[place + 1 :])
        with contextlib.suppress(GraphError):
            assert rows(read_triples(packed, SKIP)[0]) == expected


def test_gzip_needs_its_suffix_and_may_have_several_members(tmp_path: Path) -> None:
    packed = gzip.compress(b"a\tb\tc\n") + gzip.compress(b"d\te\tf\n")
    (tmp_path / "facts.tsv").write_bytes(packed)
    with pytest.raises(GraphError, match=r"facts\.tsv.*\.gz"):
        read_triples(tmp_path / "facts.tsv")
    (tmp_path / "facts.tsv.gz").write_bytes(packed)
    assert rows(read_triples(tmp_path / "facts.tsv.gz")[0]) == [("a", "b", "c"), ("d", "e", "f")]
    (tmp_path / "facts.tsv.gz").write_bytes(b"a\tb\tc\n")
    with pytest.raises(GraphError, match=r"facts\.tsv\.gz.*gzip"):
        read_triples(tmp_path / "facts.tsv.gz")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read every file")
def test_unreadable_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "facts.tsv"
    path.write_bytes(b"a\tb\tc\n")
    path.chmod(0)
    with pytest.raises(GraphError, match=r"facts\.tsv.*Permission denied"):
        read_triples(path)


def test_equal_names_share_one_string(tmp_path: Path) -> None:
    path = tmp_path / "facts.tsv"
    write_tsv(path, FACTS)
    triples, _ = read_triples(path)
    assert triples.heads[0] is triples.heads[3]


@pytest.mark.data
def test_benchmark_files_are_read_completely() -> None:
    triples, report = read_triples(split_files(benchmark_folder("fb15k"))["train"])
    assert len(triples) == report.lines == 483_142
    assert len(set(triples.heads) | set(triples.tails)) == 14_951


def test_clean_report_counts_no_problems() -> None:
    report = ReadReport(file="x", format="TSV", lines=1, triples=1)
    assert report.n_problems == 0
    assert report.sentences() == ()
