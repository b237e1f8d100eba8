"""`conjoin export`: write a run in a format that other programs read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from conjoin.cli import options as opt
from conjoin.cli.output import emit, show


def export(
    run: opt.RunArgument,
    *,
    out: Annotated[Path, typer.Option("-o", "--out", help="Folder for the files.")],
    format: Annotated[str, typer.Option(help="safetensors (a bundle that every verb opens), parquet or word2vec.")] = (
        "safetensors"
    ),
    weights: opt.Weights = None,
    json: opt.Json = False,
) -> None:
    """Write a run as a bundle, Parquet tables or word2vec text.

    A bundle contains all that `conjoin.open` and every verb need; it can be moved to another machine.

    \b
    conjoin export runs/atlas -o atlas-bundle
    conjoin export runs/atlas -o vectors --format word2vec
    """
    from conjoin.runs.export import export as export_run

    files = export_run(run, out, format=format, weights=weights)
    if json:
        emit({"folder": str(out), "format": format, "files": [str(file) for file in files]})
        return
    for file in files:
        show(str(file))
