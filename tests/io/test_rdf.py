"""RDF: literals, labels, blank nodes, broken statements; N-Triples line by line, Turtle as a whole."""

from __future__ import annotations

import builtins
import gzip
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pyoxigraph
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conjoin.errors import GraphError, NotInstalled
from conjoin.io import rdf
from conjoin.io.readers import ReadOptions, Triples, read_triples

SKIP = ReadOptions(on_error="skip")
E = "http://e/"
RDFS = "http://www.w3.org/2000/01/rdf-schema#"
SKOS = "http://www.w3.org/2004/02/skos/core#"


def put(folder: Path, content: str | bytes, name: str = "facts.nt") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def rows(triples: Triples) -> list[tuple[str, str, str]]:
    return list(triples)


def test_full_iris_are_used_as_names(tmp_path: Path) -> None:
    path = put(
        tmp_path,
        "<http://e/é#x> <http://e/r?a=1> <urn:isbn:0-395> . # so\n<http://e/\\u00e9#x> <http://e/r> <http://e/b> .",
    )
    assert rows(read_triples(path)[0]) == [
        ("http://e/é#x", "http://e/r?a=1", "urn:isbn:0-395"),
        ("http://e/é#x", "http://e/r", "http://e/b"),
    ]


LITERALS = """
<http://e/a> <http://e/r> <http://e/b> .
<http://e/a> <http://e/name> "tab\\t\\"quoted\\" \\u00e9"@fr .
<http://e/a> <http://e/age> "1"^^<http://www.w3.org/2001/XMLSchema#integer> .
# a comment
"""


@pytest.mark.parametrize("name", ["facts.nt", "facts.ttl"])
def test_literals_are_dropped_with_a_count_or_kept_as_entities(tmp_path: Path, name: str) -> None:
    path = put(tmp_path, LITERALS, name)
    triples, report = read_triples(path)
    assert rows(triples) == [(E + "a", E + "r", E + "b")]
    assert (report.literals_dropped, report.literals_kept) == (2, 0)
    assert any(sentence.startswith(f"{path}: 2 ") for sentence in report.sentences())
    triples, report = read_triples(path, ReadOptions(literals="keep"))
    assert triples.tails[1:] == ['"tab\\t\\"quoted\\" é"@fr', '"1"^^<http://www.w3.org/2001/XMLSchema#integer>']
    assert (report.literals_dropped, report.literals_kept) == (0, 2)
    assert report.lines == 5
    if name == "facts.nt":
        assert (report.blank_lines, report.comments) == (1, 1)


@settings(max_examples=60, deadline=None)
@given(texts=st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=10), min_size=1, max_size=5))
def test_kept_literals_round_trip(tmp_path_factory: pytest.TempPathFactory, texts: list[str]) -> None:
    lines = "".join(f"<http://e/a> <http://e/r> {pyoxigraph.Literal(text)} .\n" for text in texts)
    path = put(tmp_path_factory.mktemp("nt"), lines)
    tails = read_triples(path, ReadOptions(literals="keep"))[0].tails
    again = put(path.parent, "".join(f"<http://e/a> <http://e/r> {tail} .\n" for tail in tails), "again.nt")
    assert read_triples(again, ReadOptions(literals="keep"))[0].tails == tails
    terms = [quad.object for quad in pyoxigraph.parse(path=str(again), format=pyoxigraph.RdfFormat.N_TRIPLES)]
    assert [term.value for term in terms if isinstance(term, pyoxigraph.Literal)] == texts


def test_labels_without_language_or_in_english_come_first(tmp_path: Path) -> None:
    text = f"""@prefix : <{E}> . @prefix rdfs: <{RDFS}> . @prefix skos: <{SKOS}> .
    :a :r :b ; rdfs:label "Deutsch"@de , "British"@en-GB , "English"@en , "plain" .
    :b rdfs:label "seulement"@fr ; skos:prefLabel "first" , "second" ; :size 3 .
    :r rdfs:label "relates to" . :c rdfs:label :b . :d rdfs:label "  " .
    """
    triples, report = read_triples(put(tmp_path, text, "facts.ttl"))
    assert triples.labels == {E + "a": "English", E + "b": "first", E + "r": "relates to"}
    assert rows(triples) == [(E + "a", E + "r", E + "b"), (E + "c", RDFS + "label", E + "b")]
    assert (report.label_statements, report.literals_dropped) == (9, 1)
    kept, report = read_triples(tmp_path / "facts.ttl", ReadOptions(literals="keep"))
    assert kept.labels == triples.labels
    assert (len(kept), report.literals_kept) == (12, 10)


