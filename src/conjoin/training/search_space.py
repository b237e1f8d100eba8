"""The search space of `conjoin tune`: a grid or ranges, the result of a trial, and settings as TOML."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice, product
from math import prod
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from conjoin.datasets.registry import same_name
from conjoin.errors import UsageError, unknown
from conjoin.forms.notation import parse, short
from conjoin.graph.graph import Graph
from conjoin.runtime.toml_schema import read_toml
from conjoin.training.recipe import NO_TERMS, Recipe
from conjoin.training.terms import check_term_names

Grid = Mapping[str, tuple[Any, ...]]
GRIDS: Mapping[str, Grid] = MappingProxyType(
    {
        "paper": MappingProxyType(
            {
                "optimizer": ("adagrad", "adam", "sgd"),
                "rank": (100, 500),
                "lr": (0.01, 0.05, 0.1),
                "batch": (100, 500, 1000, 2000),
                "n3": (0.0025, 0.005, 0.01, 0.05, 0.1, 0.5),
            }
        )
    }
)
BATCHES = (100, 200, 500, 1000, 2000)
LR = (1e-3, 1.0)
N3 = (1e-4, 0.5)
"""The ranges of the guided search, on logarithmic scales."""
GUIDED = 50
"""The default number of trials of a guided search."""


@dataclass(frozen=True, kw_only=True)
class SearchSpace:
    """The settings to search. Without a grid a guided search (TPE) varies lr, n3 and batch at the given rank.

    `negatives`, `negatives_power` and `terms` mean the same as in a `Recipe`. They and `rank` apply if the grid lacks
    them. `trials` is the number of trials of all processes together; by default the whole grid, or `GUIDED`
    without a grid. Every trial trains up to `epochs` epochs with the same seed, and its MRR on valid is computed every
    `validate_every` epochs. With `prune` a trial stops if its MRR is below the median of the other trials at the same
    epoch. `storage` is the address of a database; a search with the same storage continues.

    >>> SearchSpace(form="complex-conj", trials=20).wanted
    20
    >>> search = SearchSpace(form="complex-conj", grid={"rank": (32, 64), "n3": (0.01, 0.05, 0.1)})
    >>> search.points, search.wanted, search.strategy
    (6, 6, 'grid-6')
    """

    form: str
    trials: int | None = None
    grid: Grid | None = None
    rank: int = 100
    negatives: int = 0
    negatives_power: float = 0.0
    terms: Mapping[str, float] = NO_TERMS
    epochs: int = 50
    validate_every: int = 5
    prune: bool = True
    seed: int = 0
    storage: str = "sqlite:///tune.db"

    def __post_init__(self) -> None:
        for name in ("trials", "rank", "epochs", "validate_every"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise UsageError(f"{name} = {value} is too small. It must be at least 1.")
        if self.grid and not 0 <= self.seed < 2**32:
            raise UsageError(f"seed = {self.seed} is not possible with a grid. Choose a seed from 0 to {2**32 - 1}.")
        form = parse(self.form)
        for rank in self.values("rank"):
            if type(rank) is not int:
                raise UsageError(f"rank = {rank!r} has the wrong type. It must be of type int.")
            form.check_rank(rank)
        for key in {"epochs", "validate_every"}.intersection(self.grid or {}):
            option = f"--{key.replace('_', '-')}"
            raise UsageError(
                f"The grid contains {key}, which must be the same for all trials. Set it outside the grid ({option} 5)."
            )
        values = {key: some for key, some in (self.grid or {}).items() if key != "rank"}
        plain = {name: getattr(self, name) for name in ("validate_every", "negatives", "negatives_power", "terms")}
        check_term_names(self.terms)
        for point in islice(product(*values.values()), 10_000):  # Longer grids are checked by their trials.
            Recipe.from_mapping({**plain, **dict(zip(values, point, strict=True))})

    def values(self, name: str) -> tuple[Any, ...]:
        """The values that trials use for a setting: the values of the grid, else the attribute of that name.

        >>> SearchSpace(form="complex", grid={"rank": (32, 64)}, negatives=500).values("negatives")
        (500,)
        """
        return tuple((self.grid or {}).get(name, (getattr(self, name),)))

    @property
    def points(self) -> int | None:
        """The number of points of the grid; None without a grid."""
        return prod(map(len, self.grid.values())) if self.grid else None

    @property
    def wanted(self) -> int:
        """The number of trials after which the search ends."""
        return self.trials or self.points or GUIDED

    @property
    def strategy(self) -> str:
        """A part of the name of the search in its storage, so that different searches do not mix."""
        return f"grid-{self.points}" if self.grid else f"tpe-rank-{self.rank}"


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """The result of a trial: its settings with the rank, and the best MRR on valid, reached after `epoch` epochs."""

    number: int
    settings: Mapping[str, Any]
    state: Literal["complete", "pruned", "failed"]
    mrr: float | None = None
    epoch: int = 0
    reason: str = ""


def grid_of(name: str) -> Grid:
    """The grid with this name, or the table [grid] of a TOML file such as a study."""
    if name in GRIDS:
        return GRIDS[name]
    if not Path(name).suffix:
        raise unknown("grid", name, GRIDS, way_out=f"Grids are {', '.join(GRIDS)}, or a TOML file with [grid].")
    grid = read_toml(Path(name)).get("grid")
    if not isinstance(grid, dict) or not all(isinstance(values, list) and values for values in grid.values()):
        raise UsageError(f"{name} has no table [grid] of lists. Add one, such as [grid] with lr = [0.01, 0.1].")
    return {key: tuple(values) for key, values in grid.items()}


def settings_block(graph: Graph, search: SearchSpace, attempt: Attempt) -> str:
    """The settings of a trial as TOML for `conjoin train --settings` and for studies.

    `epochs` is the epoch with the best MRR, because a run reports its last epoch.
    """
    settings = {**attempt.settings, "epochs": attempt.epoch}
    order = ("rank", "epochs", "batch", "n3", "lr", "optimizer")
    lines = [f"{key} = {_toml(settings[key])}" for key in (*order, *sorted(set(settings) - set(order)))]
    name = short(parse(search.form))
    return "\n".join(
        [
            f"# {name} on {graph.name}: MRR {attempt.mrr:.4f} on valid, trial {attempt.number} of the search",
            f"[settings.{json.dumps(graph.name)}.{json.dumps(name)}]",
            *lines,
        ]
    )


def _toml(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{json.dumps(key)} = {_toml(each)}" for key, each in value.items()) + " }"
    return json.dumps(value) if isinstance(value, str) else repr(value)


def read_block(path: Path, graph: str, form: str) -> tuple[dict[str, Any], str]:
    """Read settings from a TOML file: rank and a recipe's keys at the top, or tables [settings.GRAPH.FORM].

    Of several tables the one for this graph and form is used. A single table is used for any graph and form. The
    second result is "" or "FORM on GRAPH", if the table was made for others.
    """
    tables, wanted = read_toml(path), short(parse(form))
    if "settings" not in tables:
        return tables, ""
    try:
        blocks = {
            (dataset, name): dict(block)
            for dataset, named in tables["settings"].items()
            for name, block in named.items()
        }
    except (AttributeError, TypeError, ValueError) as error:
        raise UsageError(
            f"{path}: `settings` is not a table of tables. Use [settings.GRAPH.FORM], as `conjoin tune` prints."
        ) from error
    fitting = [key for key in blocks if same_name(key[0], graph) and key[1] == wanted]
    chosen = fitting or ([*blocks] if len(blocks) == 1 else [])
    if len(chosen) != 1:
        known = ", ".join(f"{name} on {dataset}" for dataset, name in blocks)
        raise UsageError(f"{path} has no settings for {wanted} on {graph}. It has settings for {known or 'nothing'}.")
    dataset, name = chosen[0]
    return blocks[dataset, name], "" if fitting else f"{name} on {dataset}"
