"""The error tree. Every message says what is wrong and names the way out."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

COMPARED = 200
"""Characters of a word that is compared with known ones, and that a message repeats."""


class ConjoinError(Exception):
    """The base of all errors of this package: something failed while working on valid input, exit code 1.

    >>> try:
    ...     raise unknown("form", "5start", ["5star", "complex"])
    ... except ConjoinError as error:
    ...     print(error, "Exit code:", error.exit_code)
    unknown form '5start'. Did you mean 5star? Exit code: 2
    """

    exit_code = 1


class UsageError(ConjoinError):
    """Wrong use or bad input. The command line exits with 2."""

    exit_code = 2


class FormError(UsageError):
    """A form, slot, tie or option that does not exist or contradicts itself."""


class GraphError(UsageError):
    """A graph that cannot be read or used: bad lines, missing splits, unknown format."""


class DatasetError(ConjoinError):
    """A named dataset that cannot be found, downloaded or verified."""


class BrokenPlugin(ConjoinError):
    """Something that another installed package adds, and that cannot be used."""


class UnknownName(UsageError):
    """A name (entity, relation, dataset, form, option) that is not known."""


class RunError(UsageError):
    """A run folder that is missing, damaged, locked or belongs to other settings."""


class NewerFormat(RunError):
    """A file of a run that a newer version of this package has written, in a format this version cannot read."""


class Diverged(ConjoinError):
    """Training or ranking met a number that is not finite."""


class ProcessLost(ConjoinError):
    """One of several processes that work together has died."""


class StorageError(ConjoinError):
    """A disk that is full, read-only or gone. What was on it before is intact."""


class Stopped(ConjoinError):
    """Work was asked to stop and did so between two steps. It goes on where it stopped."""


class NotInstalled(UsageError):
    """A package that only some users need is missing."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(f"{purpose} needs the package {package}: pip install 'conjoin[{extra}]'")


def did_you_mean(word: str, choices: Iterable[str], *, shown: int = 3) -> str:
    """The closest of `choices` as a sentence to append to a message, or nothing when none is close.

    Choices that end like the word come first: `depends` may stand for http://example.org/depends. Words and choices of
    more than 200 characters are left out: comparing two of them takes the product of their lengths.
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
    """The error for a name that is not among `choices`, with suggestions and the way out."""
    meant = did_you_mean(word, choices) or f" {if_none_is_close}".rstrip()
    told = word if len(word) <= COMPARED else word[:COMPARED] + "…"
    return UnknownName(f"unknown {kind} {told!r}.{meant} {way_out}".rstrip())


def quoted(text: str, *, limit: int = 60) -> str:
    """Foreign text for a message: quoted, escaped and not too long."""
    return repr(text if len(text) <= limit else text[:limit] + "…")
