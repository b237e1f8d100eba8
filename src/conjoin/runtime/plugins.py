"""Plugins: forms, links, readers, datasets and terms of other installed packages, announced as entry points.

    [project.entry-points."conjoin.forms"]      name = "package.module:A_FORM_OR_FAMILY"
    [project.entry-points."conjoin.links"]      name = "package.module:A_LINK"
    [project.entry-points."conjoin.readers"]    suffix = "package.module:read"
    [project.entry-points."conjoin.datasets"]   name = "package_with_dataset_toml"
    [project.entry-points."conjoin.terms"]      name = "package.module:A_TERM"

A plugin is imported when its name is used for the first time. A plugin that cannot be imported causes an error only
where it is used.
"""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from typing import Any, Literal

from conjoin.errors import BrokenPlugin

Kind = Literal["form", "link", "reader", "dataset", "term"]


def names(kind: Kind) -> list[str]:
    """The sorted names of all announced plugins of a kind, without importing them."""
    return sorted({entry.name for entry in _announced(kind)})


def origin(kind: Kind, name: str) -> str:
    """The packages that announce a name, as `name 1.2`."""
    return " and ".join(_package(entry) for entry in _announced(kind) if entry.name == name)


def load_plugin(kind: Kind, name: str) -> Any:
    """The object that a package announces under this name. Raises BrokenPlugin, with the package, on every failure."""
    entries = [entry for entry in _announced(kind) if entry.name == name]
    if len(entries) != 1:
        packages = origin(kind, name) or "no package"
        raise BrokenPlugin(
            f"The {kind} {name!r} is announced by {packages}. Exactly one installed package may announce it."
        )
    try:
        return entries[0].load()
    except Exception as error:
        raise broken(kind, name, f"{type(error).__name__}: {error}") from error


def broken(kind: Kind, name: str, reason: str) -> BrokenPlugin:
    """The error for a plugin that cannot be used."""
    package = origin(kind, name)
    return BrokenPlugin(
        f"the {kind} {name!r} of the package {package} cannot be used: {reason}. "
        f"Update or uninstall {package.partition(' ')[0]}."
    )


def _announced(kind: Kind) -> tuple[EntryPoint, ...]:
    return tuple(entry_points(group=f"conjoin.{kind}s"))


def _package(entry: EntryPoint) -> str:
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist else entry.value
