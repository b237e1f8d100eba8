"""Labels: a name, what people call it, and whatever else stands on the line."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conjoin.errors import GraphError
from conjoin.io.labels import read_labels, read_labels_with_report

TEXT = '/m/1\tSão Tomé\n00001740\tbreathe.v.01\t__x\tdraw air; "I can"\n\n/m/2\t\n/m/1\tanother\n/m/3\t  x y  \n'


@pytest.mark.parametrize("name", ["entity_labels.tsv", "labels.txt", "labels.TSV.gz"])
def test_two_columns_count_and_the_first_label_wins(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(gzip.compress(TEXT.encode()) if name.endswith("gz") else TEXT.encode())
    assert read_labels(path) == {"/m/1": "São Tomé", "00001740": "breathe.v.01", "/m/3": "x y"}


def test_csv_has_its_quotes(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    path.write_text('a,"Paris, France",x\nb,"the ""b"""\n', encoding="utf-8")
    assert read_labels(path) == {"a": "Paris, France", "b": 'the "b"'}


@pytest.mark.parametrize(
    ("line", "reason"),
    [(b"alone", "wrong number of columns"), (b"\tx", "empty name"), (b"a\t\xff", "bad UTF-8")],
)
def test_bad_label_lines_are_refused_or_counted(tmp_path: Path, line: bytes, reason: str) -> None:
    path = tmp_path / "labels.tsv"
    path.write_bytes(b"a\tA\n" + line + b"\nb\tB\n")
    with pytest.raises(GraphError, match=rf"labels.tsv:2: {reason}: "):
        read_labels(path)
    labels, report = read_labels_with_report(path, on_error="skip")
    assert labels == {"a": "A", "b": "B"}
    assert report.problems == {reason: 1}


def test_other_formats_are_refused(tmp_path: Path) -> None:
    with pytest.raises(GraphError, match=r"labels\.nt.*\.tsv, \.txt or \.csv"):
        read_labels(tmp_path / "labels.nt")
    with pytest.raises(GraphError, match=r"labels\.tsv"):
        read_labels(tmp_path / "labels.tsv")


NAME = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\t\n\r\ufeff"), min_size=1, max_size=8)


@settings(max_examples=40, deadline=None)
@given(labels=st.dictionaries(NAME.filter(str.strip), NAME.map(str.strip).filter(bool), max_size=6))
def test_round_trip(tmp_path_factory: pytest.TempPathFactory, labels: dict[str, str]) -> None:
    path = tmp_path_factory.mktemp("labels") / "labels.tsv"
    path.write_bytes("".join(f"{name}\t{label}\tmore\n" for name, label in labels.items()).encode())
    assert read_labels(path) == labels
