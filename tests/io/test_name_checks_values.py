"""Numbers and dates as tails of a table: pointed out where they look like values, not where they name entities."""

from __future__ import annotations

import re
from pathlib import Path
from unittest.mock import create_autospec

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conjoin.graph.mmap_names import MmapNames
from conjoin.io import name_checks
from conjoin.io.ingest import ingest
from conjoin.io.name_checks import DATE, NUMBER, fits, text_of
from conjoin.io.read_graph import UNSPLIT, read_graph
from conjoin.io.read_options import ReadOptions

FILMS = [f"Film {n},{what}" for n in range(12) for what in (f"year,{1990 + n}", f"rating,{n / 10}", "genre,Drama")]
PLAIN = ["Film 0,genre,Noir", *(f"Film {n},sequel_of,Film {n - 1}" for n in range(1, 12))]


def notes_of(tmp_path: Path, lines: list[str]) -> list[str]:
    file = tmp_path / "films.csv"
    file.write_text("subject,predicate,object\n" + "\n".join(lines) + "\n")
    return [note for note in read_graph(file).notes if note != UNSPLIT and not note.startswith(str(file))]


def test_relations_to_values_are_reported(tmp_path: Path) -> None:
    (note,) = notes_of(tmp_path, FILMS + PLAIN)
    assert re.search(r"\b2\b.*rating, year.*\b0\.0\b", note)


def test_relations_to_dates_are_reported(tmp_path: Path) -> None:
    (note,) = notes_of(tmp_path, [f"Film {n},released,2001-02-{n + 10}" for n in range(12)] + PLAIN)
    assert re.search(r"\b1\b.*released", note)


@pytest.mark.parametrize(
    "lines",
    [
        PLAIN,
        [f"{n},next,{n + 1}" for n in range(20)],
        [f"Film {n},id,{n}" for n in range(12)] + [f"{n},shown_in,Paris" for n in range(12)],
        [f"Film {n},year,{1990 + n}" for n in range(5)],
        [*(f"Film {n},year,{1990 + n}" for n in range(12)), "Film 12,year,late 1990s"],
    ],
    ids=["no numbers", "ids everywhere", "numbers that are heads elsewhere", "too few", "not all"],
)
def test_relations_to_other_tails_are_not_reported(tmp_path: Path, lines: list[str]) -> None:
    assert not notes_of(tmp_path, lines)


def test_value_notes_do_not_depend_on_the_chunk_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = notes_of(tmp_path, FILMS + PLAIN)
    monkeypatch.setattr(name_checks, "AT_ONCE", 3)
    assert notes_of(tmp_path, FILMS + PLAIN) == whole


def test_ingest_writes_the_same_value_notes(tmp_path: Path) -> None:
    whole = notes_of(tmp_path, FILMS + PLAIN)
    ingested = ingest([tmp_path / "films.csv"], tmp_path / "stored", options=ReadOptions())
    assert {*whole} <= {*ingested.notes}


@pytest.mark.parametrize("relations", [FILMS, [f"Film {n},year,{n}" for n in range(300)]], ids=["some", "all"])
def test_names_on_disk_are_not_read_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, relations: list[str]
) -> None:
    encoded = create_autospec(MmapNames.encoded, side_effect=MmapNames.encoded)
    monkeypatch.setattr(MmapNames, "encoded", encoded)
    monkeypatch.setattr(name_checks, "BLANKS", ())  # those are looked up by bisection
    (note,) = notes_of(tmp_path, relations)
    assert note in ingest([tmp_path / "films.csv"], tmp_path / "stored").notes
    assert encoded.call_count == 1, "the name that is an example"


@given(st.lists(st.text(st.sampled_from("0189+-.eETt: \n٣é"), max_size=20)), st.booleans())
def test_arrow_and_python_patterns_match_the_same_names(names: list[str], dates: bool) -> None:
    names += ["1", "-.5E+7", "2001-02-03", "2001-02-03T04:05:06Z", "2001-02-03 04:05\n", "٣", "1e"]
    patterns = (NUMBER, DATE) if dates else (NUMBER,)
    found = np.concatenate([fits(piece, *patterns) for piece in text_of(names, np.arange(len(names)))])
    assert found.tolist() == [any(pattern.fullmatch(name) for pattern in patterns) for name in names]
