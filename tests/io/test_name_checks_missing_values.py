"""Names that programs write where a value is missing are pointed out in tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from conjoin.io.ingest import ingest
from conjoin.io.read_graph import read_graph

PEOPLE = ["Ada\tborn_in\tLondon", "Ada\tmarried_to\tWilliam", "Alan\tborn_in\tLondon"]


def notes_of(tmp_path: Path, lines: list[str]) -> list[str]:
    file = tmp_path / "people.tsv"
    file.write_text("\n".join(lines) + "\n")
    notes = read_graph(file).notes
    ingested = ingest([file], tmp_path / "stored", overwrite=True).notes
    found, stored = ([note for note in each if "missing value" in note] for each in (notes, ingested))
    assert found == stored
    return found


def test_missing_values_are_pointed_out(tmp_path: Path) -> None:
    (note,) = notes_of(tmp_path, [*PEOPLE, "Alan\tmarried_to\tNaN", "NaN\tborn_in\t?", "Kurt\tborn_in\tBrno"])
    assert note == (
        "a head or a tail of 2 facts is called ? or NaN, an entity like any other here: if that means a missing value, "
        "leave them out of the file"
    )


def test_one_fact_is_enough(tmp_path: Path) -> None:
    (note,) = notes_of(tmp_path, [*PEOPLE, "None\tborn_in\tLondon"])
    assert note.startswith("a head or a tail of 1 fact is called None,")
    assert note.endswith("leave it out of the file")


@pytest.mark.parametrize(
    "lines",
    [PEOPLE, [*PEOPLE, "Alan\tlived_in\tNan"], [*PEOPLE, "Alan\t?\tLondon"]],
    ids=["none", "a town", "a relation"],
)
def test_other_names_are_not(tmp_path: Path, lines: list[str]) -> None:
    assert not notes_of(tmp_path, lines)


def test_names_that_only_held_out_facts_have_are_not_told(tmp_path: Path) -> None:
    for split, line in (("train", "NaN\tborn_in\tLondon"), ("valid", "Ada\tborn_in\t?"), ("test", PEOPLE[0])):
        (tmp_path / f"{split}.tsv").write_text(line + "\n")
    (note,) = (note for note in read_graph(tmp_path).notes if "missing value" in note)
    assert "of 1 fact is called NaN, an entity" in note
