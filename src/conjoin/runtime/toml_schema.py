"""Read TOML strictly: unknown keys are errors, so that a misspelt key cannot silently become a default."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from conjoin.errors import UsageError, did_you_mean
from conjoin.runtime import file_limits
from conjoin.runtime.atomic_files import read_limited, refuse_nesting

TOO_DEEP = f"it is nested more than {file_limits.NESTED} levels deep"
DEEP_KEY = re.compile(
    rf"""(?<![\w-])(?:(?:[\w-]++|"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){{{file_limits.NESTED}}}"""
)
"""A dotted key with many parts, a.b.c: Python needs minutes and gigabytes for a hundred thousand parts."""
SHOWN = 10
"""The most files that an error names."""


def read_toml(path: Path) -> dict[str, Any]:
    """The tables of a file. With `extends = "other.toml"` they override the tables of another file in the same folder.

    Tables are merged key by key; numbers, strings and lists are replaced.
    """
    layers: list[dict[str, Any]] = []
    read: list[str] = []
    current = path
    while True:
        if (resolved := _resolved(current)) in read:
            names = ", ".join(Path(file).name for file in read[:SHOWN]) + (", …" if len(read) > SHOWN else "")
            raise UsageError(f"{current} extends itself. Remove `extends` from one of {names}.")
        if len(read) == file_limits.EXTENDS:
            raise UsageError(
                f"{path} extends a chain of more than {file_limits.EXTENDS - 1} other files. Merge some of them."
            )
        read.append(resolved)
        tables = _tables(current)
        base = tables.pop("extends", None)
        layers.append(tables)
        if base is None:
            break
        if not isinstance(base, str):
            raise UsageError(f"{current}: extends = {base!r} should be the name of another file")
        current = current.parent / base
    whole: dict[str, Any] = {}
    for tables in reversed(layers):
        whole = merged(whole, tables)
    return whole


def _resolved(path: Path) -> str:
    """The path without links, which identifies the file."""
    try:
        return os.path.realpath(path)
    except (OSError, ValueError) as error:
        raise UsageError(f"{str(path)!r} cannot be read: {error}") from error


def _tables(path: Path) -> dict[str, Any]:
    """The tables of one file."""
    try:
        text = read_limited(path, file_limits.TOML).decode()
        if DEEP_KEY.search(text):
            raise ValueError(TOO_DEEP)
        tables = tomllib.loads(text.replace("\r\n", "\n").replace("\r", "\n"))
        refuse_nesting(tables)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from error
    except RecursionError as error:
        raise UsageError(f"{path} cannot be read: {TOO_DEEP}. Use fewer levels.") from error
    except ValueError as error:  # invalid TOML or UTF-8, too many digits for Python, or a file name with a NUL byte
        raise UsageError(f"{path} is not valid TOML: {error}") from error
    return tables


def merged(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """The tables of `under`, overridden by the tables of `over`."""
    both = {
        key: merged(under[key], value) if isinstance(value, dict) and isinstance(under.get(key), dict) else value
        for key, value in over.items()
    }
    return {**under, **both}


class TomlTable:
    """A table of a file and its position for messages. `take` reads a key; `end` refuses keys that were not read."""

    def __init__(self, values: Any, where: str) -> None:
        if not isinstance(values, dict):
            raise UsageError(f"{where} should be a table, not {values!r}")
        self.values, self.where = values, where
        self.known: list[str] = []

    def wrong(self, key: str, reason: str) -> UsageError:
        return UsageError(f"{self.where}: {key} {reason}")

    def take(self, key: str, kind: type | tuple[type, ...], default: Any = ...) -> Any:
        """The value of a key, checked to be of `kind`; an int is accepted as a float. Required if it has no default."""
        self.known.append(key)
        if key not in self.values:
            if default is ...:
                raise self.wrong(key, "is missing")
            return default
        value = self.values[key]
        kinds = kind if isinstance(kind, tuple) else (kind,)
        if type(value) is int and float in kinds and int not in kinds:
            try:
                return float(value)
            except OverflowError as error:
                raise self.wrong(key, "is too large a number") from error
        if type(value) not in kinds:
            wanted = " or ".join(_WORDS[kind] for kind in kinds)
            raise self.wrong(key, f"= {value!r} should be {wanted}")
        return value

    def words(self, key: str, default: tuple[str, ...] | None) -> tuple[str, ...] | None:
        """A list of strings."""
        values = self.take(key, list, None)
        if values is None:
            return default
        if any(type(value) is not str for value in values):
            raise self.wrong(key, f"= {values!r} should be a list of strings")
        return tuple(values)

    def tables(self, key: str) -> dict[str, TomlTable]:
        """The tables below a key, by name: [key.NAME]."""
        if isinstance(self.values.get(key), list):
            raise self.wrong(key, f"should be tables with names: write [{key}.NAME], not [[{key}]]")
        named = self.take(key, dict, {})
        inside = f"{self.where} [{key}" if "[" not in self.where else f"{self.where.removesuffix(']')}.{key}"
        return {name: TomlTable(values, f"{inside}.{name}]") for name, values in named.items()}

    def listed(self, key: str) -> list[TomlTable]:
        """An array of tables: [[key]]."""
        if isinstance(self.values.get(key), dict):
            raise self.wrong(key, f"should be a list of tables: write [[{key}]], and a name inside")
        return [TomlTable(each, f"{self.where} {key}[{n}]") for n, each in enumerate(self.take(key, list, []))]

    def end(self) -> None:
        """Raise UsageError for a key that was not read."""
        for key in self.values:
            if key not in self.known:
                hint = did_you_mean(key, self.known)
                raise self.wrong(repr(key), f"is not known here.{hint} Known keys are {', '.join(self.known)}.")


_WORDS = {str: "text", int: "a whole number", float: "a number", bool: "true or false", list: "a list", dict: "a table"}
