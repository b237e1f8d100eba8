"""Names that programs write where a value is missing are pointed out in tables."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from conjoin.io.ingest import ingest
from conjoin.io.read_graph import UNSPLIT, read_graph

PEOPLE = ["Ada\tborn_in\tLondon", "Ada\tmarried_to\tWilliam", "Alan\tborn_in\tLondon"]


def notes_of(tmp_path: Path, lines: list[str]) -> list[str]:
    file = tmp_path / "people.tsv"
    file.write_text("\n".join(lines) + "\n")
    notes = read_graph(file).notes
    ingested = ingest([file], tmp_path / "stored", overwrite=True).notes
    found = [note for note in notes if note in ingested]
    assert [*notes] == [*found, UNSPLIT], "an ingest gives the same notes"
    return found


def test_missing_values_are_reported(tmp_path: Path) -> None:
    (note,) = notes_of(tmp_path, [*PEOPLE, "Alan\tmarried_to\tNaN", "NaN\tborn_in\t?", "Kurt\tborn_in\tBrno"])
    assert re.search(r"\b2\b", note)
    assert "? or NaN" in note


def test_one_missing_value_is_reported(tmp_path: Path) -> None:
    (note,) = notes_of(tmp_path, [*PEOPLE, "None\tborn_in\tLondon"])
    assert re.search(r"\b1\b.*\bNone\b", note)


@pytest.mark.parametrize(
    "lines",
    [PEOPLE, [*PEOPLE, "Alan\tlived_in\tNan"], [*PEOPLE, "Alan\t?\tLondon"]],
    ids=["none", "a town", "a relation"],
)
def test_other_names_are_not_reported_as_missing(tmp_path: Path, lines: list[str]) -> None:
    assert not notes_of(tmp_path, lines)


def test_only_training_facts_are_checked_for_missing_values(tmp_path: Path) -> None:
    for split, line in (("train", "NaN\tborn_in\tLondon"), ("valid", "Ada\tborn_in\t?"), ("test", PEOPLE[0])):
        (tmp_path / f"{split}.tsv").write_text(line + "\n")
    (note,) = read_graph(tmp_path).notes
    assert re.search(r"\b1\b.*\bNaN\b", note)
    assert "?" not in note
