"""Row groups of many Parquet files in one, and each file's bytes again."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from conjoin.errors import RunError
from conjoin.io.parquet_groups import GroupFile, GroupWriter, split_file


def parquet(table: pa.Table, **options: object) -> bytes:
    stream = io.BytesIO()
    pq.write_table(table, stream, **options)
    return stream.getvalue()


def counts(seed: int, rows: int = 500) -> pa.Table:
    chance = np.random.default_rng(seed)
    columns = {name: pa.array(chance.integers(0, 9_000, rows), pa.int32()) for name in ("better", "tied")}
    return pa.table(columns).replace_schema_metadata({"seed": str(seed)})


def grouped(path: Path, contents: Sequence[bytes], earlier: GroupFile | None = None) -> list[tuple[int, bytes]]:
    writer = GroupWriter(earlier)
    added = [writer.add(content) for content in contents]
    writer.write(path, {"about": "ärger"})
    return added


@pytest.mark.parametrize(
    "options",
    [
        {"compression": "zstd", "compression_level": 19},
        {"compression": "snappy"},
        {"compression": "none", "use_dictionary": False},
        {"compression": "zstd", "data_page_version": "2.0", "data_page_size": 200},
        {"compression": "gzip", "write_statistics": False, "version": "1.0"},
    ],
)
def test_files_are_restored_byte_for_byte_and_the_container_is_parquet(
    tmp_path: Path, options: dict[str, object]
) -> None:
    tables = [counts(seed, rows) for seed, rows in enumerate((500, 1, 40))]
    contents = [parquet(table, **options) for table in tables]
    added = grouped(tmp_path / "all.parquet", contents)
    opened = GroupFile(tmp_path / "all.parquet")
    assert [opened.original(number, tail) for number, tail in added] == contents
    whole = pq.ParquetFile(tmp_path / "all.parquet")
    assert whole.metadata.metadata[b"about"].decode() == "ärger"
    assert whole.metadata.num_rows == 541
    for (number, _), table in zip(added, tables, strict=True):
        assert whole.read_row_group(number).equals(table)
    assert pq.read_table(tmp_path / "all.parquet").equals(pa.concat_tables(tables))


def test_text_columns_stay_text(tmp_path: Path) -> None:
    table = pa.table({"head": pa.array([1, 2], pa.int64()), "direction": ["tail", "häd"]})
    grouped(tmp_path / "all.parquet", [parquet(table)])
    assert pq.read_table(tmp_path / "all.parquet").equals(table)


def test_numbers_and_bytes_of_earlier_groups_stay(tmp_path: Path) -> None:
    first, second = [parquet(counts(seed)) for seed in (0, 1)], [parquet(counts(seed)) for seed in (1, 2)]
    before = grouped(tmp_path / "one.parquet", first)
    after = grouped(tmp_path / "two.parquet", second, GroupFile(tmp_path / "one.parquet"))
    opened = GroupFile(tmp_path / "two.parquet")
    assert [number for number, _ in (*before, *after)] == [0, 1, 1, 2], "equal files are stored once"
    assert len(opened) == 3
    for content, (number, tail) in zip((*first, *second), (*before, *after), strict=True):
        assert opened.original(number, tail) == content
    end = GroupFile(tmp_path / "one.parquet").end
    kept = (tmp_path / "one.parquet").read_bytes()[:end]
    assert (tmp_path / "two.parquet").read_bytes().startswith(kept), "git stores the difference only"


def test_columns_that_files_share_are_stored_once(tmp_path: Path) -> None:
    one, other = counts(0), counts(1)
    mixed = one.set_column(0, "better", other.column("better"))
    for name, tables in (("apart", [one, other]), ("shared", [one, mixed])):
        grouped(tmp_path / name, [parquet(table) for table in tables])
    assert (tmp_path / "shared").stat().st_size < (tmp_path / "apart").stat().st_size - 1_000
    assert pq.read_table(tmp_path / "shared").equals(pa.concat_tables([one, mixed]))


@pytest.mark.parametrize(
    "content",
    [
        b"PAR1",
        b"",
        parquet(pa.table({"a": [[1]]})),
        parquet(counts(0), row_group_size=100),
        parquet(pa.table({"a": [b"x" * 12]}, schema=pa.schema([("a", pa.binary(12))]))),
    ],
    ids=["only magic", "empty", "nested", "several groups", "fixed length"],
)
def test_other_layouts_are_refused(content: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        split_file(content)


def test_other_columns_are_refused() -> None:
    writer = GroupWriter()
    writer.add(parquet(counts(0)))
    with pytest.raises(ValueError, match="direction"):
        writer.add(parquet(pa.table({"direction": ["tail"]})))


def test_any_flipped_bit_of_the_index_is_refused(tmp_path: Path) -> None:
    """pyarrow ends the process on some of them, so that none may reach it."""
    path = tmp_path / "all.parquet"
    grouped(path, [parquet(counts(seed, 20)) for seed in range(2)])
    content, end = path.read_bytes(), GroupFile(path).end
    for place in range(end, len(content)):
        path.write_bytes(content[:place] + bytes([content[place] ^ 1 << place % 8]) + content[place + 1 :])
        with pytest.raises(RunError, match=r"all\.parquet"):
            GroupFile(path)
    for length in (0, 3, 11, end, len(content) - 1):
        path.write_bytes(content[:length])
        with pytest.raises(RunError, match=r"all\.parquet"):
            GroupFile(path)


def test_unknown_group_number_is_refused(tmp_path: Path) -> None:
    grouped(tmp_path / "all.parquet", [parquet(counts(0))])
    opened = GroupFile(tmp_path / "all.parquet")
    for number in (-1, 1, 99):
        with pytest.raises(RunError, match=str(number)):
            opened.original(number, b"")
