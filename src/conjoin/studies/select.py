"""A part of a study: `--only dataset=WN18RR,form=5star-conj --seeds 0-4`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from conjoin.errors import UsageError, unknown
from conjoin.studies.spec import Study, StudyCell

KEYS: dict[str, Callable[[StudyCell], str]] = {
    "dataset": lambda cell: cell.dataset,
    "row": lambda cell: cell.row.name,
    "form": lambda cell: cell.row.form,
    "group": lambda cell: cell.row.group,
}
_SPAN = re.compile(r"(\d+)(?:-(\d+))?")


def select_cells(study: Study, *, only: Iterable[str] = (), seeds: str | None = None) -> tuple[StudyCell, ...]:
    """The cells that match every key of `only` (any of its values, if a key is repeated) and have a chosen seed."""
    cells = study.cells()
    for key, values in _wanted(only).items():
        present = list(dict.fromkeys(KEYS[key](cell) for cell in cells))
        folded = {name.casefold() for name in present}
        for value in values:
            if value.casefold() not in folded:
                raise unknown(key, value, present, way_out=f"The runs selected so far have {', '.join(present)}.")
        chosen = {value.casefold() for value in values}
        cells = tuple(cell for cell in cells if KEYS[key](cell).casefold() in chosen)
    if seeds is not None:
        numbers = seed_numbers(seeds)
        cells = tuple(cell for cell in cells if cell.seed in numbers)
    if not cells:
        raise UsageError(
            f"{study.file} has no selected run with seeds {seeds}. The study's seeds are {_spans(study.seeds)}."
        )
    return cells


def seed_numbers(text: str) -> frozenset[int]:
    """The numbers of a text such as 0-4 or 0,3,7-9."""
    numbers: set[int] = set()
    for part in text.split(","):
        span = _SPAN.fullmatch(part.strip())
        if not span or int(span[2] or span[1]) < int(span[1]):
            raise UsageError(f"Invalid --seeds {text}. Write numbers and ranges, such as 0-4 or 0,3,7-9.")
        numbers |= set(range(int(span[1]), int(span[2] or span[1]) + 1))
    return frozenset(numbers)


def _wanted(only: Iterable[str]) -> dict[str, list[str]]:
    wanted: dict[str, list[str]] = {}
    for part in (part for text in only for part in text.split(",")):
        key, equals, value = part.partition("=")
        if not equals or not value.strip():
            raise UsageError(f"Invalid --only {part}. Write key=value, such as --only dataset=WN18RR,row=5star-conj.")
        if key.strip() not in KEYS:
            raise unknown("key of --only", key.strip(), KEYS, way_out=f"Keys are {', '.join(KEYS)}.")
        wanted.setdefault(key.strip(), []).append(value.strip())
    return wanted


def _spans(seeds: tuple[int, ...]) -> str:
    return f"{seeds[0]}-{seeds[-1]}" if seeds == tuple(range(seeds[0], seeds[-1] + 1)) else ", ".join(map(str, seeds))
