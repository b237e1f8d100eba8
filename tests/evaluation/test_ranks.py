"""Metrics from two counts per question."""

from __future__ import annotations

import hashlib
import math
import subprocess
import sys
from pathlib import Path
from typing import IO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conjoin.errors import RunError, UnknownName
from conjoin.evaluation.ranks import COLUMNS, TIES, Ranks


def ids(numbers: list[int]) -> npt.NDArray[np.int64]:
    return np.array(numbers, dtype=np.int64)


def made(better: list[int], tied: list[int], candidates: list[int] | None = None) -> Ranks:
    n = len(better)
    place = list(range(n))
    return Ranks(
        head=ids(place),
        relation=ids([i % 3 for i in place]),
        tail=ids([i + 1 for i in place]),
        direction=ids([int(2 * i >= n) for i in place]),
        better=ids(better),
        tied=ids(tied),
        candidates=ids(candidates or [100] * n),
    )


SMALL = made([0, 2, 9, 0], [0, 1, 4, 2], [5, 11, 21, 9])
COUNT = st.integers(0, 10**9)
ANY = st.lists(st.tuples(COUNT, COUNT), max_size=20).map(
    lambda counts: made([b for b, _ in counts], [t for _, t in counts], [b + t + 1 for b, t in counts])
)


def test_policies_by_hand() -> None:
    assert SMALL.ranks("pessimistic").tolist() == [1, 4, 14, 3]
    assert SMALL.ranks("realistic").tolist() == [1, 3.5, 12, 2]
    assert SMALL.ranks("optimistic").tolist() == [1, 3, 10, 1]
    assert SMALL.ranks().tolist() == SMALL.ranks("pessimistic").tolist()


def test_metrics_by_hand() -> None:
    assert SMALL.mrr() == pytest.approx((1 + 1 / 4 + 1 / 14 + 1 / 3) / 4)
    assert SMALL.mrr("optimistic") == pytest.approx((1 + 1 / 3 + 1 / 10 + 1) / 4)
    assert [SMALL.hits(k) for k in (1, 3, 10)] == [0.25, 0.5, 0.75]
    assert [SMALL.hits(k, "realistic") for k in (1, 3, 10)] == [0.25, 0.5, 0.75]
    assert [SMALL.hits(k, "optimistic") for k in (1, 3, 10)] == [0.5, 0.75, 1]
    assert SMALL.mean_rank() == 5.5
    assert SMALL.mean_rank("realistic") == 18.5 / 4
    # ranks - 1 sum to 18; chance expects (4 + 10 + 20 + 8) / 2 = 21
    assert SMALL.adjusted_mean_rank_index() == pytest.approx(1 - 18 / 21)
    assert SMALL.adjusted_mean_rank_index("optimistic") == pytest.approx(1 - 11 / 21)
    metrics = SMALL.metrics("realistic")
    assert list(metrics) == ["mrr", "hits@1", "hits@3", "hits@10", "mean_rank", "adjusted_mean_rank_index", "questions"]
    assert metrics["questions"] == 4
    assert metrics["mrr"] == SMALL.mrr("realistic")
    assert metrics["hits@3"] == SMALL.hits(3, "realistic")


def test_the_adjusted_index_is_one_for_perfect_zero_for_chance() -> None:
    sizes = [7, 31, 1001]
    perfect = made([0, 0, 0], [0, 0, 0], sizes)
    assert perfect.adjusted_mean_rank_index() == 1
    everything_ties = made([0, 0, 0], [n - 1 for n in sizes], sizes)
    assert everything_ties.adjusted_mean_rank_index("realistic") == pytest.approx(0)
    assert everything_ties.adjusted_mean_rank_index("pessimistic") == pytest.approx(-1)
    random = np.random.default_rng(0)
    n = 20_000
    guessed = made(random.integers(0, 50, n).tolist(), [0] * n, [50] * n)
    assert guessed.adjusted_mean_rank_index() == pytest.approx(0, abs=0.02)
    assert math.isnan(made([0], [0], [1]).adjusted_mean_rank_index())


@given(ANY)
def test_policies_are_ordered(ranks: Ranks) -> None:
    worst, middle, best = (ranks.ranks(ties) for ties in TIES)
    assert bool(np.all(worst >= middle))
    assert bool(np.all(middle >= best))
    assert bool(np.all(best >= 1))
    assert bool(np.all(2 * middle == worst + best))
    assert bool(np.all(worst <= ranks.candidates))


