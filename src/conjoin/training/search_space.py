"""What a search for settings is: the grid or the ranges, one attempt, and the block that is printed."""

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
"""Trials of a guided search, unless told."""


@dataclass(frozen=True, kw_only=True)
class SearchSpace:
    """What is searched. Without a grid a guided search (TPE) varies lr, n3 and batch at the given rank.

    `negatives`, `negatives_power` and `terms` are those of a `Recipe`. Like the rank they hold where no grid says them.
    `trials` counts those of all processes: the whole grid unless told, and `GUIDED` of a guided search.
    Every trial trains up to `epochs` epochs with the same seed and is ranked on valid every `validate_every`; with
    `prune` it is cut short where its MRR stays below the median of the others at that epoch. `storage` is the address
    of a database: the same search goes on where it was left.

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
                raise UsageError(f"{name} = {value} is too small: it is at least 1")
        if self.grid and not 0 <= self.seed < 2**32:
            raise UsageError(f"seed = {self.seed} cannot order a grid: it is from 0 to {2**32 - 1}")
        form = parse(self.form)
        for rank in self.values("rank"):
            if type(rank) is not int:
                raise UsageError(f"rank = {rank!r} should be of type int")
            form.check_rank(rank)
        for key in {"epochs", "validate_every"}.intersection(self.grid or {}):
            option = f"--{key.replace('_', '-')}"
            raise UsageError(f"{key} is the same for all trials: leave it out of the grid and say it once ({option} 5)")
        values = {key: some for key, some in (self.grid or {}).items() if key != "rank"}
        plain = {name: getattr(self, name) for name in ("validate_every", "negatives", "negatives_power", "terms")}
        check_term_names(self.terms)
        for point in islice(product(*values.values()), 10_000):  # more than anybody waits for; trials check theirs
            Recipe.from_mapping({**plain, **dict(zip(values, point, strict=True))})

    def values(self, name: str) -> tuple[Any, ...]:
        """What trials may have of a setting that is an attribute too: those of the grid, else its own.

        >>> SearchSpace(form="complex", grid={"rank": (32, 64)}, negatives=500).values("negatives")
        (500,)
        """
        return tuple((self.grid or {}).get(name, (getattr(self, name),)))

    @property
    def points(self) -> int | None:
        """How many the grid has."""
        return prod(map(len, self.grid.values())) if self.grid else None

    @property
    def wanted(self) -> int:
        """How many trials end the search."""
        return self.trials or self.points or GUIDED

    @property
    def strategy(self) -> str:
        """What a search of this form is kept under: others do not mix with it."""
        return f"grid-{self.points}" if self.grid else f"tpe-rank-{self.rank}"


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """One trial: its settings (rank among them) and the best MRR on valid, reached after `epoch` epochs."""

    number: int
    settings: Mapping[str, Any]
    state: Literal["complete", "pruned", "failed"]
    mrr: float | None = None
    epoch: int = 0
    reason: str = ""


def grid_of(name: str) -> Grid:
    """A grid by its name, or the [grid] of a TOML file such as a study."""
    if name in GRIDS:
        return GRIDS[name]
    if not Path(name).suffix:
        raise unknown("grid", name, GRIDS, way_out=f"Grids are {', '.join(GRIDS)}, or a TOML file with [grid].")
    grid = read_toml(Path(name)).get("grid")
    if not isinstance(grid, dict) or not all(isinstance(values, list) and values for values in grid.values()):
        raise UsageError(f"{name} has no grid: write [grid] with lists, such as lr = [0.01, 0.1]")
    return {key: tuple(values) for key, values in grid.items()}


def settings_block(graph: Graph, search: SearchSpace, attempt: Attempt) -> str:
    """The settings as TOML that `conjoin train --settings` and a study read.

    `epochs` is the epoch whose MRR was best, since runs report their last epoch.
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
    """The settings in a file: rank and a recipe's keys at its top, or [settings.GRAPH.NAME] as a search prints them.

    With several blocks it is the one of this graph whose name is the form's. A single one serves any graph and form:
    where it was found for others, these are told too.
    """
    tables, wanted = read_toml(path), short(parse(form))
    if "settings" not in tables:
        return tables, ""
    try:
        blocks = {
            (about, name): dict(block) for about, named in tables["settings"].items() for name, block in named.items()
        }
    except (AttributeError, TypeError, ValueError) as error:
        raise UsageError(f"{path}: settings stand in [settings.GRAPH.FORM], as `conjoin tune` prints them") from error
    fitting = [key for key in blocks if same_name(key[0], graph) and key[1] == wanted]
    chosen = fitting or ([*blocks] if len(blocks) == 1 else [])
    if len(chosen) != 1:
        known = ", ".join(f"{about} {name}" for about, name in blocks)
        raise UsageError(f"{path} has no settings for {wanted} on {graph}; it has them for {known or 'nothing'}")
    about, name = chosen[0]
    return blocks[about, name], "" if fitting else f"{name} on {about}"
