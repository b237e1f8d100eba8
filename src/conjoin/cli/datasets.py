"""`conjoin datasets`: list the named datasets."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from conjoin.cli import options as opt
from conjoin.cli.output import emit, say, show_table

Item = TypeVar("Item")


def datasets(*, json: opt.Json = False) -> None:
    """List the named datasets, their sizes and licences.

    \b
    conjoin datasets
    conjoin fetch wn18rr
    """
    from conjoin.datasets.load import locate
    from conjoin.datasets.registry import dataset, every_name

    records = [(record, locate(record.name)) for record in available_datasets(every_name(), dataset)]
    if json:
        emit(
            {
                "datasets": [
                    {
                        "name": record.name,
                        "title": record.title,
                        **vars(record.counts),
                        "licence": record.licence,
                        "sources": list(record.sources),
                        "folder": str(folder) if folder else None,
                    }
                    for record, folder in records
                ]
            }
        )
        return
    sizes = [(record.name, *(f"{count:,}" for count in vars(record.counts).values())) for record, _ in records]
    show_table("Datasets", ("name", "train", "valid", "test", "entities", "relations"), sizes)
    locations = [
        (
            record.name,
            "embedded" if record.embedded else str(folder) if folder else "conjoin fetch " + record.name,
            record.licence,
        )
        for record, folder in records
    ]
    show_table("Files", ("name", "where", "licence"), locations, left=3)


def available_datasets(names: Iterable[str], find: Callable[[str], Item]) -> list[Item]:
    """The item of each name. A broken plugin is reported and left out."""
    from conjoin.errors import BrokenPlugin

    items = []
    for name in names:
        try:
            items.append(find(name))
        except BrokenPlugin as error:
            say(f"left out: {error}")
    return items