BLANK = """_:b0 <http://e/r> <http://e/a> .
<http://e/a> <http://e/r> _:b.1 .
_:b0 <http://e/s> <http://e/b> .
<http://e/a> <http://e/r> <http://e/b> .
"""


@pytest.mark.parametrize(
    ("name", "scope"), [("train.nt", "train"), ("train.ttl.gz", "train"), ("my train.1.nt", "my_train_1")]
)
def test_blank_nodes_are_named_after_their_file(tmp_path: Path, name: str, scope: str) -> None:
    path = put(tmp_path, gzip.compress(BLANK.encode()) if name.endswith("gz") else BLANK, name)
    triples, report = read_triples(path)
    assert rows(triples)[:3] == [
        (f"_:{scope}.b0", E + "r", E + "a"),
        (E + "a", E + "r", f"_:{scope}.b.1"),
        (f"_:{scope}.b0", E + "s", E + "b"),
    ]
    assert (report.blank_nodes, report.blank_triples_dropped, report.triples) == (2, 0, 4)
    assert read_triples(path, scope="other")[0].heads[0] == "_:other.b0"
    triples, report = read_triples(path, ReadOptions(blank_nodes="drop"))
    assert rows(triples) == [(E + "a", E + "r", E + "b")]
    assert (report.blank_nodes, report.blank_triples_dropped) == (0, 3)
    assert len(report.sentences()) == 1


def test_turtle_blank_nodes_get_the_same_names_on_every_read(tmp_path: Path) -> None:
    path = put(tmp_path, "@prefix : <http://e/> .\n:a :r [ :s :b ; :t [ :s :c ] ] , _:x . [] :r :d .", "facts.ttl")
    triples, report = read_triples(path)
    assert rows(triples) == rows(read_triples(path)[0])
    names = {name for name in triples.heads + triples.tails if name.startswith("_:")}
    assert names == {"_:facts.[1]", "_:facts.[2]", "_:facts.[3]", "_:facts.x"}
    assert report.blank_nodes == 4


LINES: list[tuple[bytes, str]] = [
    (b"<http://e/a> <http://e/r> <http://e/b> .", "triple"),
    (b'<http://e/a> <http://e/r> "x" . # y', "literal"),
    (b'_:a <http://www.w3.org/2000/01/rdf-schema#label> "x" .', "label"),
    (b"_:a <http://e/r> <http://e/b> .", "triple"),
    (b"", "blank"),
    (b" \t", "blank"),
    (b"# comment", "comment"),
    (b"<http://e/a> <http://e/r> <http://e/b>", "broken RDF"),
    (b"<http://e/a> <http://e/r>", "broken RDF"),
    (b"<http://e/a b> <http://e/r> <http://e/b> .", "broken RDF"),
    (b"<a> <http://e/r> <http://e/b> .", "broken RDF"),
    (b'"a" <http://e/r> <http://e/b> .', "broken RDF"),
    (b"<http://e/a> <http://e/r> <http://e/b> . <http://e/a> <http://e/r> <http://e/b> .", "broken RDF"),
    (b'<http://e/a> <http://e/r> "open .', "broken RDF"),
    (b'<http://e/a> <http://e/r> """long""" .', "broken RDF"),
    (b"@prefix : <http://e/> .", "broken RDF"),
    (b'<http://e/a> <http://e/r> "\xff" .', "bad UTF-8"),
    (b"# \xff", "bad UTF-8"),
    (b"<http://e/a> <http://e/r> <<( <http://e/a> <http://e/r> <http://e/b> )>> .", "triple as object"),
    (b"<http://e/a> <http://e/r> " + b"<<( <http://e/a> <http://e/r> " * 50_000, "triple as object"),
]
KINDS = ("triple", "literal", "label", "blank", "comment")


@settings(max_examples=80, deadline=None)
@given(
    chosen=st.lists(st.sampled_from(LINES), max_size=30),
    end=st.sampled_from([b"\n", b"\r\n", b"\r"]),
    block=st.sampled_from([1, 100, 1 << 20]),
)
def test_each_ntriples_line_is_read_or_reported(
    tmp_path_factory: pytest.TempPathFactory, chosen: list[tuple[bytes, str]], end: bytes, block: int
) -> None:
    path = put(tmp_path_factory.mktemp("nt"), b"".join(line + end for line, _ in chosen))
    kinds = Counter(kind for _, kind in chosen)
    bad = [(number, kind) for number, (_, kind) in enumerate(chosen, start=1) if kind not in KINDS]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rdf, "BLOCK_BYTES", block)
        triples, report = read_triples(path, SKIP, may_be_empty=True)
        if bad:
            with pytest.raises(GraphError, match=re.escape(f"{path}:{bad[0][0]}: {bad[0][1]}: ")):
                read_triples(path)
    assert len(triples) == report.triples == kinds["triple"]
    assert (report.literals_dropped, report.label_statements) == (kinds["literal"], kinds["label"])
    assert (report.blank_lines, report.comments) == (kinds["blank"], kinds["comment"])
    assert report.problems == Counter(kind for _, kind in bad)
    assert [(problem.line, problem.reason) for problem in report.samples] == bad
    assert report.lines == len(chosen)


