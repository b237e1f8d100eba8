"""The options of `train` that set the rank and the recipe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import typer

from conjoin.cli.options import expand_parameter

TRAINING = "Training settings"


TermOption = Annotated[
    list[str] | None,
    typer.Option(
        rich_help_panel=TRAINING,
        metavar="NAME=WEIGHT",
        help="Add a term to the objective, such as dura=0.1; can be repeated.",
    ),
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


RANK_HELP = "Coordinates per entity: complex, or real in distmult, transe and transh."


@dataclass(frozen=True, kw_only=True)
class RecipeOptions:
    """Settings from the command line; None if the user did not give them."""

    rank: Annotated[
        int | None,
        typer.Option(
            rich_help_panel=TRAINING,
            help=f"{RANK_HELP}  [default: 100]",
        ),
    ] = None
    epochs: Annotated[
        int | None,
        typer.Option(
            rich_help_panel=TRAINING, help="Passes over the training facts, in both directions.  [default: 50]"
        ),
    ] = None
    batch: Annotated[
        int | None,
        typer.Option(
            rich_help_panel=TRAINING,
            help="Examples per step.  [default: a hundredth of all examples, at least 100, at most 1000]",
        ),
    ] = None
    lr: Annotated[float | None, typer.Option(rich_help_panel=TRAINING, help="Learning rate.  [default: 0.1]")] = None
    n3: Annotated[
        float | None,
        typer.Option(
            rich_help_panel=TRAINING,
            help="Weight of the cubic (N3) regulariser.  [default: 0.05 with few facts per entity, else 0.01; 0 for "
            "distances such as TransE]",
        ),
    ] = None
    f2: Annotated[
        float | None,
        typer.Option(rich_help_panel=TRAINING, help="Weight of the quadratic (F2) regulariser.  [default: 0]"),
    ] = None
    optimizer: Annotated[
        str | None, typer.Option(rich_help_panel=TRAINING, help="adagrad, adam or sgd.  [default: adagrad]")
    ] = None
    initial_scale: Annotated[
        float | None,
        typer.Option(rich_help_panel=TRAINING, help="Standard deviation of the initial numbers.  [default: 0.001]"),
    ] = None
    precision: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=TRAINING, help="fp32, tf32 or bf16.  [default: fp32 on a CPU; bf16 or tf32 on a GPU]"
        ),
    ] = None
    validate_every: Annotated[
        int | None, typer.Option(rich_help_panel=TRAINING, help="Rank valid every N epochs.  [default: never]")
    ] = None
    patience: Annotated[
        int | None,
        typer.Option(rich_help_panel=TRAINING, help="Stop after N validations without a better MRR.  [default: never]"),
    ] = None
    negatives: Annotated[
        int | None,
        typer.Option(
            rich_help_panel=TRAINING,
            help="Compare each answer with N sampled entities instead of all.  [default: all entities]",
        ),
    ] = None
    negatives_power: Annotated[
        float | None,
        typer.Option(
            rich_help_panel=TRAINING,
            help="Sample entities in proportion to (1 + number of facts)^POWER.  [default: 0, uniform]",
        ),
    ] = None
    group_queries: Annotated[
        int | None,
        typer.Option(
            "--group-queries",
            rich_help_panel=TRAINING,
            help="Put up to N answers of one query into the same batch, which is faster on a CPU.  [default: 1]",
        ),
    ] = None
    term: TermOption = None
    target_weights: Annotated[
        str | None,
        typer.Option(rich_help_panel=TRAINING, help="Weigh examples by their target: none or degree.  [default: none]"),
    ] = None

    @property
    def all(self) -> dict[str, Any]:
        """The given settings by name."""
        given = {name: value for name, value in vars(self).items() if value is not None and name != "term"}
        return {**given, "terms": term_weights(self.term)} if self.term else given

    @property
    def recipe(self) -> dict[str, Any]:
        """The given settings without the rank."""
        return {name: value for name, value in self.all.items() if name != "rank"}


settings_options = expand_parameter("typed", RecipeOptions)
