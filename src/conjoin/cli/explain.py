"""`conjoin explain`: the facts and paths that support an answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from conjoin.cli import options as opt
from conjoin.cli.output import emit, show, show_table
from conjoin.runtime.text_escaping import spelled

if TYPE_CHECKING:
    from conjoin.predict.explain import Explanation


def explain(
    run: opt.RunArgument,
    head: Annotated[str, typer.Argument(metavar="HEAD", help="A name or label.")],
    relation: Annotated[str, typer.Argument(metavar="RELATION", help="A relation.")],
    tail: Annotated[str, typer.Argument(metavar="TAIL", help="A name or label.")],
    *,
    k: Annotated[int, typer.Option("-k", help="How many facts and how many paths.")] = 5,
    weights: opt.Weights = None,
    json: opt.Json = False,
) -> None:
    """Say which training facts support an answer.

    And how its ends are linked.

    \b
    conjoin explain runs/atlas Austria borders Italy
    """
    from conjoin.predict.explain import explain as explain_answer
    from conjoin.predict.predictor import open_run

    found = explain_answer(open_run(run, weights=weights), head, relation, tail, k=k)
    if json:
        emit(found.to_json())
    else:
        show_explanation(found)


def show_explanation(found: Explanation) -> None:
    """Supports and paths as two tables."""
    rows = [(support.label, f"{100 * support.strength:.1f} %") for support in found.supports]
    itself = "  (a training fact itself)" if found.trained else ""
    show_table(f"{found.label}{itself}", ("supported by", "share"), rows)
    if not rows:
        show("No training fact near it supports this.")
    links = [(path_line(found, place), f"{path.strength:.2g}") for place, path in enumerate(found.paths)]
    if links:
        show_table("paths", ("from head to tail", "weight"), links)


def path_line(found: Explanation, place: int) -> str:
    """The facts of a path, in its order; each as the graph holds it."""
    return spelled(" · ".join(step.label for step in found.paths[place].steps))
