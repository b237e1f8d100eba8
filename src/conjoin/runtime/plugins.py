"""Forms, links, readers and datasets that other installed packages announce as entry points.

    [project.entry-points."conjoin.forms"]      name = "package.module:A_FORM_OR_FAMILY"
    [project.entry-points."conjoin.links"]      name = "package.module:A_LINK"
    [project.entry-points."conjoin.readers"]    suffix = "package.module:read"
    [project.entry-points."conjoin.datasets"]   name = "package_with_dataset_toml"

Nothing is imported before its name is asked for. A package that cannot be imported is an error for those who ask for
what it adds, and for nobody else.
"""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from typing import Any, Literal

from conjoin.errors import BrokenPlugin

Kind = Literal["form", "link", "reader", "dataset"]


def names(kind: Kind) -> list[str]:
    """What is announced, in order; nothing is imported."""
    return sorted({entry.name for entry in _announced(kind)})


def origin(kind: Kind, name: str) -> str:
    """The packages that announce a name, as `name 1.2`."""
    return " and ".join(_package(entry) for entry in _announced(kind) if entry.name == name)


def load_plugin(kind: Kind, name: str) -> Any:
    """The object that a package has announced under this name. Every failure is a BrokenPlugin that names it."""
    found = [entry for entry in _announced(kind) if entry.name == name]
    if len(found) != 1:
        raise BrokenPlugin(f"the {kind} {name!r} is announced by {origin(kind, name) or 'nobody'}: keep one of them")
    try:
        return found[0].load()
    except Exception as error:
        raise broken(kind, name, f"{type(error).__name__}: {error}") from error


def broken(kind: Kind, name: str, reason: str) -> BrokenPlugin:
    """The error about what a package adds."""
    package = origin(kind, name)
    return BrokenPlugin(
        f"the {kind} {name!r} of the package {package} cannot be used ({reason}): "
        f"update or uninstall {package.partition(' ')[0]}"
    )


def _announced(kind: Kind) -> tuple[EntryPoint, ...]:
    return tuple(entry_points(group=f"conjoin.{kind}s"))


def _package(entry: EntryPoint) -> str:
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist else entry.value
