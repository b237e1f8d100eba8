"""Columns, headers, delimiters and the quotes of CSV."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from conjoin.errors import GraphError, UnknownName
from conjoin.io import stream
from conjoin.io.readers import ReadOptions, Triples, read_triples

SKIP = ReadOptions(on_error="skip")


def put(folder: Path, content: str | bytes, name: str = "facts.csv") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def rows(triples: Triples) -> list[tuple[str, str, str]]:
    return list(triples)


@pytest.mark.parametrize(
    ("wrong", "value"),
    [
        ({"on_error": "ignore"}, "'ignore'"),
        ({"literals": "kep"}, "kep.*keep"),
        ({"blank_nodes": None}, "None"),
        ({"columns": (0, 1)}, "(0, 1)"),
        ({"columns": (0, 1, 1)}, "(0, 1, 1)"),
        ({"columns": (0, 1, -1)}, "(0, 1, -1)"),
        ({"columns": (True, 1, 2)}, "(True, 1, 2)"),
        ({"columns": ("h", "r", "t"), "header": False}, "('h', 'r', 't')"),
        ({"delimiter": ""}, "''"),
        ({"delimiter": "::"}, "'::'"),
        ({"delimiter": "\n"}, "'\\n'"),
    ],
)
def test_invalid_read_options_are_refused(wrong: dict[str, Any], value: str) -> None:
    with pytest.raises((GraphError, UnknownName), match=value if ".*" in value else re.escape(value)):
        ReadOptions(**wrong)


@pytest.mark.parametrize("name", ["facts.csv", "facts.tsv"])
@pytest.mark.parametrize(
    "header", ["head,relation,tail", "Subject,PREDICATE,object", " source , rel , target ", "head,property,object"]
)
def test_a_header_with_the_usual_words_is_recognised_and_reported(tmp_path: Path, name: str, header: str) -> None:
    delimiter = "," if name.endswith("csv") else "\t"
    path = put(tmp_path, f"{header}\na,b,c\n".replace(",", delimiter), name)
    triples, report = read_triples(path)
    assert rows(triples) == [("a", "b", "c")]
    assert report.header == tuple(header.split(","))
    assert report.lines == 2
    (sentence,) = report.sentences()
    assert sentence.startswith(f"{path}: ")
    assert ", ".join(header.split(",")) in sentence


def test_a_header_puts_the_columns_in_order(tmp_path: Path) -> None:
    path = put(tmp_path, "tail,s,head,relation\nc,?,a,b\n")
    assert rows(read_triples(path)[0]) == [("a", "b", "c")]


def test_single_letters_are_names_without_a_requested_header(tmp_path: Path) -> None:
    path = put(tmp_path, "t,h,r\nc,a,b\n")
    assert rows(read_triples(path)[0]) == [("t", "h", "r"), ("c", "a", "b")]
    assert rows(read_triples(path, ReadOptions(header=True))[0]) == [("a", "b", "c")]


def test_unknown_headers_are_data_without_a_requested_header(tmp_path: Path) -> None:
    path = put(tmp_path, "from,via,to\na,b,c\n")
    assert len(read_triples(path)[0]) == 2
    assert rows(read_triples(path, ReadOptions(header=True))[0]) == [("a", "b", "c")]
    facts = put(tmp_path, "head,relation,tail\na,b,c\n")
    assert rows(read_triples(facts, ReadOptions(header=False))[0])[0] == ("head", "relation", "tail")


def test_columns_by_name_and_by_position(tmp_path: Path) -> None:
    path = put(tmp_path, "id;to;from;via\n1;c;a;b\n2;f;d;e\n")
    by_name = ReadOptions(columns=("from", "via", "to"), delimiter=";")
    by_place = ReadOptions(columns=(2, 3, 1), delimiter=";", header=True)
    for options in (by_name, by_place):
        assert rows(read_triples(path, options)[0]) == [("a", "b", "c"), ("d", "e", "f")]
    assert len(read_triples(path, ReadOptions(columns=(2, 3, 1), delimiter=";"))[0]) == 3


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (("form", "via", "to"), r":1: .*'form'.*'from', 'via', 'to'.*from\?"),
        ((0, 1, 3), ":1: .*3.*'from', 'via', 'to'"),
    ],
)
def test_missing_columns_are_refused_with_a_list_of_the_existing_ones(
    tmp_path: Path, columns: Any, message: str
) -> None:
    path = put(tmp_path, "from,via,to\na,b,c\n")
    with pytest.raises(GraphError, match=message):
        read_triples(path, ReadOptions(columns=columns, header=True, on_error="skip"))


def test_two_columns_with_one_name_are_refused(tmp_path: Path) -> None:
    path = put(tmp_path, "a,a,b,c\n1,2,3,4\n")
    with pytest.raises(GraphError, match=r"2 .*'a'"):
        read_triples(path, ReadOptions(columns=("a", "b", "c")))


def test_a_header_of_many_columns_needs_a_choice(tmp_path: Path) -> None:
    path = put(tmp_path, "w,x,y,z\na,b,c,d\n")
    for options in (ReadOptions(header=True), ReadOptions()):
        with pytest.raises(GraphError, match=r"facts\.csv:1: .*4 .*'w', 'x', 'y', 'z'.*columns="):
            read_triples(path, options)


def test_chosen_columns_allow_more_columns_of_equal_number_per_line(tmp_path: Path) -> None:
    path = put(tmp_path, "short\nx\ta\tb\tc\nx\ta\tb\tc\td\nx\ta\tb\nx\td\te\tf\n", "facts.tsv")
    triples, report = read_triples(path, ReadOptions(columns=(1, 2, 3), on_error="skip"))
    assert rows(triples) == [("a", "b", "c"), ("d", "e", "f")]
    assert [(problem.line, problem.detail) for problem in report.samples] == [
        (1, "1 column, too few for columns=(1, 2, 3)"),
        (3, "5 columns instead of 4"),
        (4, "3 columns instead of 4"),
    ]


def test_quotes_are_names_in_tsv_and_syntax_in_csv(tmp_path: Path) -> None:
    line = '"a b"|"c|d"|e"f\n'
    assert rows(read_triples(put(tmp_path, line), ReadOptions(delimiter="|"))[0]) == [("a b", "c|d", 'e"f')]
    tsv = put(tmp_path, '"a"\t"b\tc"\n', "facts.tsv")
    assert rows(read_triples(tsv)[0]) == [('"a"', '"b', 'c"')]


def test_quoted_line_breaks_are_kept_and_counted_and_lines_stay_exact(tmp_path: Path) -> None:
    path = put(tmp_path, 'a,"b\r\nb",c\n\nd,e\n"f\nf",g,"h\n\nh"\nx,,y\n')
    triples, report = read_triples(path, SKIP)
    assert rows(triples) == [("a", "b\r\nb", "c"), ("f\nf", "g", "h\n\nh")]
    assert [(problem.line, problem.reason) for problem in report.samples] == [
        (4, "wrong number of columns"),
        (9, "empty name"),
    ]
    assert (report.lines, report.multiline_rows, report.blank_lines) == (9, 2, 1)


def test_unclosed_quote_loses_only_its_line(tmp_path: Path) -> None:
    facts = [(f"h{i}", "r", f"t{i}") for i in range(50)]
    lines = [",".join(fact) for fact in facts]
    for broken in ('a,"b,c', '"', 'a,"b"x,c'):
        path = put(tmp_path, "\n".join([*lines[:20], broken, *lines[20:]]))
        triples, report = read_triples(path, SKIP)
        assert rows(triples) == facts
        assert report.problems == {"broken CSV": 1}
        assert report.samples[0].line == 21
        with pytest.raises(GraphError, match=r"facts\.csv:21: "):
            read_triples(path)


def test_unclosed_quote_is_found_at_the_next_quote(tmp_path: Path) -> None:
    path = put(tmp_path, 'a,b,c\nd,"e,f\ng,h,i\nj,k,"l"\nm,n,o\n')
    triples, report = read_triples(path, SKIP)
    assert rows(triples) == [("a", "b", "c"), ("g", "h", "i"), ("j", "k", "l"), ("m", "n", "o")]
    assert [problem.line for problem in report.samples] == [2]
    assert "line 4" in report.samples[0].detail


def test_lines_joined_into_a_short_row_are_read_again(tmp_path: Path) -> None:
    path = put(tmp_path, 'a,"b\nc,d,e\nf,g,h"\ni,j,k\n')
    triples, report = read_triples(path, SKIP)
    assert rows(triples) == [("c", "d", "e"), ("f", "g", 'h"'), ("i", "j", "k")]
    assert [problem.line for problem in report.samples] == [1]
    assert (report.lines, report.multiline_rows) == (4, 0)


def test_unclosed_quote_in_a_long_file_loses_one_line(tmp_path: Path) -> None:
    facts = [f"h{i},r,t{i}" for i in range(40_000)]
    path = put(tmp_path, "\n".join(["a,b,c", 'd,"e,f', *facts]))
    triples, report = read_triples(path, SKIP)
    assert len(triples) == 40_001
    assert report.samples[0].line == 2
    assert report.lines == 40_002


def test_bad_bytes_in_csv(tmp_path: Path) -> None:
    path = put(tmp_path, b'a,b,c\nd,\xff,f\ng,"h\n\xfe",i\nj,k,l\nm,n\x00,o\n')
    with pytest.raises(GraphError, match=r"facts\.csv:2: .*0xff.*--on-error skip"):
        read_triples(path)
    triples, report = read_triples(path, SKIP)
    assert rows(triples) == [("a", "b", "c"), ("j", "k", "l")]
    assert [(problem.line, problem.reason) for problem in report.samples] == [
        (2, "bad UTF-8"),
        (4, "bad UTF-8"),
        (6, "NUL byte"),
    ]
    for problem, value in zip(report.samples, ("0xff", "0xfe", r"n\x00"), strict=True):
        assert value in problem.detail


def test_other_separators_are_named_for_quoted_cells_and_for_spaces(tmp_path: Path) -> None:
    with pytest.raises(GraphError, match=re.escape("ReadOptions(delimiter=';'")):
        read_triples(put(tmp_path, '"a";"b";"d"\n'))
    with pytest.raises(GraphError, match=re.escape("ReadOptions(delimiter=' '")):
        read_triples(put(tmp_path, "a b c\nd e f\n", "facts.txt"))
    for text, name in (('"a"x,b,c;d;e\n', "facts.csv"), ("a\tb\tc\nNew York City\n", "facts.tsv")):
        with pytest.raises(GraphError, match=name) as caught:
            read_triples(put(tmp_path, text, name))
        assert "delimiter=" not in str(caught.value)


def test_lone_carriage_returns_in_csv_are_a_problem(tmp_path: Path) -> None:
    with pytest.raises(GraphError, match=r"facts\.csv:1: broken CSV"):
        read_triples(put(tmp_path, "a,b,c\rd,e,f\r"))


def test_endless_cells_are_refused(tmp_path: Path) -> None:
    path = put(tmp_path, f"a,b,{'x' * 200_000}\nd,e,f\n")
    triples, report = read_triples(path, SKIP)
    assert rows(triples) == [("d", "e", "f")]
    assert report.problems == {"broken CSV": 1}


def test_first_line_that_looks_like_a_header_is_reported(tmp_path: Path) -> None:
    facts = [f"a{i % 4},r,b{i % 3}" for i in range(12)]
    odd = put(tmp_path, "\n".join(["Subjekt,Verb,Objekt", *facts]), "odd.csv")
    triples, report = read_triples(odd)
    assert len(triples) == 13
    assert report.like_a_header == ("Subjekt", "Verb", "Objekt")
    assert "Subjekt, Verb, Objekt" in report.sentences()[0]
    assert "--header" in report.sentences()[0]
    for lines, options in (
        (facts, ReadOptions()),
        (["a0,Verb,Objekt", *facts], ReadOptions()),
        (["Subjekt,r,Objekt", *facts], ReadOptions()),
        (["Subjekt,Verb,Objekt", *facts], ReadOptions(header=False)),
        (["Subjekt,Verb,Objekt", *facts], ReadOptions(header=True)),
        (["Subjekt,Verb,Objekt", *facts[:3]], ReadOptions()),
    ):
        plain = put(tmp_path, "\n".join(lines), "plain.csv")
        assert read_triples(plain, options)[1].like_a_header is None


def test_wrong_delimiter_error_suggests_the_right_one(tmp_path: Path) -> None:
    file = put(tmp_path, "nr;head;relation;tail\n1;a;r;b\n")
    named = r"4.*ReadOptions\(delimiter=';'\) \(--delimiter ';'\)"
    with pytest.raises(GraphError, match=named):
        read_triples(file)
    with pytest.raises(GraphError, match=named):
        read_triples(file, ReadOptions(columns=("head", "relation", "tail")))


@pytest.mark.parametrize("quoted", [False, True])
def test_a_space_after_every_comma_belongs_to_the_comma(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quoted: bool
) -> None:
    lines = [
        "Subject, Predicate, Object",
        "Lima, located in, Peru",
        "Peru,  borders, Chile",
        "",
        "Peru,borders, Bolivia",
    ]
    if quoted:
        lines[1:1] = ['"Lima, Ohio", "part of", "Allen\nCounty, Ohio"']
    path = put(tmp_path, "\n".join([*lines[:2], *["x, r, y"] * 200, *lines[2:]]))
    triples, report = read_triples(path)
    names = {name for triple in triples for name in triple}
    assert names == {"Lima", "located in", "Peru", "borders", "Chile", "Bolivia", "x", "r", "y"} | (
        {"Lima, Ohio", "part of", "Allen\nCounty, Ohio"} if quoted else set()
    )
    assert report.spaced
    flowed: list[tuple[str, ...]] = []
    found = stream.stream_triples(
        path,
        ReadOptions(),
        lambda b: flowed.extend(zip(*(b.column(i).to_pylist() for i in range(3)), strict=True)),
        scope="",
    )
    assert (flowed, found) == (rows(triples), report)


@pytest.mark.parametrize(
    "text", ["a, r,b\nc, r, d\n", "a,r,b\n", "a, r, b\nc,r,d\n", "a, r, b,\n", '"a, b"\n', ""], ids=repr
)
def test_spaces_after_some_commas_are_part_of_the_names(tmp_path: Path, text: str) -> None:
    triples, report = read_triples(put(tmp_path, text), SKIP, may_be_empty=True)
    assert not report.spaced
    assert [" r" in fact for fact in triples] == [", r" in line for line in text.splitlines() if line.count(",") == 2]
    tsv = put(tmp_path, "a\t r\t b\n", "facts.tsv")
    assert rows(read_triples(tsv)[0]) == [("a", " r", " b")]
