"""The options of `train` that are settings of a training: rank, and what a recipe has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import typer

from conjoin.cli.options import offering


@dataclass(frozen=True, kw_only=True)
class RecipeOptions:
    """Settings that were typed; None are those that were not."""

    rank: Annotated[int | None, typer.Option(help="Complex coordinates per entity.  [default: 100]")] = None
    epochs: Annotated[int | None, typer.Option(help="Passes over the doubled training set.  [default: 50]")] = None
    batch: Annotated[
        int | None,
        typer.Option(help="Examples per step.  [default: a hundredth of all examples, 100 to 1000]"),
    ] = None
    lr: Annotated[float | None, typer.Option(help="Learning rate.  [default: 0.1]")] = None
    n3: Annotated[
        float | None,
        typer.Option(help="Weight of the cubic penalty.  [default: 0.05 with few facts per entity, else 0.01]"),
    ] = None
    f2: Annotated[float | None, typer.Option(help="Weight of the quadratic penalty.  [default: 0]")] = None
    optimizer: Annotated[str | None, typer.Option(help="adagrad, adam or sgd.  [default: adagrad]")] = None
    initial_scale: Annotated[float | None, typer.Option(help="Deviation of the start.  [default: 0.001]")] = None
    precision: Annotated[
        str | None, typer.Option(help="fp32, tf32 or bf16.  [default: fp32; on a GPU bf16, else tf32]")
    ] = None
    validate_every: Annotated[int | None, typer.Option(help="Rank valid every n epochs.  [default: never]")] = None
    patience: Annotated[
        int | None, typer.Option(help="Stop after n validations without a better MRR.  [default: never]")
    ] = None
    negatives: Annotated[
        int | None, typer.Option(help="Sample the softmax: so many entities stand for all.  [default: all]")
    ] = None
    negatives_power: Annotated[
        float | None, typer.Option(help="Draw them by (1 + number of facts)^power.  [default: 0, uniform]")
    ] = None
    together: Annotated[
        int | None,
        typer.Option(help="Up to n answers of one question side by side: faster on a CPU.  [default: 1, as published]"),
    ] = None

    @property
    def all(self) -> dict[str, Any]:
        """What was typed, by its name."""
        return {name: value for name, value in vars(self).items() if value is not None}

    @property
    def recipe(self) -> dict[str, Any]:
        """The same without the rank."""
        return {name: value for name, value in self.all.items() if name != "rank"}


settings_options = offering("given", RecipeOptions)