def test_lines_after_a_broken_one_are_read_across_blocks(tmp_path: Path) -> None:
    lines = [f"<http://e/{i}> <http://e/r> <http://e/{i + 1}> ." for i in range(60_000)]
    lines[50_000] = "broken"
    triples, report = read_triples(put(tmp_path, "\n".join(lines)), SKIP)
    assert len(triples) == 59_999
    assert triples.heads[50_000] == E + "50001"
    assert report.samples[0].line == 50_001
    assert report.samples[0].reason == "broken RDF"


@pytest.mark.parametrize("options", [ReadOptions(), SKIP])
@pytest.mark.parametrize(
    ("text", "line"),
    [
        (b"@prefix : <http://e/> .\n:a :b :c .\n:d %%% .\n:a :b :e .", 3),
        (b"@prefix : <http://e/> .\n:a :b :c .\n:d :e", 3),
        (b'@prefix : <http://e/> .\n\n:a :b "\xff" .', 3),
        (b"<a> <b> <c> .", 1),
    ],
)
def test_broken_turtle_always_stops_and_names_the_line(
    tmp_path: Path, text: bytes, line: int, options: ReadOptions
) -> None:
    with pytest.raises(GraphError, match=rf"facts\.ttl:{line}: .*N-Triples"):
        read_triples(put(tmp_path, text, "facts.ttl"), options)


def test_a_triple_as_object_in_turtle(tmp_path: Path) -> None:
    path = put(tmp_path, "@prefix : <http://e/> .\n:a :says <<( :a :b :c )>> . :a :b :c .", "facts.ttl")
    with pytest.raises(GraphError, match=r"facts\.ttl: .*<http://e/says>"):
        read_triples(path)
    triples, report = read_triples(path, SKIP)
    assert len(triples) == 1
    assert report.problems == {"triple as object": 1}
    assert report.samples[0].line is None


def test_deep_nesting_and_long_terms_are_refused_before_parsing(tmp_path: Path) -> None:
    deep = "<http://e/a> <http://e/r> " + "<<( <http://e/a> <http://e/r> " * 50_000 + "<http://e/b>" + " )>>" * 50_000
    with pytest.raises(GraphError, match="1,000"):
        read_triples(put(tmp_path, deep + " .", "deep.ttl"), SKIP)
    lists = "<http://e/a> <http://e/r> " + "( <http://e/b> " * 20_000 + ")" * 20_000 + " ."
    assert len(read_triples(put(tmp_path, lists, "lists.ttl"))[0]) > 20_000
    long = f'<http://e/a> <http://e/r> "{"x" * (17 << 20)}" .\n<http://e/a> <http://e/r> <http://e/b> .\n'
    triples, report = read_triples(put(tmp_path, long, "long.nt"), SKIP)
    assert len(triples) == 1
    assert [(problem.line, problem.reason) for problem in report.samples] == [(1, "line too long")]
    with pytest.raises(GraphError, match=r"long\.ttl.* 16,777,216 bytes"):
        read_triples(put(tmp_path, long, "long.ttl"), SKIP)


def test_lines_of_turtle_are_counted(tmp_path: Path) -> None:
    for text, lines in (("", 0), ("<http://e/a> <http://e/r>\n<http://e/b> .", 2), ("# x\n\n", 2)):
        assert read_triples(put(tmp_path, text, "facts.ttl"), may_be_empty=True)[1].lines == lines


def test_missing_parser_error_names_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name == "pyoxigraph":
            raise ModuleNotFoundError(name)
        return whole(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    for name in ("facts.nt", "facts.ttl"):
        with pytest.raises(NotInstalled, match=r"pip install 'conjoin\[rdf\]'"):
            read_triples(put(tmp_path, LITERALS, name))
    assert len(read_triples(put(tmp_path, "a\tb\tc\n", "facts.tsv"))[0]) == 1
