"""The options of `train` that are settings of a training: rank, and what a recipe has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import typer

from conjoin.cli.options import offering

TermOption = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME=WEIGHT", help="Add a term to the objective, such as dura=0.1; can be repeated."),
]


def term_weights(typed: list[str] | None) -> dict[str, float]:
    """The weights of `--term NAME=WEIGHT`."""
    from conjoin.errors import UsageError

    weights: dict[str, float] = {}
    for words in typed or []:
        name, _, weight = words.partition("=")
        try:
            weights[name.strip()] = float(weight)
        except ValueError as error:
            raise UsageError(f"--term {words} is not NAME=WEIGHT. Write it like --term dura=0.1.") from error
    return weights


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
    group_queries: Annotated[
        int | None,
        typer.Option(
            "--group-queries",
            "--together",
            help="Put up to n answers of one query side by side: faster on a CPU.  [default: 1, as published]",
        ),
    ] = None
    term: TermOption = None
    target_weights: Annotated[
        str | None, typer.Option(help="Weigh examples by their target: none or degree.  [default: none]")
    ] = None

    @property
    def all(self) -> dict[str, Any]:
        """What was typed, by its name."""
        typed = {name: value for name, value in vars(self).items() if value is not None and name != "term"}
        return {**typed, "terms": term_weights(self.term)} if self.term else typed

    @property
    def recipe(self) -> dict[str, Any]:
        """The same without the rank."""
        return {name: value for name, value in self.all.items() if name != "rank"}


settings_options = offering("given", RecipeOptions)
