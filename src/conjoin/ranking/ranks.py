"""Ranks: two counts per question, from which every metric under every tie policy follows. numpy only."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from conjoin.errors import RunError, unknown

Ids = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]
Ties = Literal["pessimistic", "realistic", "optimistic"]
TIES: dict[str, float] = {"pessimistic": 1.0, "realistic": 0.5, "optimistic": 0.0}
COLUMNS = ("head", "relation", "tail", "direction", "better", "tied", "candidates")
DIRECTIONS = ("tail", "head")
"""What was asked for: (h, r, ?) or (?, r, t)."""


@dataclass(frozen=True, eq=False)
class Ranks:
    """One entry per question, each array of shape (n,).

    `head`, `relation`, `tail` are the triple; `direction` is 0 where the tail was asked, 1 where the head was.
    `better` entities score strictly higher than the truth, `tied` other entities the same; `candidates` compete at
    all (entities that complete another known triple do not).
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

    def ranks(self, ties: str = "pessimistic") -> Reals:
        """1 + better + the tie policy's share of tied."""
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

    def write(self, path: Path) -> None:
        """One Parquet row per question; `direction` as the word tail or head."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        columns = {column: pa.array(getattr(self, column), pa.int64()) for column in COLUMNS}
        columns["direction"] = pa.array([DIRECTIONS[d] for d in self.direction.tolist()]).dictionary_encode()
        pq.write_table(pa.table(columns), path, compression="zstd")

    @classmethod
    def read(cls, path: Path) -> Ranks:
        """The inverse of `write`."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            table = pq.read_table(path, columns=list(COLUMNS))
            words = table.column("direction").to_pylist()
            numbers = {c: table.column(c).to_numpy().astype(np.int64) for c in COLUMNS if c != "direction"}
            numbers["direction"] = np.array([DIRECTIONS.index(word) for word in words], dtype=np.int64)
        except (pa.ArrowException, OSError, ValueError, KeyError) as error:
            raise RunError(f"{path} cannot be read as ranks ({error}): rank the run again") from error
        return cls(**numbers)


def _mean(values: npt.NDArray[np.float64] | npt.NDArray[np.bool_]) -> float:
    return float(np.mean(values)) if len(values) else float("nan")
