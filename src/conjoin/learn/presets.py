"""Presets: settings by name, for a dataset and a form."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import resources
from typing import Any

from conjoin.algebra.forms import FiveStar, Form
from conjoin.errors import UnknownName, unknown


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
        raise UnknownName(f"the preset {name} has no settings for {form}: use --preset paper, or give them yourself")
    return dict(by_dataset[dataset][kind])


@cache
def _presets() -> dict[str, Any]:
    return tomllib.loads(resources.files("conjoin.learn").joinpath("presets.toml").read_text(encoding="utf-8"))
