"""Ranks: two counts per query, which give every metric under every tie policy. Does not import torch."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from conjoin.errors import RunError, unknown
from conjoin.io.formats import AnyPath
from conjoin.runtime.atomic_files import proper, replacing, sha256_of

Ids = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]
TIES: dict[str, float] = {"pessimistic": 1.0, "realistic": 0.5, "optimistic": 0.0}
ASKED = ["head", "relation", "tail", "direction", "candidates"]
COUNTED = ["better", "tied"]
COLUMNS = ("head", "relation", "tail", "direction", "better", "tied", "candidates")
QUESTIONS = b"questions"
LEVELS = 3
"""How many folders are searched for shared questions: the folder of the file and the ones above."""
DIRECTIONS = ("tail", "head")
"""Which end is asked for: the tail in (h, r, ?), the head in (?, r, t)."""


@dataclass(frozen=True, eq=False)
class Ranks:
    """One entry per question, each array of shape (n,).

    `head`, `relation`, `tail` are the triple; `direction` is 0 where the tail was asked, 1 where the head was.
    `better` entities score strictly higher than the truth, `tied` other entities the same; `candidates` compete at
    all (entities that complete another known triple do not).

    >>> column = lambda *numbers: np.array(numbers)
    >>> ranks = Ranks(column(0, 0), column(1, 1), column(2, 2), column(0, 1), column(0, 3), column(0, 2), column(9, 9))
    >>> ranks.ranks().tolist(), ranks.ranks("optimistic").tolist()
    ([1.0, 6.0], [1.0, 4.0])
    >>> round(ranks.mrr(), 3), ranks.hits(3), ranks.mean_rank("realistic"), ranks.adjusted_mean_rank_index()
    (0.583, 0.5, 3.0, 0.375)
    >>> sorted(ranks.metrics())
    ['adjusted_mean_rank_index', 'hits@1', 'hits@10', 'hits@3', 'mean_rank', 'mrr', 'questions']
    >>> len(ranks.where(ranks.better == 0)), list(ranks.by(ranks.tail)), list(ranks.by_relation())
    (1, [2], [1])
    >>> {word: part.mrr() for word, part in ranks.by_direction().items()}["tail"]
    1.0
    >>> ranks.write("ranks.parquet")
    >>> Ranks.read("ranks.parquet").mrr() == ranks.mrr()
    True
    """

    head: Ids
    relation: Ids
    tail: Ids
    direction: Ids
    better: Ids
    tied: Ids
    candidates: Ids

    def __len__(self) -> int:
        return len(self.better)

    def __repr__(self) -> str:
        return f"Ranks({len(self):,} questions, MRR {self.mrr():.4f})"

    def ranks(self, ties: str = "pessimistic") -> Reals:
        """1 + better + tied · the factor of the tie policy, (n,)."""
        if ties not in TIES:
            raise unknown("tie policy", ties, TIES, way_out=f"Choose from {', '.join(TIES)}.")
        return 1 + self.better + TIES[ties] * self.tied

    def mrr(self, ties: str = "pessimistic") -> float:
        """Mean reciprocal rank."""
        return _mean(1 / self.ranks(ties))

    def hits(self, k: int, ties: str = "pessimistic") -> float:
        """Share of questions whose answer ranks among the first k."""
        return _mean(self.ranks(ties) <= k)

    def mean_rank(self, ties: str = "pessimistic") -> float:
        """The mean of the ranks; one bad answer moves it far."""
        return _mean(self.ranks(ties))

    def adjusted_mean_rank_index(self, ties: str = "pessimistic") -> float:
        """1 for a perfect model, 0 for chance, whatever the number of candidates."""
        chance = float(np.sum(self.candidates - 1)) / 2
        return 1 - float(np.sum(self.ranks(ties) - 1)) / chance if chance > 0 else float("nan")

    def metrics(self, ties: str = "pessimistic") -> dict[str, float]:
        """All metrics by name."""
        return {
            "mrr": self.mrr(ties),
            **{f"hits@{k}": self.hits(k, ties) for k in (1, 3, 10)},
            "mean_rank": self.mean_rank(ties),
            "adjusted_mean_rank_index": self.adjusted_mean_rank_index(ties),
            "questions": len(self),
        }

    def where(self, chosen: npt.NDArray[np.bool_]) -> Ranks:
        """The questions for which `chosen` is true."""
        return Ranks(*(getattr(self, column)[chosen] for column in COLUMNS))

    def by(self, labels: npt.NDArray[np.int64]) -> dict[int, Ranks]:
        """The questions grouped by an integer label each, in the order of the labels."""
        return {int(label): self.where(labels == label) for label in np.unique(labels)}

    def by_direction(self) -> dict[str, Ranks]:
        """Tail questions and head questions apart."""
        return {DIRECTIONS[number]: part for number, part in self.by(self.direction).items()}

    def by_relation(self) -> dict[int, Ranks]:
        """The questions of each relation, both directions together."""
        return self.by(self.relation)

    def write(self, path: AnyPath, *, questions: AnyPath | None = None) -> None:
        """One Parquet row per question; `direction` as the word tail or head. The file is there whole or not at all.

        Many runs answer the same questions. With `questions`, the columns that do not depend on the model go to that
        file, once, and `path` holds better and tied only, a tenth of the size.
        """
        table = self._table()
        if questions is None:
            _write_table(table, path)
            return
        asked, shared = table.select(ASKED), Path(questions)
        if not shared.exists():
            _write_table(asked, shared)
        elif not _read_table(shared).equals(asked):
            raise RunError(
                f"{questions} contains other questions: these ranks belong to another graph. Use another folder for it."
            )
        counted = table.select(COUNTED)
        _write_table(counted.replace_schema_metadata({QUESTIONS: f"{shared.name} {questions_checksum(asked)}"}), path)

    @classmethod
    def read(cls, path: AnyPath) -> Ranks:
        """The inverse of `write`. Shared questions are looked for beside the file and in the folders above it."""
        file = Path(path)
        return _ranks_of(_read_table(file), file, lambda name, checksum: _shared_questions(file, name, checksum))

    def _table(self) -> Any:
        import pyarrow as pa

        columns = {column: pa.array(getattr(self, column), pa.int32()) for column in COLUMNS}
        columns["direction"] = pa.array([DIRECTIONS[d] for d in self.direction.tolist()], pa.string())
        return pa.table(columns)


def parse_ranks(content: bytes, name: AnyPath, questions: Callable[[str, str], Mapping[str, Any]]) -> Ranks:
    """The ranks in a file's bytes; errors call it `name`.

    `questions(file name, checksum)` gives the columns of ASKED where the file refers to shared questions.
    """
    return _ranks_of(_read_table(io.BytesIO(content), name), Path(name), questions)


def _ranks_of(table: Any, path: Path, questions: Callable[[str, str], Mapping[str, Any]]) -> Ranks:
    shared = (table.schema.metadata or {}).get(QUESTIONS)
    try:
        if shared is not None:
            name, _, checksum = shared.decode().rpartition(" ")
            for column, values in questions(name, checksum).items():
                table = table.append_column(column, values)
        words = table.column("direction").to_pylist()
        numbers = {c: _whole(table.column(c)) for c in COLUMNS if c != "direction"}
        numbers["direction"] = np.array([DIRECTIONS.index(word) for word in words], dtype=np.int64)
    except (ValueError, KeyError) as error:
        raise RunError(f"Cannot read {path} as ranks ({error}). Rank the run again.") from error
    return Ranks(**numbers)


def _whole(column: Any) -> Ids:
    """A column of integers as int64; raises ValueError for other types and missing values."""
    import pyarrow as pa

    if column.null_count or not pa.types.is_integer(column.type):
        raise ValueError(f"a column of type {column.type} with {column.null_count} gaps")
    return np.asarray(column.to_numpy(), dtype=np.int64)


def _write_table(table: Any, path: AnyPath) -> None:
    import pyarrow.parquet as pq

    with replacing(Path(path)) as aside, aside.open("wb") as stream:
        pq.write_table(table, stream, compression="zstd", compression_level=19)


def _read_table(source: Path | io.BytesIO, name: AnyPath = "") -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        if isinstance(source, Path):
            proper(source)
        return pq.ParquetFile(source).read()
    except (pa.ArrowException, OSError, ValueError) as error:
        raise RunError(f"Cannot read {name or source} as ranks ({error}). Rank the run again.") from error


def _shared_questions(path: Path, name: str, expected: str) -> dict[str, Any]:
    if name != Path(name).name:
        raise RunError(f"{path} refers to {name!r} for its questions, which is not a file name. Rank the run again.")
    for folder in list(path.absolute().parents)[:LEVELS]:
        file = folder / name
        if not file.is_file():
            continue
        table = _read_table(file)
        if sha256_of(file) == expected or questions_checksum(table) == expected:
            return {column: table.column(column) for column in ASKED}
    raise RunError(
        f"{path} counts answers to the questions in {name}. That file is missing or changed."
        f" Restore it beside {path.name} or up to {LEVELS - 1} folders above, or rank the run again."
    )


def parse_questions(content: bytes, name: AnyPath) -> tuple[str, dict[str, Any]]:
    """Checksum and columns of a file of shared questions, from its bytes."""
    table = _read_table(io.BytesIO(content), name)
    return questions_checksum(table), {column: table.column(column) for column in ASKED}


def questions_checksum(questions: Any) -> str:
    """A checksum of the questions' content, whichever version of pyarrow wrote them. Older files use the bytes."""
    digest = hashlib.sha256()
    try:
        for name in ASKED:
            column = questions.column(name)
            digest.update(",".join(column.to_pylist()).encode() if name == "direction" else _whole(column).tobytes())
    except (ValueError, KeyError, TypeError):
        return "no questions"
    return digest.hexdigest()


def _mean(values: npt.NDArray[np.float64] | npt.NDArray[np.bool_]) -> float:
    return float(np.mean(values)) if len(values) else float("nan")
