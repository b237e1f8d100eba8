"""`conjoin explain`: the training facts and paths that support an answer."""

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
    head: Annotated[str, typer.Argument(metavar="HEAD", help="The head: a name or label.")],
    relation: Annotated[str, typer.Argument(metavar="RELATION", help="The relation: a name or label.")],
    tail: Annotated[str, typer.Argument(metavar="TAIL", help="The tail: a name or label.")],
    *,
    k: Annotated[int, typer.Option("-k", help="Number of facts, and of paths.")] = 5,
    weights: opt.Weights = None,
    json: opt.Json = False,
) -> None:
    """Show the training facts and paths that support an answer.

    \b
    conjoin explain runs/atlas Austria borders Italy
    """
    from conjoin.predict.explain import explain as explain_answer
    from conjoin.predict.predictor import open_run

    explanation = explain_answer(open_run(run, weights=weights), head, relation, tail, k=k)
    if json:
        emit(explanation.to_json())
    else:
        show_explanation(explanation)


def show_explanation(explanation: Explanation) -> None:
    """Print the supporting facts and the paths as two tables."""
    rows = [(support.label, f"{100 * support.strength:.1f} %") for support in explanation.supports]
    note = "  (a training fact)" if explanation.trained else ""
    show_table(f"{explanation.label}{note}", ("supported by", "share"), rows)
    if not rows:
        show("No training fact about its head or tail supports this answer.")
    links = [(path_line(explanation, i), f"{path.strength:.2g}") for i, path in enumerate(explanation.paths)]
    if links:
        show_table("paths", ("from head to tail", "weight"), links)


def path_line(explanation: Explanation, index: int) -> str:
    """The facts of one path from head to tail, each as the graph holds it."""
    return spelled(" · ".join(step.label for step in explanation.paths[index].steps))
