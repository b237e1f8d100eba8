"""Sentences and plots about patterns say what the tests say."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.report.test_pattern_effects import filled, study_of

from conjoin.report.collect import collect
from conjoin.report.pattern_effects import EVERYTHING, PatternEffect, pattern_effects
from conjoin.report.pattern_text import agreement, consistency, form_effects, number_word
from conjoin.report.stats import Interval, Paired

pytest.importorskip("scipy", reason="relation patterns need SciPy: pip install 'conjoin[study]'")


@pytest.fixture
def one(tmp_path: Path) -> PatternEffect:
    study = study_of(tmp_path)
    filled(study, tmp_path)
    return pattern_effects(collect(study, tmp_path), tmp_path).tests[0]


def made(one: PatternEffect, dataset: str, group: str, difference: float, *, decided: bool = True) -> PatternEffect:
    paired = Paired(difference, Interval(difference - 0.01, difference + 0.01), 0.001, 100, 50)
    return replace(one, dataset=dataset, group=group, paired=paired, holm=0.01 if decided else 0.5)


def test_the_headline_counts_datasets(one: PatternEffect) -> None:
    tests = [made(one, "A", EVERYTHING, 0.1), made(one, "B", EVERYTHING, -0.2), made(one, "C", EVERYTHING, -0.3)]
    (effect,) = form_effects(tests, alpha=0.05)
    assert effect.headline == (
        "over all questions it gains on one and loses on two of three datasets: A +0.100 [+0.0900, +0.1100];"
        " B −0.200 [−0.2100, −0.1900]; C −0.300 [−0.3100, −0.2900]"
    )
    (silent,) = form_effects([made(one, "A", EVERYTHING, 0.1, decided=False)], alpha=0.05)
    assert silent.headline.startswith("over all questions it is not told apart on one of one dataset: A +0.100")


def test_sentences_list_gains_losses_and_undecided_patterns(one: PatternEffect) -> None:
    tests = [
        made(one, "A", EVERYTHING, 0.1),
        made(one, "A", "symmetric", 0.1),
        made(one, "B", "symmetric", -0.2),
        made(one, "A", "hierarchy", 0.3, decided=False),
        made(one, "A", "none of these", 0.1, decided=False),
        made(one, "B", "1-n", -0.1),
    ]
    (effect,) = form_effects(tests, alpha=0.05)
    assert effect.patterns == ("symmetric", "hierarchy", "none of these")
    assert effect.cardinalities == ("1-n",)
    by_pattern, by_cardinality, agreed = effect.sentences
    assert by_pattern == (
        "By pattern – symmetric: gains on A +0.100 and loses on B −0.200; not told apart on hierarchy and patternless."
    )
    assert by_cardinality == "By cardinality – 1-n: loses on B −0.100."
    assert agreed == "3 of 5 tests by group are decided, with both signs on symmetric."
    assert "symmetric 1 gained, 1 lost, 0 open" in consistency([effect])
    assert "both signs on symmetric" in consistency([effect])


def test_nothing_decided_and_one_sign(one: PatternEffect) -> None:
    (effect,) = form_effects([made(one, "A", "inverse", 0.1, decided=False)], alpha=0.05)
    assert effect.sentences[-1] == "None of the 1 tests by group tells the two apart."
    (effect,) = form_effects([made(one, "A", "inverse", 0.1)], alpha=0.05)
    assert effect.sentences[-1] == "1 of 1 tests by group are decided, with one sign in each group."
    assert consistency([effect]).endswith("no pattern has both signs.")


def test_two_studies_are_compared_where_both_have_a_test(one: PatternEffect) -> None:
    first = [made(one, "A", "inverse", 0.1), made(one, "A", "symmetric", 0.1), made(one, "B", "inverse", 0.1)]
    second = [made(one, "A", "inverse", -0.1), made(one, "A", "symmetric", 0.2), made(one, "C", "inverse", 0.1)]
    assert agreement(first, second, alpha=0.05) == (2, 1, 1)
    assert [number_word(n) for n in (0, 4, 12)] == ["no", "four", "12"]
