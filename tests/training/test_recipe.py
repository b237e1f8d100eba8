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
    ("settings", "value"),
    [
        ({"epochs": -1}, "epochs.*-1"),
        ({"batch": 0}, "batch.*0"),
        ({"validate_every": -1}, "validate_every.*-1"),
        ({"validate_every": 1, "patience": -1}, "patience.*-1"),
        ({"patience": 2}, "patience.*2.*validate_every"),
        ({"lr": 0.0}, "lr.*0"),
        ({"lr": -0.1}, "lr.*-0.1"),
        ({"lr": float("nan")}, "lr.*nan"),
        ({"initial_scale": 0.0}, "initial_scale.*0"),
        ({"n3": -0.1}, "n3.*-0.1"),
        ({"n3": float("nan")}, "n3.*nan"),
        ({"f2": -1.0}, "f2.*-1"),
        ({"optimizer": "adagard"}, "adagrad"),
        *(({name: 10**400}, f"{name}.*2147483647") for name in ("epochs", "batch", "validate_every", "group_queries")),
        *(({name: 10**400}, f"{name}.*3.4e[+]38") for name in ("lr", "n3", "f2", "initial_scale", "negatives_power")),
        ({"lr": 1e39}, "lr.*1e[+]39.*3.4e[+]38"),
        ({"n3": 1e39}, "n3.*1e[+]39.*3.4e[+]38"),
        ({"precision": "fp16"}, "fp32"),
    ],
)
def test_impossible_settings_are_refused(settings: dict[str, Any], value: str) -> None:
    with pytest.raises(UsageError, match=value):
        Recipe(**settings)
    with pytest.raises(UsageError, match=value):
        Recipe.from_mapping(settings)


@pytest.mark.parametrize(
    ("settings", "value"),
    [
        ({"epoch": 5}, "epoch.*epochs"),
        ({"learning_rate": 0.1}, "learning_rate"),
        ({"epochs": "5"}, "epochs.*'5'"),
        ({"epochs": 5.0}, "epochs.*5.0"),
        ({"epochs": True}, "epochs.*True"),
        ({"lr": "0.1"}, "lr.*'0.1'"),
        ({"lr": None}, "lr.*None"),
        ({"lr": True}, "lr.*True"),
        ({"optimizer": 3}, "optimizer.*3"),
    ],
)
def test_unknown_keys_and_wrong_types_are_refused(settings: dict[str, Any], value: str) -> None:
    with pytest.raises(UsageError, match=value):
        Recipe.from_mapping(settings)
    if {*settings} <= {field.name for field in dataclasses.fields(Recipe)}:
        with pytest.raises(UsageError, match=value):
            Recipe(**settings)


def test_numpy_numbers_and_integers_become_plain_numbers_of_the_setting() -> None:
    """Settings may come from a sweep over numpy numbers. They are stored as JSON, and lr = 1 equals lr = 1.0."""
    recipe = Recipe(epochs=np.int64(5), lr=1, n3=np.float32(0.5))  # type: ignore[arg-type]
    assert recipe == Recipe(epochs=5, lr=1.0, n3=0.5)
    assert [type(number) for number in (recipe.epochs, recipe.lr, recipe.n3)] == [int, float, float]


def test_an_unknown_optimizer_is_an_unknown_name() -> None:
    with pytest.raises(UnknownName, match="rmsprop"):
        Recipe(optimizer="rmsprop")  # type: ignore[arg-type]


def test_recipes_do_not_import_torch() -> None:
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
