"""The exceptions of this package. Every message says what happened, with the value, and what to do next."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

COMPARED = 200
"""The most characters of a word that is compared with known names, or repeated in a message."""


class ConjoinError(Exception):
    """The base class of all errors of this package. Exit code 1: something failed although the input was valid.

    >>> try:
    ...     raise unknown("form", "5start", ["5star", "complex"])
    ... except ConjoinError as error:
    ...     print(error, "Exit code:", error.exit_code)
    unknown form '5start'. Did you mean 5star? Exit code: 2
    """

    exit_code = 1


class UsageError(ConjoinError):
    """Wrong use or invalid input. Exit code 2."""

    exit_code = 2


class FormError(UsageError):
    """A form, slot, tie or option does not exist or contradicts itself."""


class GraphError(UsageError):
    """A graph cannot be read or used: bad lines, missing splits, unknown format."""


class DatasetError(ConjoinError):
    """A named dataset cannot be found, downloaded or verified."""


class BrokenPlugin(ConjoinError):
    """A form, link, term, reader or dataset of another installed package cannot be used."""


class UnknownName(UsageError):
    """A name (entity, relation, dataset, form, option) does not exist."""


class RunError(UsageError):
    """A run folder is missing, damaged, locked or belongs to other settings."""


class NewerFormat(RunError):
    """A file of a run that a newer version of this package has written, in a format this version cannot read."""


class Diverged(ConjoinError):
    """Training or ranking produced a number that is not finite."""


class ProcessLost(ConjoinError):
    """One of several processes of a run has ended unexpectedly."""


class StorageError(ConjoinError):
    """A disk is full, read-only or missing. Files that were on it before are intact."""


class Stopped(ConjoinError):
    """Work was interrupted between two steps, on request. It can be resumed."""


class NotInstalled(UsageError):
    """An optional package is not installed."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(f"{purpose} needs the package {package}: pip install 'conjoin[{extra}]'")


def did_you_mean(word: str, choices: Iterable[str], *, shown: int = 3) -> str:
    """A sentence with the closest of `choices`, to append to a message; empty if none is close.

    Choices that end with the word come first: `depends` may mean http://example.org/depends. Words and choices of more
    than 200 characters are ignored, because comparing two of them takes the product of their lengths.
    """
    folded: dict[str, str] = {}
    for choice in choices if len(word) <= COMPARED else ():
        if len(choice) <= COMPARED:
            folded.setdefault(choice.casefold(), choice)
    ends = tuple(f"{mark}{word.casefold()}" for mark in "/#:")
    ending = [name for name in folded if word and name.endswith(ends)]
    close = ending[:shown] or difflib.get_close_matches(word.casefold(), folded, n=shown, cutoff=0.6)
    return f" Did you mean {' or '.join(folded[name] for name in close)}?" if close else ""


def unknown(
    kind: str, word: str, choices: Iterable[str], *, way_out: str = "", if_none_is_close: str = ""
) -> UnknownName:
    """The error for a name that is not among `choices`, with suggestions and advice (`way_out`)."""
    suggestion = did_you_mean(word, choices) or f" {if_none_is_close}".rstrip()
    shown = word if len(word) <= COMPARED else word[:COMPARED] + "…"
    return UnknownName(f"unknown {kind} {shown!r}.{suggestion} {way_out}".rstrip())


def quoted(text: str, *, limit: int = 60) -> str:
    """Text from a file or user for a message: quoted, escaped and cut at `limit` characters."""
    return repr(text if len(text) <= limit else text[:limit] + "…")