def test_no_questions_have_no_metrics() -> None:
    empty = made([], [])
    assert len(empty) == 0
    assert all(math.isnan(value) for name, value in empty.metrics().items() if name != "questions")
    assert empty.by_direction() == {}


def test_an_unknown_policy_is_named() -> None:
    with pytest.raises(UnknownName, match="realistic"):
        SMALL.mrr("realistc")


def test_groups() -> None:
    ranks = made([0, 1, 2, 3, 4, 5], [0] * 6)
    parts = ranks.by_direction()
    assert {name: part.better.tolist() for name, part in parts.items()} == {"tail": [0, 1, 2], "head": [3, 4, 5]}
    assert {r: part.better.tolist() for r, part in ranks.by_relation().items()} == {0: [0, 3], 1: [1, 4], 2: [2, 5]}
    assert list(ranks.by(ids([5, 5, -1, 5, 5, 5]))) == [-1, 5]
    chosen = ranks.where(ranks.better > 3)
    assert [getattr(chosen, column).tolist() for column in COLUMNS] == [
        [4, 5],
        [1, 2],
        [5, 6],
        [1, 1],
        [4, 5],
        [0, 0],
        [100, 100],
    ]
    mean = (parts["tail"].mrr() + parts["head"].mrr()) / 2
    assert ranks.mrr() == pytest.approx(mean)


@given(ranks=ANY)
def test_write_and_read_are_inverse(ranks: Ranks, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("ranks") / "ranks.parquet"
    ranks.write(path)
    again = Ranks.read(path)
    for column in COLUMNS:
        assert getattr(again, column).dtype == np.int64
        assert getattr(again, column).tolist() == getattr(ranks, column).tolist()


def test_a_file_that_cannot_be_written_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "ranks.parquet"
    SMALL.write(str(path))
    before = path.read_bytes()

    def full(_: object, stream: IO[bytes], **__: object) -> None:
        stream.write(b"PAR1")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pq, "write_table", full)
    with pytest.raises(OSError, match="No space"):
        SMALL.where(SMALL.better == 0).write(path)
    assert [file.read_bytes() for file in tmp_path.iterdir()] == [before]
    assert Ranks.read(str(path)).mrr() == SMALL.mrr()


def test_the_file_is_plain_parquet(tmp_path: Path) -> None:
    SMALL.write(tmp_path / "ranks.parquet")
    table = pq.read_table(tmp_path / "ranks.parquet")
    assert table.column_names == list(COLUMNS)
    assert table.column("direction").to_pylist() == ["tail", "tail", "head", "head"]
    assert table.column("better").to_pylist() == [0, 2, 9, 0]


def test_runs_share_their_questions(tmp_path: Path) -> None:
    shared = tmp_path / "questions-test.parquet"
    runs = {name: tmp_path / "wn18rr" / name / "ranks.parquet" for name in ("first", "second")}
    made_of = {"first": SMALL, "second": made([7, 7, 7, 7], [1, 2, 3, 4], [5, 11, 21, 9])}
    for name, path in runs.items():
        path.parent.mkdir(parents=True)
        made_of[name].write(path, questions=shared)
    asked_once = shared.read_bytes()
    for name, path in runs.items():
        assert pq.read_table(path).column_names == ["better", "tied"]
        again = Ranks.read(path)
        for column in COLUMNS:
            assert getattr(again, column).tolist() == getattr(made_of[name], column).tolist()
    with pytest.raises(RunError, match="questions"):
        made([0] * 4, [0] * 4, [6, 11, 21, 9]).write(tmp_path / "third.parquet", questions=shared)
    assert shared.read_bytes() == asked_once
    assert not (tmp_path / "third.parquet").exists()


def test_counts_without_their_questions_are_refused(tmp_path: Path) -> None:
    shared, path = tmp_path / "questions.parquet", tmp_path / "ranks.parquet"
    SMALL.write(path, questions=shared)
    shared.unlink()
    with pytest.raises(RunError, match=r"questions.*\.parquet"):
        Ranks.read(path)
    made([0] * 4, [0] * 4, [6, 11, 21, 9]).write(tmp_path / "other.parquet", questions=shared)
    with pytest.raises(RunError, match=r"questions.*\.parquet"):
        Ranks.read(path)


def test_questions_written_by_another_version_are_the_same(tmp_path: Path) -> None:
    shared, path = tmp_path / "questions.parquet", tmp_path / "ranks.parquet"
    SMALL.write(path, questions=shared)
    before = shared.read_bytes()
    pq.write_table(pq.read_table(shared), shared, compression="gzip")
    assert shared.read_bytes() != before
    again = Ranks.read(path)
    for column in COLUMNS:
        assert getattr(again, column).tolist() == getattr(SMALL, column).tolist()


