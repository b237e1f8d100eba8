"""Parts of a study."""

from __future__ import annotations

from pathlib import Path

import pytest

from conjoin.errors import UnknownName, UsageError
from conjoin.studies.parse import read_study
from conjoin.studies.select import seed_numbers, select_cells

PAPER = read_study(Path(__file__).resolve().parents[2] / "studies" / "paper.toml")


def test_only_takes_what_fits_every_key() -> None:
    cells = select_cells(PAPER, only=["dataset=WN18RR,form=5star-conj"], seeds="0-4")
    assert {(cell.dataset, cell.row.name) for cell in cells} == {
        ("WN18RR", "5star-conj"),
        ("WN18RR", "5star-conj-tuned"),
    }
    assert sorted(cell.seed for cell in cells) == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]


def test_a_key_given_twice_takes_either() -> None:
    cells = select_cells(PAPER, only=["dataset=wn18rr,row=quate", "dataset=WN18"])
    assert {(cell.dataset, cell.row.name) for cell in cells} == {("WN18RR", "quate"), ("WN18", "quate")}
    assert {cell.row.group for cell in select_cells(PAPER, only=["group=control"])} == {"control"}
    assert select_cells(PAPER) == PAPER.cells()


@pytest.mark.parametrize(
    ("only", "seeds", "complaint"),
    [
        ("dataset=WN18R", None, "Did you mean WN18RR"),
        ("dataset", None, "write key=value"),
        ("dataset=", None, "write key=value"),
        ("data=WN18", None, "Did you mean dataset"),
        ("row=quate,form=complex", None, "as narrowed: quate"),
        ("row=quate", "5-9", "no run with seeds 5-9"),
        ("row=quate", "9-5", "write numbers and spans"),
        ("row=quate", "one", "write numbers and spans"),
    ],
)
def test_what_is_not_there_is_said(only: str, seeds: str | None, complaint: str) -> None:
    with pytest.raises((UsageError, UnknownName), match=complaint):
        select_cells(PAPER, only=[only], seeds=seeds)


def test_seeds_are_numbers_and_spans() -> None:
    assert seed_numbers("0,3, 7-9") == {0, 3, 7, 8, 9}
