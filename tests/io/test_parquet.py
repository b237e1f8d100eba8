"""Parquet: column types, nulls, bad text, damage."""

from __future__ import annotations

import contextlib
import gzip
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from conjoin.errors import GraphError
from conjoin.io.readers import ReadOptions, Triples, read_triples

SKIP = ReadOptions(on_error="skip")


def put(folder: Path, columns: dict[str, Any] | pa.Table, **settings: Any) -> Path:
    path = folder / "facts.parquet"
    pq.write_table(columns if isinstance(columns, pa.Table) else pa.table(columns), path, **settings)
    return path


def rows(triples: Triples) -> list[tuple[str, str, str]]:
    return list(triples)


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.binary(), pa.large_binary(), pa.dictionary(pa.int32(), pa.string())]
)
def test_parquet_text_types_are_read_as_names(tmp_path: Path, kind: pa.DataType) -> None:
    path = put(tmp_path, {"h": pa.array(["é", "b"]).cast(kind), "r": [1, -2], "t": pa.array([7, 8], pa.uint8())})
    assert rows(read_triples(path)[0]) == [("é", "1", "7"), ("b", "-2", "8")]


@pytest.mark.parametrize("values", [[1.5], [True], [["a"]], [{"a": 1}]])
def test_columns_of_other_types_are_refused(tmp_path: Path, values: list[Any]) -> None:
    path = put(tmp_path, {"head": ["a"], "relation": values, "tail": ["b"]})
    with pytest.raises(GraphError, match=r"'relation'"):
        read_triples(path)


def test_names_of_columns_give_the_order(tmp_path: Path) -> None:
    path = put(tmp_path, {"object": ["c"], "note": [1.5], "subject": ["a"], "predicate": ["b"]})
    assert rows(read_triples(path)[0]) == [("a", "b", "c")]
    other = put(tmp_path, {"x": [0], "y": ["a"], "z": ["b"], "w": ["c"]})
    with pytest.raises(GraphError, match=r"facts\.parquet: .*4 .*'x', 'y', 'z', 'w'.*--columns"):
        read_triples(other)
    for columns in (("y", "z", "w"), (1, 2, 3)):
        assert rows(read_triples(other, ReadOptions(columns=columns))[0]) == [("a", "b", "c")]
    with pytest.raises(GraphError, match="'v'"):
        read_triples(other, ReadOptions(columns=("v", "z", "w")))


def test_columns_with_one_name_are_refused(tmp_path: Path) -> None:
    table = pa.Table.from_arrays([pa.array(["a"])] * 3, names=["x", "x", "y"])
    with pytest.raises(GraphError, match="'x'"):
        read_triples(put(tmp_path, table))


@pytest.mark.parametrize("null", [None, "", "  "])
def test_missing_names_are_reported_with_their_row(tmp_path: Path, null: str | None) -> None:
    path = put(tmp_path, {"h": ["a", "b", "c"], "r": ["r", null, "r"], "t": ["x", "y", "z"]})
    with pytest.raises(GraphError, match=r"facts\.parquet:2: .*relation"):
        read_triples(path)
    triples, report = read_triples(path, SKIP)
    assert rows(triples) == [("a", "r", "x"), ("c", "r", "z")]
    assert report.problems == {"empty name": 1}


def test_invalid_utf8_is_reported_with_its_row(tmp_path: Path) -> None:
    bad = pa.array([b"a", b"\xff", b"c"]).view(pa.string())
    for column in (bad, pa.array([b"a", b"\xff", b"c"])):
        path = put(tmp_path, {"h": column, "r": ["r"] * 3, "t": ["x", "y", "z"]})
        with pytest.raises(GraphError, match=r"facts\.parquet:2: "):
            read_triples(path)
        triples, report = read_triples(path, SKIP)
        assert rows(triples) == [("a", "r", "x"), ("c", "r", "z")]
        assert report.lines == 3


def test_rows_are_counted_over_batches(tmp_path: Path) -> None:
    names: list[str | None] = [str(i % 100) for i in range(150_000)]
    names[140_000] = None
    path = put(tmp_path, {"h": names, "r": ["r"] * 150_000, "t": ["t"] * 150_000}, row_group_size=9_999)
    with pytest.raises(GraphError, match=r"facts\.parquet:140001: "):
        read_triples(path)


@pytest.mark.parametrize("content", [b"x", b"PAR1", b"PAR1" * 40, b"a\tb\tc\n" * 100])
def test_files_that_are_not_parquet_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "facts.parquet"
    path.write_bytes(content)
    with pytest.raises(GraphError, match=r"facts\.parquet: "):
        read_triples(path)
    packed = tmp_path / "facts.parquet.gz"
    packed.write_bytes(gzip.compress(content))
    with pytest.raises(GraphError, match=r"facts\.parquet\.gz: "):
        read_triples(packed)


def test_damaged_parquet_raises_graph_error_or_reads_the_same(tmp_path: Path) -> None:
    path = put(tmp_path, {"h": ["a", "b"] * 50, "r": ["r"] * 100, "t": [str(i) for i in range(100)]})
    content = path.read_bytes()
    chance = random.Random(0)
    for _ in range(200):
        damaged = bytearray(content)
        damaged[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
        path.write_bytes(damaged)
        with contextlib.suppress(GraphError):
            read_triples(path, SKIP, may_be_empty=True)
    for length in range(1, len(content), 7):
        path.write_bytes(content[:length])
        with pytest.raises(GraphError, match=r"facts\.parquet: "):
            read_triples(path, SKIP)


def test_damaged_column_names_are_refused(tmp_path: Path) -> None:
    path = put(tmp_path, {"head": ["a"], "relation": ["r"], "tail": ["t"]}, store_schema=False)
    path.write_bytes(path.read_bytes().replace(b"relation", b"rel\xfftion"))
    with pytest.raises(GraphError, match=r"facts\.parquet: "):
        read_triples(path)


def test_page_checksums_are_verified_if_present(tmp_path: Path) -> None:
    path = put(
        tmp_path,
        {"h": ["needle"], "r": ["r"], "t": ["t"]},
        write_page_checksum=True,
        compression="none",
        use_dictionary=False,
        write_statistics=False,
    )
    content = path.read_bytes()
    assert content.count(b"needle") == 1
    path.write_bytes(content.replace(b"needle", b"noodle"))
    with pytest.raises(GraphError, match=r"facts\.parquet: "):
        read_triples(path)
