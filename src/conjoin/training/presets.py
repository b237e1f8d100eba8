"""Settings for a graph and a form: the usual ones, and presets by name."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import resources
from typing import Any

from conjoin.errors import UnknownName, unknown
from conjoin.forms.base import Form
from conjoin.forms.five_star import FiveStar
from conjoin.forms.notation import parse
from conjoin.graph.graph import Graph

SPARSE = 10
"""Training facts per entity below which a graph counts as sparse."""


def preset(name: str, dataset: str, form: Form) -> dict[str, Any]:
    """The rank and the recipe's settings of a preset: {"rank": 500, "epochs": 200, …}.

    The whole 5★ family shares the settings of 5★E; every other form takes those of ComplEx.
    """
    presets = _presets()
    if name not in presets:
        raise unknown("preset", name, presets, way_out=f"Presets are {', '.join(presets)}.")
    by_dataset = presets[name]
    if dataset not in by_dataset:
        raise unknown("dataset of this preset", dataset, by_dataset, way_out=f"It has {', '.join(by_dataset)}.")
    kind = "5star" if isinstance(form, FiveStar) else "complex"
    if kind not in by_dataset[dataset]:
        raise UnknownName(
            f"the preset {name} has no settings for {form}: take a form that it has them for (--form 5star-conj), "
            "another preset (--preset paper), or give them yourself"
        )
    return dict(by_dataset[dataset][kind])


@cache
def _presets() -> dict[str, Any]:
    return tomllib.loads(resources.files("conjoin.training").joinpath("presets.toml").read_text(encoding="utf-8"))


def settings_for(graph: Graph, form: Form | str, *, named: str | None = None) -> dict[str, Any]:
    """The settings that `conjoin train` takes for a graph, over them those of the preset `named`, its rank too.

    >>> from conjoin.training.recipe import Recipe
    >>> graph = Graph.from_triples([("a", "r", "b"), ("b", "r", "c")])
    >>> settings_for(graph, "complex")
    {'epochs': 50, 'batch': 100, 'n3': 0.05}
    >>> Recipe.from_mapping(settings_for(graph, "complex") | {"epochs": 20}).n3
    0.05
    """
    form = form if isinstance(form, Form) else parse(form)
    settings: dict[str, Any] = {"epochs": 50, "batch": usual_batch(2 * len(graph.train)), "n3": usual_n3(graph)}
    if named:
        settings |= preset(named, graph.name.casefold(), form)
    return settings


def usual_batch(examples: int) -> int:
    """A hundredth of the examples, 100 to 1000: small graphs need many steps, large ones full matrices."""
    return min(1000, max(100, examples // 100))


def usual_n3(graph: Graph) -> float:
    """Graphs with fewer facts than ten per entity need a strong penalty, dense ones a weak one (docs/own-graph.md)."""
    return 0.05 if len(graph.train) < SPARSE * graph.n_entities else 0.01
