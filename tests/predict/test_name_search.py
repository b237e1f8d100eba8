"""Names that are only half remembered."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conjoin.errors import UsageError
from conjoin.graph.graph import Vocabulary
from conjoin.predict.name_search import NameIndex, plain, prefix_edits

LABELS = {
    "Q1": "United States",
    "Q2": "United Kingdom",
    "Q3": "France",
    "Q4": "Francistown",
    "Q5": "São Tomé & Príncipe",
    "Q6": "Stuttgart",
    "Q7": "New York City",
    "Q8": "",
    "Q9": "東京",
}
DEGREES = np.array([60, 80, 50, 5, 7, 9, 30, 1, 2])
INDEX = NameIndex(Vocabulary("entity", tuple(LABELS), tuple(LABELS.values())), DEGREES)


def found(text: str, limit: int = 10) -> list[str]:
    return [match.name for match in INDEX.find(text, limit)]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("france", ["Q3"]),
        ("FRAN", ["Q3", "Q4"]),
        ("st", ["Q6", "Q1", "Q4"]),
        ("united", ["Q2", "Q1"]),
        ("york", ["Q7"]),
        ("city new", ["Q7"]),
        ("states uni", ["Q1"]),
        ("ork", ["Q7"]),
        ("sao tome", ["Q5"]),
        ("principe", ["Q5"]),
        ("Frnace", ["Q3", "Q4"]),
        ("Frnc", ["Q3", "Q4"]),
        ("untied stat", ["Q1"]),
        ("krance", ["Q3", "Q4"]),
        ("uttgart", ["Q6"]),
        ("tuttgrat", ["Q6"]),
        ("Stutgart", ["Q6"]),
        ("東", ["Q9"]),
        ("q8", ["Q8"]),
        ("Q7", ["Q7"]),
        ("xyzzyx", []),
        ("&&", []),
    ],
)
def test_a_search_finds_the_intended_names(text: str, names: list[str]) -> None:
    assert found(text) == names


def test_the_best_of_many_and_nothing_typed() -> None:
    assert found("") == found("  ") == ["Q2", "Q1", "Q3", "Q7", "Q6", "Q5", "Q4", "Q9", "Q8"]
    assert found("", 2) == ["Q2", "Q1"]
    assert [(m.name, m.label, m.degree) for m in INDEX.find("q8")] == [("Q8", "Q8", 1)]
    with pytest.raises(UsageError, match="0"):
        INDEX.find("a", 0)


def test_a_name_that_is_the_whole_word_comes_before_more_frequent_longer_ones() -> None:
    index = NameIndex(Vocabulary("entity", ("Chad", "Chadron", "Lake Chad")), np.array([1, 100, 50]))
    assert [match.name for match in index.find("chad")] == ["Chad", "Chadron", "Lake Chad"]


@given(st.lists(st.text(max_size=12), unique=True, max_size=30), st.text(max_size=8))
def test_every_name_is_found_by_itself_and_nothing_twice(names: list[str], text: str) -> None:
    index = NameIndex(Vocabulary("entity", tuple(names)), np.arange(len(names)))
    for name in names:
        if plain(name) or (name and name == name.strip()):
            assert name in [match.name for match in index.find(name, len(names))]
    anything = [match.name for match in index.find(text, len(names) + 1)]
    assert len(anything) == len(set(anything))
    for match in index.find(text, 3):
        assert match.name in anything


def edits(a: str, b: str) -> int:
    """Optimal string alignment distance, by the book."""
    table = [[max(i, j) if not i * j else 0 for j in range(len(b) + 1)] for i in range(len(a) + 1)]
    for i in range(1, len(a) + 1):
        for j in range(1, len(b) + 1):
            change = table[i - 1][j - 1] + (a[i - 1] != b[j - 1])
            table[i][j] = min(table[i - 1][j] + 1, table[i][j - 1] + 1, change)
            if i > 1 and j > 1 and a[i - 1] == b[j - 2] and a[i - 2] == b[j - 1]:
                table[i][j] = min(table[i][j], table[i - 2][j - 2] + 1)
    return table[-1][-1]


@given(st.text("abc", min_size=1, max_size=7), st.lists(st.text("abc", min_size=1, max_size=9), min_size=1, max_size=5))
def test_edits_to_a_beginning(wanted: str, words: list[str]) -> None:
    letters = np.zeros((len(words), 12), dtype=np.int32)
    for row, word in zip(letters, words, strict=True):
        row[: len(word)] = [ord(letter) for letter in word]
    counted = prefix_edits(np.array([ord(letter) for letter in wanted], dtype=np.int32), letters, 2)
    for word, count in zip(words, counted.tolist(), strict=True):
        expected = min(edits(wanted, word[:end]) for end in range(len(word) + 1))
        assert min(expected, 3) == min(count, 3)


def test_what_is_typed_to_the_letter_comes_first_and_needs_no_letter() -> None:
    names = ("C", "C++", "C#", "€")
    index = NameIndex(Vocabulary("entity", names), np.array([9, 5, 3, 1]))
    for name in names:
        assert index.find(name)[0].name == name
    assert [match.name for match in index.find("c")] == ["C", "C++", "C#"]
    assert index.find("£") == []
