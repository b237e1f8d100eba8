"""`conjoin find`: search entities and relations by name."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from conjoin.cli import options as opt
from conjoin.cli.ask import Most
from conjoin.cli.output import emit, show_table


def find(
    run: opt.RunArgument,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="Part of a name or label; small misspellings are fine.")],
    *,
    relations: Annotated[bool, typer.Option("--relations", help="Search relations instead of entities.")] = False,
    k: Most = 10,
    json: opt.Json = False,
) -> None:
    """Search names by a part of them, also misspelt.

    \b
    conjoin find runs/atlas 'untied stat'
    conjoin find runs/atlas capital --relations
    """
    from conjoin.io.graph_store import open_graph
    from conjoin.predict.name_search import entity_names, relation_names
    from conjoin.runs.folder import RunFolder

    graph = open_graph(RunFolder(run).graph_folder)
    matches = (relation_names if relations else entity_names)(graph).find(text, k)
    if json:
        emit({"text": text, "found": [asdict(match) for match in matches]})
        return
    rows = [(match.label, match.name, f"{match.degree:,}") for match in matches]
    show_table(text, ("label", "name", "facts"), rows, left=2)
