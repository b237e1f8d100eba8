"""Error messages contain the value, a suggestion and the way out; every error has its exit code."""

from __future__ import annotations

import inspect
from collections.abc import Sequence

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


def suggested(hint: str, choices: Sequence[str]) -> list[str]:
    """The choices that a hint names, in its order."""
    words = hint.replace("?", " ").split()
    return [word for word in words if word in choices]


@pytest.mark.parametrize(
    ("word", "suggestions"),
    [("umsl", ["umls"]), ("UMLS", ["umls"]), ("nation", ["nations"]), ("zzz", []), ("", [])],
)
def test_did_you_mean_suggests_close_names(word: str, suggestions: list[str]) -> None:
    choices = ["umls", "nations", "atlas"]
    hint = did_you_mean(word, choices)
    assert suggested(hint, choices) == suggestions
    assert bool(hint) == bool(suggestions)


def test_did_you_mean_names_few_and_the_closest_first() -> None:
    choices = ["abce", "abcd", "abcf", "abcg"]
    hint = suggested(did_you_mean("abcd", choices, shown=2), choices)
    assert hint[0] == "abcd"
    assert len(hint) == 2


def test_did_you_mean_matches_the_last_part_of_an_address() -> None:
    relations = ["http://example.org/depends", "http://example.org#needs", "http://example.org/pre-depends"]
    assert suggested(did_you_mean("depends", relations), relations) == ["http://example.org/depends"]
    assert suggested(did_you_mean("Needs", relations), relations) == ["http://example.org#needs"]
    assert did_you_mean("", relations) == ""


def test_unknown_names_the_word_the_suggestion_and_the_way_out() -> None:
    error = unknown("dataset", "umsl", ["umls"], way_out="Datasets are umls.")
    assert isinstance(error, UnknownName)
    assert all(part in str(error) for part in ("dataset", "'umsl'", "umls?", "Datasets are umls."))
    assert "?" not in str(unknown("dataset", "zzz", ["umls"]))


def test_a_missing_package_is_named_with_the_command_that_installs_it() -> None:
    error = str(NotInstalled("pyoxigraph", "rdf", "Turtle"))
    assert all(part in error for part in ("Turtle", "pyoxigraph", "pip install 'conjoin[rdf]'"))
