"""`conjoin export`: a run in formats that other programs read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from conjoin.cli import options as opt
from conjoin.cli.output import emit, show

if TYPE_CHECKING:
    pass


def export(
    run: opt.RunArgument,
    *,
    out: Annotated[Path, typer.Option("-o", "--out", help="Folder to write to.")],
    format: Annotated[str, typer.Option(help="safetensors (a bundle that opens by itself), parquet or word2vec.")] = (
        "safetensors"
    ),
    weights: opt.Weights = None,
    json: opt.Json = False,
) -> None:
    """Take a model elsewhere.

    As a bundle that `conjoin.open` and every verb open by itself, as Parquet tables, or as word2vec text.

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
