"""`conjoin fetch`: download a named dataset."""

from __future__ import annotations

from typing import Annotated

import typer

from conjoin.cli import options as opt
from conjoin.cli.output import ProgressDisplay, emit, show


def fetch(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of a dataset (`conjoin datasets`).")],
    *,
    json: opt.Json = False,
) -> None:
    """Download a dataset and verify its files.

    If the files are already on this machine, they are only verified.

    \b
    conjoin fetch wn18rr
    """
    from conjoin.datasets.load import fetch as fetch_dataset

    with ProgressDisplay().watching() as watcher:
        folder = fetch_dataset(name, track=watcher.track)
    if json:
        emit({"name": name, "folder": str(folder), "verified": True})
    else:
        show(f"{name} is in {folder}, verified")
