"""Foreign text for terminals and spreadsheets."""

from __future__ import annotations

import csv
import io
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conjoin.runtime.text_escaping import for_spreadsheet, spelled

STARTS = "=+-@＝＋－＠"


@given(st.text(max_size=30), st.sampled_from(["", "\n", "\t\n"]))
def test_all_control_characters_are_escaped(text: str, keep: str) -> None:
    found = spelled(text, keep=keep)
    assert not [c for c in found if unicodedata.category(c) == "Cc" and c not in keep]
    assert spelled(found, keep=keep) == found
    if not any(unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp") for c in text):
        assert found == text


@pytest.mark.parametrize("sign", ["\x1b", "\x9b", "\x7f", "\u202e", "\u2066", "\u2028", "\r", "\b"])
def test_terminal_control_characters_are_escaped(sign: str) -> None:
    assert sign not in spelled(f"a{sign}b", keep="\n")


def test_letters_of_every_script_stay() -> None:
    for text in ("Zürich ★", "می‌خواهم", "👩‍👧", "한국", "a b", "naïve\u200f"):
        assert spelled(text) == for_spreadsheet(text) == text


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("before", ["", " ", "\u00a0", '"', "'", ' "', "\ufeff", "\u200b", "a;", "a, ", 'b;"', "c|"])
def test_cells_never_start_with_a_formula(start: str, before: str) -> None:
    safe = for_spreadsheet(f"{before}{start}cmd|' /C calc'!A0")
    at = safe.index(start)
    assert safe[at - 1] == "'"
    assert at > 0


@pytest.mark.parametrize("text", ["\t=1", "\r=1", "\n=1", "\x00=1", "\x1b=1"])
def test_control_characters_before_a_formula_are_escaped(text: str) -> None:
    assert for_spreadsheet(text).startswith("\\")


@given(st.text(alphabet=st.sampled_from([*STARTS, *"ab;,|\t\r\n\"' \x1b"]), max_size=20))
def test_cells_are_safe_under_every_separator(text: str) -> None:
    """Written by commas, read by whatever a country's spreadsheets take for the separator."""
    written = io.StringIO()
    csv.writer(written, lineterminator="\n").writerow(["a", for_spreadsheet(text), "b"])
    for delimiter in ",;\t|":
        for row in csv.reader(io.StringIO(written.getvalue()), delimiter=delimiter):
            assert not [cell for cell in row if cell.strip(' "').startswith(tuple(STARTS))]
