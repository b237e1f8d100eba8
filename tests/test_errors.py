"""Messages name the way out, and every error has its exit code."""

from __future__ import annotations

import inspect

import pytest

from conjoin import errors
from conjoin.errors import ConjoinError, NotInstalled, UnknownName, UsageError, did_you_mean, unknown

TREE = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, ConjoinError)]


def test_exit_codes_follow_the_tree() -> None:
    assert {kind.__name__: kind.exit_code for kind in TREE} == {
        "BrokenPlugin": 1,
        "ConjoinError": 1,
        "DatasetError": 1,
        "Diverged": 1,
        "FormError": 2,
        "GraphError": 2,
        "NewerFormat": 2,
        "NotInstalled": 2,
        "ProcessLost": 1,
        "RunError": 2,
        "Stopped": 1,
        "StorageError": 1,
        "UnknownName": 2,
        "UsageError": 2,
    }
    assert all(issubclass(kind, UsageError) == (kind.exit_code == 2) for kind in TREE)


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("umsl", " Did you mean umls?"),
        ("UMLS", " Did you mean umls?"),
        ("nation", " Did you mean nations?"),
        ("zzz", ""),
        ("", ""),
    ],
)
def test_did_you_mean(word: str, hint: str) -> None:
    assert did_you_mean(word, ["umls", "nations", "atlas"]) == hint


def test_the_closest_comes_first_and_few_are_shown() -> None:
    assert did_you_mean("abcd", ["abce", "abcd", "abcf", "abcg"], shown=2).startswith(" Did you mean abcd or ")
    assert did_you_mean("abcd", ["abce", "abcd", "abcf", "abcg"], shown=2).count(" or ") == 1


def test_the_last_part_of_an_address_is_recognised() -> None:
    relations = ["http://example.org/depends", "http://example.org#needs", "http://example.org/pre-depends"]
    assert did_you_mean("depends", relations) == " Did you mean http://example.org/depends?"
    assert did_you_mean("Needs", relations) == " Did you mean http://example.org#needs?"
    assert did_you_mean("", relations) == ""


def test_unknown_names_the_word_the_suggestion_and_the_way_out() -> None:
    error = unknown("dataset", "umsl", ["umls"], way_out="Datasets are umls.")
    assert isinstance(error, UnknownName)
    assert str(error) == "unknown dataset 'umsl'. Did you mean umls? Datasets are umls."
    assert str(unknown("dataset", "zzz", ["umls"])) == "unknown dataset 'zzz'."


def test_a_missing_package_says_how_to_get_it() -> None:
    assert str(NotInstalled("pyoxigraph", "rdf", "Turtle")) == (
        "Turtle needs the package pyoxigraph: pip install 'conjoin[rdf]'"
    )
