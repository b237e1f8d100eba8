"""Recipes: what they refuse, and that TOML and JSON read back."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
import tomllib
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conjoin.errors import UnknownName, UsageError
from conjoin.training.recipe import OPTIMIZERS, PRECISIONS, Recipe

POSITIVE = st.floats(1e-9, 1e9)


@st.composite
def recipes(draw: st.DrawFn) -> Recipe:
    every = draw(st.integers(0, 100))
    return Recipe(
        epochs=draw(st.integers(0, 10**6)),
        batch=draw(st.integers(1, 10**6)),
        lr=draw(POSITIVE),
        n3=draw(st.one_of(st.just(0.0), POSITIVE)),
        f2=draw(st.one_of(st.just(0.0), POSITIVE)),
        optimizer=draw(st.sampled_from(OPTIMIZERS)),
        initial_scale=draw(POSITIVE),
        precision=draw(st.sampled_from(sorted(PRECISIONS))),
        validate_every=every,
        patience=draw(st.integers(0, 10)) if every else 0,
    )


@given(recipes())
def test_a_recipe_survives_json(recipe: Recipe) -> None:
    assert Recipe.from_mapping(json.loads(json.dumps(dataclasses.asdict(recipe)))) == recipe


def test_a_recipe_from_toml() -> None:
    settings = tomllib.loads('epochs = 5\nlr = 1\nn3 = 0\noptimizer = "sgd"\nvalidate_every = 2\npatience = 3')
    recipe = Recipe.from_mapping(settings)
    assert recipe == Recipe(epochs=5, lr=1.0, n3=0.0, optimizer="sgd", validate_every=2, patience=3)
    assert type(recipe.lr) is float
    assert Recipe.from_mapping({}) == Recipe()


def test_defaults() -> None:
    assert (Recipe().optimizer, Recipe().initial_scale, Recipe().precision) == ("adagrad", 1e-3, "fp32")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"epochs": -1}, "at least 0"),
        ({"batch": 0}, "at least 1"),
        ({"validate_every": -1}, "at least 0"),
        ({"validate_every": 1, "patience": -1}, "at least 0"),
        ({"patience": 2}, "validate_every"),
        ({"lr": 0.0}, "positive"),
        ({"lr": -0.1}, "positive"),
        ({"lr": float("nan")}, "positive"),
        ({"initial_scale": 0.0}, "positive"),
        ({"n3": -0.1}, "negative"),
        ({"n3": float("nan")}, "negative"),
        ({"f2": -1.0}, "negative"),
        ({"optimizer": "adagard"}, "adagrad"),
        *(({name: 10**400}, "at most 2147483647") for name in ("epochs", "batch", "validate_every", "group_queries")),
        *(({name: 10**400}, "too large") for name in ("lr", "n3", "f2", "initial_scale", "negatives_power")),
        ({"lr": 1e39}, "finite, below 3.4e[+]38"),
        ({"n3": 1e39}, "not negative, below 3.4e[+]38"),
        ({"precision": "fp16"}, "fp32"),
    ],
)
def test_impossible_settings_are_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        Recipe(**settings)
    with pytest.raises(UsageError, match=words):
        Recipe.from_mapping(settings)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"epoch": 5}, "Did you mean epochs"),
        ({"learning_rate": 0.1}, "no setting"),
        ({"epochs": "5"}, "type int"),
        ({"epochs": 5.0}, "type int"),
        ({"epochs": True}, "type int"),
        ({"lr": "0.1"}, "type float"),
        ({"lr": None}, "type float"),
        ({"lr": True}, "type float"),
        ({"optimizer": 3}, "type str"),
    ],
)
def test_unknown_keys_and_wrong_types_are_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        Recipe.from_mapping(settings)
    if "type" in words:
        with pytest.raises(UsageError, match=words):
            Recipe(**settings)


def test_numbers_are_kept_as_plain_ones_however_they_are_given() -> None:
    """What a sweep over numpy's numbers gives goes into JSON, and whole numbers for real ones are the real ones."""
    recipe = Recipe(epochs=np.int64(5), lr=1, n3=np.float32(0.5))  # type: ignore[arg-type]
    assert recipe == Recipe(epochs=5, lr=1.0, n3=0.5)
    assert [type(number) for number in (recipe.epochs, recipe.lr, recipe.n3)] == [int, float, float]


def test_an_unknown_optimizer_is_an_unknown_name() -> None:
    with pytest.raises(UnknownName, match="adagrad, adam, sgd"):
        Recipe(optimizer="rmsprop")  # type: ignore[arg-type]


def test_a_recipe_is_read_without_torch() -> None:
    code = "import sys, conjoin.training.recipe; raise SystemExit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_renamed_setting_is_read_by_its_earlier_name() -> None:
    assert Recipe.from_mapping({"together": 16}) == Recipe(group_queries=16)
    with pytest.raises(UsageError, match="group_queries"):
        Recipe.from_mapping({"together": 16, "group_queries": 8})


def test_the_weights_of_terms_survive_json_and_toml() -> None:
    recipe = Recipe(terms={"dura": 0.1}, target_weights="degree")
    assert Recipe.from_mapping(json.loads(json.dumps(dataclasses.asdict(recipe)))) == recipe
    assert Recipe.from_mapping(tomllib.loads('target_weights = "degree"\n[terms]\ndura = 0.1')) == recipe
    with pytest.raises(UnknownName, match="degree"):
        Recipe(target_weights="degrees")  # type: ignore[arg-type]
