"""Parts of a study."""

from __future__ import annotations

from pathlib import Path

import pytest

from conjoin.errors import UnknownName, UsageError
from conjoin.studies.parse import read_study
from conjoin.studies.select import seed_numbers, select_cells

PAPER = read_study(Path(__file__).resolve().parents[2] / "studies" / "paper.toml")


def test_only_selects_cells_that_match_every_key() -> None:
    cells = select_cells(PAPER, only=["dataset=WN18RR,form=5star-conj"], seeds="0-4")
    assert {(cell.dataset, cell.row.name) for cell in cells} == {
        ("WN18RR", "5star-conj"),
        ("WN18RR", "5star-conj-tuned"),
    }
    assert sorted(cell.seed for cell in cells) == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]


def test_a_repeated_key_matches_any_of_its_values() -> None:
    cells = select_cells(PAPER, only=["dataset=wn18rr,row=quate", "dataset=WN18"])
    assert {(cell.dataset, cell.row.name) for cell in cells} == {("WN18RR", "quate"), ("WN18", "quate")}
    assert {cell.row.group for cell in select_cells(PAPER, only=["group=control"])} == {"control"}
    assert select_cells(PAPER) == PAPER.cells()


@pytest.mark.parametrize(
    ("only", "seeds", "complaint"),
    [
        ("dataset=WN18R", None, "WN18RR"),
        ("dataset", None, "--only dataset"),
        ("dataset=", None, "--only dataset="),
        ("data=WN18", None, "dataset"),
        ("row=quate,form=complex", None, "quate"),
        ("row=quate", "5-9", "5-9"),
        ("row=quate", "9-5", "9-5"),
        ("row=quate", "one", "one"),
    ],
)
def test_unmatched_selection_names_the_value(only: str, seeds: str | None, complaint: str) -> None:
    with pytest.raises((UsageError, UnknownName), match=complaint):
        select_cells(PAPER, only=[only], seeds=seeds)


def test_seeds_are_numbers_and_ranges() -> None:
    assert seed_numbers("0,3, 7-9") == {0, 3, 7, 8, 9}
