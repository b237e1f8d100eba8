"""`conjoin similar`: entities with similar embeddings."""

from __future__ import annotations

from typing import Annotated

import typer

from conjoin.cli import options as opt
from conjoin.cli.ask import Most
from conjoin.cli.output import emit, show_table


def similar(
    run: opt.RunArgument,
    entity: Annotated[str, typer.Argument(metavar="ENTITY", help="An entity: a name or label.")],
    *,
    k: Most = 10,
    weights: opt.Weights = None,
    json: opt.Json = False,
) -> None:
    """List the entities with the most similar embeddings.

    "linked" entities share a fact with ENTITY.

    \b
    conjoin similar runs/atlas France
    """
    from conjoin.predict.predictor import open_run
    from conjoin.predict.views import similar_json

    answers = open_run(run, weights=weights).similar(entity, k)
    if json:
        lines = similar_json(answers)
        emit({"run": str(run), "entity": entity, "similar": lines})
        return
    rows = [(answer.label, "linked" if answer.known else "", f"{answer.score:.3f}") for answer in answers]
    show_table(f"Similar to {entity}", ("entity", "", "cosine"), rows, left=2)
