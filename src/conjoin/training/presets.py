"""Settings for a graph and a form: the defaults of `conjoin train`, and presets by name."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import resources
from typing import Any

from conjoin.errors import UnknownName, unknown
from conjoin.forms.base import Form
from conjoin.forms.five_star import FiveStar
from conjoin.forms.link import BIAS, DOT
from conjoin.forms.notation import parse
from conjoin.graph.graph import Graph

SPARSE = 10
"""Training facts per entity below which a graph counts as sparse."""


def preset(name: str, dataset: str, form: Form) -> dict[str, Any]:
    """The rank and the recipe's settings of a preset: {"rank": 500, "epochs": 200, …}.

    All 5★ forms use the settings of 5★E. Every other form whose link is the dot product uses the settings of ComplEx.
    UnknownName for forms with another link, because no settings were published for them here.
    """
    presets = _presets()
    if name not in presets:
        raise unknown("preset", name, presets, way_out=f"Presets are {', '.join(presets)}.")
    by_dataset = presets[name]
    if dataset not in by_dataset:
        raise unknown("dataset of this preset", dataset, by_dataset, way_out=f"It has {', '.join(by_dataset)}.")
    if form.link is not DOT:
        raise UnknownName(
            f"The preset {name} has no settings for {form}: it was tuned for dot products, and this form has the link "
            f"{form.link.name}. Leave out the preset (--preset) to use the defaults for the form."
        )
    kind = "5star" if isinstance(form, FiveStar) else "complex"
    if kind not in by_dataset[dataset]:
        raise UnknownName(
            f"The preset {name} has no settings for {form}. Use a 5★ form (--form 5star-conj) or another preset "
            "(--preset paper), or set the rank and the recipe (--rank, --epochs, --n3)."
        )
    return dict(by_dataset[dataset][kind])


@cache
def _presets() -> dict[str, Any]:
    return tomllib.loads(resources.files("conjoin.training").joinpath("presets.toml").read_text(encoding="utf-8"))


def settings_for(graph: Graph, form: Form | str, *, named: str | None = None) -> dict[str, Any]:
    """The default settings of `conjoin train` for a graph and a form. The preset `named` overrides them, rank included.

    >>> from conjoin.training.recipe import Recipe
    >>> graph = Graph.from_triples([("a", "r", "b"), ("b", "r", "c")])
    >>> settings_for(graph, "complex")
    {'epochs': 50, 'batch': 100, 'n3': 0.05}
    >>> Recipe.from_mapping(settings_for(graph, "complex") | {"epochs": 20}).n3
    0.05
    """
    form = form if isinstance(form, Form) else parse(form)
    settings: dict[str, Any] = {"epochs": 50, "batch": usual_batch(2 * len(graph.train)), "n3": usual_n3(graph, form)}
    if named:
        settings |= preset(named, graph.name.casefold(), form)
    return settings


def usual_batch(examples: int) -> int:
    """A hundredth of the examples, between 100 and 1000: small graphs need many steps, large ones big products."""
    return min(1000, max(100, examples // 100))


def usual_n3(graph: Graph, form: Form) -> float:
    """The default weight of the N3 penalty.

    Dot products need a strong penalty on graphs with fewer than ten facts per entity, else a weak one
    (docs/own-graph.md). Distances have none: it did not help them (docs/log.md, 2026-11-18).
    """
    if form.link not in (DOT, BIAS):
        return 0.0
    return 0.05 if len(graph.train) < SPARSE * graph.n_entities else 0.01
