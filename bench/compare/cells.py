"""Cells of a benchmark (dataset, form, rank, batch, precision), and named grids of cells. Does not import torch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from conjoin.datasets.load import load
from conjoin.errors import UsageError, unknown
from conjoin.graph.graph import Graph, Vocabulary

RANDOM = "random-"
HELD_OUT = 5_000


@dataclass(frozen=True)
class BenchCell:
    """One cell of a benchmark: one line of its table."""

    dataset: str
    form: str
    rank: int
    batch: int
    precision: str = "fp32"

    @classmethod
    def parse(cls, text: str) -> BenchCell:
        """`wn18rr/complex/100/1000`; another precision than fp32 follows after a slash."""
        words = text.split("/")
        if len(words) not in (4, 5) or not all(word.isdecimal() and int(word) for word in words[2:4]):
            raise UsageError(
                f"a cell is DATASET/FORM/RANK/BATCH[/PRECISION], such as wn18rr/complex/100/1000: {text!r}"
            )
        return cls(words[0], words[1], int(words[2]), int(words[3]), *words[4:])

    def __str__(self) -> str:
        return f"{self.dataset}/{self.form}/{self.rank}/{self.batch}/{self.precision}"


TRAIN_GRIDS: dict[str, tuple[BenchCell, ...]] = {
    "paper": (
        BenchCell("fb15k-237", "5star", 500, 2000, "bf16"),
        BenchCell("fb15k-237", "5star-conj", 500, 2000, "bf16"),
        BenchCell("wn18rr", "5star", 500, 1000, "bf16"),
        BenchCell("fb15k-237", "complex", 2000, 100, "bf16"),
        BenchCell("wn18rr", "complex", 2000, 100, "bf16"),
    ),
    "tied": (
        BenchCell("fb15k-237", "5star", 500, 2000, "bf16"),
        BenchCell("fb15k-237", "5star-conj", 500, 2000, "bf16"),
        BenchCell("wn18rr", "5star", 500, 1000, "bf16"),
        BenchCell("wn18rr", "5star-conj", 500, 1000, "bf16"),
        BenchCell("fb15k-237", "complex", 2000, 100, "bf16"),
        BenchCell("fb15k-237", "complex-conj", 2000, 100, "bf16"),
        BenchCell("wn18rr", "complex", 2000, 100, "bf16"),
        BenchCell("wn18rr", "complex-conj", 2000, 100, "bf16"),
    ),
    "cpu": (
        BenchCell("wn18rr", "complex", 100, 1000),
        BenchCell("wn18rr", "5star", 100, 1000),
        BenchCell("wn18rr", "5star-conj", 100, 1000),
        BenchCell("fb15k-237", "complex", 100, 1000),
        BenchCell("fb15k-237", "5star", 100, 1000),
        BenchCell("fb15k-237", "5star-conj", 100, 1000),
        BenchCell("atlas", "complex", 32, 200),
        BenchCell("atlas", "complex-conj", 32, 200),
        BenchCell("atlas", "5star", 32, 200),
        BenchCell("atlas", "5star-conj", 32, 200),
        BenchCell("atlas", "complex", 100, 1000),
        BenchCell("atlas", "5star-conj", 100, 1000),
        BenchCell("wn18rr", "complex", 100, 1000, "bf16"),
        BenchCell("fb15k-237", "complex", 100, 1000, "bf16"),
        BenchCell("atlas", "complex", 100, 1000, "bf16"),
        BenchCell("atlas", "5star-conj", 100, 1000, "bf16"),
    ),
}
"""Grids of `bench train --grid`: the published settings, tied and untied forms, and sizes for two cores."""
RANK_GRIDS: dict[str, tuple[BenchCell, ...]] = {
    "paper": (
        BenchCell("fb15k-237", "complex", 2000, 500),
        BenchCell("fb15k-237", "5star-conj", 500, 500),
        BenchCell("wn18rr", "complex", 2000, 500),
        BenchCell("wn18rr", "5star-conj", 500, 500),
        BenchCell("random-1000000", "complex", 100, 500),
    ),
    "cpu": (
        BenchCell("wn18rr", "complex", 100, 500),
        BenchCell("fb15k-237", "complex", 100, 500),
        BenchCell("atlas", "complex", 100, 500),
    ),
}
"""Grids of `bench rank --grid`. The batch is for plain PyTorch; Conjoin chooses its own batch."""


def cells_of_grid(
    name: str, grids: dict[str, tuple[BenchCell, ...]], *, precision: str | None = None
) -> tuple[BenchCell, ...]:
    """The cells of a grid by name; `precision` replaces the precision of all cells."""
    if name not in grids:
        raise unknown("grid", name, grids, way_out=f"Grids are {', '.join(grids)}.")
    return tuple(replace(cell, precision=precision) for cell in grids[name]) if precision else grids[name]


def graph_of(dataset: str) -> Graph:
    """The dataset, or for `random-N` a graph of N entities with random facts, two per entity and 5,000 to rank."""
    if not dataset.startswith(RANDOM):
        return load(dataset)
    count = dataset.removeprefix(RANDOM)
    if not count.isdecimal() or int(count) < 2:
        raise UsageError(f"{dataset}: a random graph is random-N with N entities, such as random-100000")
    return random_graph(int(count))


def random_graph(entities: int, *, relations: int = 100) -> Graph:
    """Uniformly random facts: no structure, but the shapes of a real graph."""
    chance = np.random.default_rng(0)

    def facts(number: int) -> Any:
        return np.stack([chance.integers(0, n, number) for n in (entities, relations, entities)], axis=1)

    return Graph(
        Vocabulary("entity", tuple(map(str, range(entities)))),
        Vocabulary("relation", tuple(map(str, range(relations)))),
        facts(2 * entities),
        facts(min(HELD_OUT, entities)),
        facts(min(HELD_OUT, entities)),
        name=f"{RANDOM}{entities}",
    )
