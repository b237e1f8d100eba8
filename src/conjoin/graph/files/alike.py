"""Names that people take for others: with white space around them, accents apart, or decimals of a whole number."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from typing import NamedTuple
from unicodedata import is_normalized, normalize

from conjoin.graph.files.report import shortened


class Way(NamedTuple):
    """An odd way to write names: which are written so, how they usually are, and the note on so many, some of these
    and those of them that occur as usual too."""

    fits: Callable[[str], bool]
    usual: Callable[[str], str]
    note: Callable[[str, int, Sequence[str], Sequence[str]], str]


class Odd:
    """Names written in odd ways: how many, and of each way `most` to be looked up as usually written, or all."""

    def __init__(self, most: int | None = None) -> None:
        self._most = most
        self._found: list[tuple[int, list[str]]] = [(0, []) for _ in WAYS]

    def look_at(self, names: Sequence[str]) -> None:
        for i, way in enumerate(WAYS):
            such = [name for name in names if way.fits(name)]
            count, some = self._found[i]
            self._found[i] = count + len(such), [*some, *such][: self._most]

    def notes(self, kind: str, known: Callable[[list[str]], Container[str]]) -> list[str]:
        """What to say about names of a kind; `known` gives those of some names that occur."""
        said = []
        for way, (count, some) in zip(WAYS, self._found, strict=True):
            others = known([way.usual(name) for name in some]) if some else ()
            twins = [name for name in some if way.usual(name) in others]
            said.append(way.note(kind, count, some, twins))
        return [note for note in said if note]


def _padded(kind: str, count: int, some: Sequence[str], twins: Sequence[str]) -> str:
    if not some:
        return ""
    also = f"; {_least(count, some)}{len(twins):,} of them occur without it too, as others" * bool(twins)
    return (
        f"{count:,} {kind} names begin or end with white space, such as {shortened(some[0])}{also}. "
        "Names are taken as they are: if the space means nothing, remove it from the file"
    )


def _uncomposed(kind: str, count: int, some: Sequence[str], twins: Sequence[str]) -> str:
    if not twins:
        return ""
    return (
        f"{_least(count, some)}{len(twins):,} {kind} names occur twice, their accents written in two ways, such as "
        f"{shortened(twins[0])}: they look alike and are others. Bring the file into one form of Unicode, such as NFC"
    )


def _decimal(kind: str, count: int, some: Sequence[str], twins: Sequence[str]) -> str:
    if not twins:
        return ""
    return (
        f"{_least(count, some)}{len(twins):,} {kind} names occur twice, as whole numbers and with a decimal, such as "
        f"{shortened(twins[0])}: they are others. Ids get decimals in a column with blanks: if these are ids, write "
        "them without"
    )


def _least(count: int, some: Sequence[str]) -> str:
    return "at least " if len(some) < count else ""


WAYS = (
    Way(lambda name: name != name.strip(), str.strip, _padded),
    Way(
        lambda name: not (name.isascii() or is_normalized("NFC", name)),
        lambda name: normalize("NFC", name),
        _uncomposed,
    ),
    Way(lambda name: name.endswith(".0") and name[:-2].removeprefix("-").isdecimal(), lambda name: name[:-2], _decimal),
)