@pytest.mark.parametrize("column", ["head", "relation", "tail", "direction", "candidates"])
def test_questions_that_differ_in_one_place_are_others(tmp_path: Path, column: str) -> None:
    shared, path = tmp_path / "questions.parquet", tmp_path / "ranks.parquet"
    SMALL.write(path, questions=shared)
    table = pq.read_table(shared)
    values = table.column(column).to_pylist()
    values[0] = "head" if column == "direction" else values[0] + 1
    place = table.column_names.index(column)
    pq.write_table(table.set_column(place, table.field(place), pa.array(values, table.field(place).type)), shared)
    with pytest.raises(RunError, match=r"questions.*\.parquet"):
        Ranks.read(path)


@pytest.mark.parametrize("kind", ["no tail", "a gap", "words for numbers", "numbers for words"])
def test_a_file_of_that_name_without_questions_is_refused(tmp_path: Path, kind: str) -> None:
    shared, path = tmp_path / "questions.parquet", tmp_path / "ranks.parquet"
    SMALL.write(path, questions=shared)
    columns = pq.read_table(shared).to_pydict()
    if kind == "no tail":
        del columns["tail"]
    elif kind == "a gap":
        columns["direction"][1] = None
    elif kind == "words for numbers":
        columns["head"] = ["a"] * 4
    else:
        columns["direction"] = [0, 0, 1, 1]
    pq.write_table(pa.table(columns), shared)
    with pytest.raises(RunError, match=r"questions.*\.parquet"):
        Ranks.read(path)


def test_ranks_that_name_the_bytes_of_their_questions_are_read(tmp_path: Path) -> None:
    shared, path = tmp_path / "questions.parquet", tmp_path / "ranks.parquet"
    SMALL.write(path, questions=shared)
    reference = f"{shared.name} {hashlib.sha256(shared.read_bytes()).hexdigest()}"
    pq.write_table(pq.read_table(path).replace_schema_metadata({b"questions": reference}), path)
    assert Ranks.read(path).better.tolist() == SMALL.better.tolist()
    pq.write_table(pq.read_table(shared), shared, compression="gzip")
    with pytest.raises(RunError, match=r"questions.*\.parquet"):
        Ranks.read(path)


def whole(tmp_path: Path) -> bytes:
    SMALL.write(tmp_path / "whole.parquet")
    return (tmp_path / "whole.parquet").read_bytes()


@pytest.mark.parametrize("keep", [0, 3, 40, -1, -9])
def test_a_truncated_file_is_refused(tmp_path: Path, keep: int) -> None:
    path = tmp_path / "cut.parquet"
    path.write_bytes(whole(tmp_path)[:keep])
    with pytest.raises(RunError, match=r"(?i)rank the run again"):
        Ranks.read(path)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"(?i)rank the run again"):
        Ranks.read(tmp_path / "nowhere.parquet")


def table_with(column: str, values: list[object], kind: pa.DataType | None = None) -> pa.Table:
    columns: dict[str, pa.Array] = {c: pa.array([1, 2], pa.int64()) for c in COLUMNS}
    columns["direction"] = pa.array(["tail", "head"])
    columns[column] = pa.array(values, kind)
    return pa.table(columns)


@pytest.mark.parametrize(
    "table",
    [
        pa.table({c: pa.array([1]) for c in COLUMNS if c != "tied"}),
        table_with("direction", ["tail", "up"]),
        table_with("direction", ["tail", None]),
        table_with("direction", [0, 1]),
        table_with("better", ["one", "two"]),
    ],
    ids=["a column less", "an unknown direction", "no direction", "numbers for directions", "words for numbers"],
)
def test_other_tables_are_refused(tmp_path: Path, table: pa.Table) -> None:
    pq.write_table(table, tmp_path / "other.parquet")
    with pytest.raises(RunError, match=r"(?i)rank the run again"):
        Ranks.read(tmp_path / "other.parquet")


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("values", [[1, None], [1.5, 2.0], [float("nan"), 1.0], ["1", None]])
def test_counts_that_are_not_whole_numbers_are_refused(tmp_path: Path, values: list[object]) -> None:
    pq.write_table(table_with("better", values), tmp_path / "other.parquet")
    with pytest.raises(RunError, match=r"(?i)rank the run again"):
        Ranks.read(tmp_path / "other.parquet")


def test_ranks_need_no_torch() -> None:
    code = "import sys, conjoin.evaluation.ranks; raise SystemExit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
