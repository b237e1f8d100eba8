"""The published settings, as printed."""

from __future__ import annotations

import re

import pytest

from conjoin.datasets.load import load
from conjoin.errors import UnknownName
from conjoin.forms.link import DOT
from conjoin.forms.notation import FORMS, parse
from conjoin.training.presets import preset, settings_for
from conjoin.training.recipe import Recipe

DOT_FORMS = {name: form for name, form in FORMS.items() if form.link is DOT}
KEYS = ("epochs", "rank", "batch", "n3", "lr")
COMPLEX = {
    "fb15k-237": (100, 2000, 100, 0.05, 0.1),
    "wn18rr": (100, 2000, 100, 0.1, 0.1),
    "yago3-10": (100, 1000, 1000, 0.005, 0.1),
    "fb15k": (200, 2000, 100, 0.0025, 0.01),
    "wn18": (20, 2000, 1000, 0.05, 0.1),
}
FIVE_STAR = {
    "fb15k-237": (200, 500, 2000, 0.1, 0.01),
    "wn18rr": (600, 500, 1000, 0.5, 0.1),
    "yago3-10": (65, 500, 500, 0.0025, 0.1),
    "fb15k": (25, 500, 1000, 0.001, 0.05),
    "wn18": (400, 500, 500, 0.05, 0.1),
}
TUNED = {
    "fb15k-237": (640, 500, 1000, 0.1, 0.01),
    "wn18rr": (300, 500, 1000, 0.5, 0.1),
    "yago3-10": (60, 500, 1000, 0.005, 0.1),
    "fb15k": (20, 500, 1000, 0.0025, 0.1),
    "wn18": (550, 500, 500, 0.1, 0.05),
}


@pytest.mark.parametrize("dataset", COMPLEX)
def test_published_settings(dataset: str) -> None:
    for name, form in DOT_FORMS.items():
        wanted = FIVE_STAR if name.startswith("5star") else COMPLEX
        assert preset("paper", dataset, form) == dict(zip(KEYS, wanted[dataset], strict=True))
    for text in ("5star-conj", "FiveStar(c=0, quotient=mobius)"):
        assert preset("paper-tuned", dataset, parse(text)) == dict(zip(KEYS, TUNED[dataset], strict=True))


@pytest.mark.parametrize("dataset", COMPLEX)
def test_every_preset_makes_a_recipe(dataset: str) -> None:
    for form in DOT_FORMS.values():
        settings = preset("paper", dataset, form)
        form.check_rank(settings.pop("rank"))
        recipe = Recipe.from_mapping(settings)
        assert (recipe.optimizer, recipe.initial_scale) == ("adagrad", 1e-3)


def test_changing_the_result_does_not_change_the_preset() -> None:
    preset("paper", "wn18rr", FORMS["5star"])["epochs"] = 1
    assert preset("paper", "wn18rr", FORMS["5star"])["epochs"] == 600


@pytest.mark.parametrize("name", ["transe", "transe-squared", "transh"])
def test_presets_refuse_forms_whose_link_is_not_the_dot_product(name: str) -> None:
    form = parse(name)
    with pytest.raises(UnknownName, match=re.escape(str(form)) + f".*{form.link.name}"):
        preset("paper", "wn18rr", form)


@pytest.mark.parametrize("name", ["transe", "transe-squared", "transh"])
def test_distances_train_without_a_penalty_by_default(name: str) -> None:
    assert settings_for(load("atlas"), name)["n3"] == 0
    assert settings_for(load("atlas"), "distmult")["n3"] == settings_for(load("atlas"), "complex")["n3"] == 0.05


def test_unknown_presets_and_datasets_are_named() -> None:
    with pytest.raises(UnknownName, match="paper"):
        preset("papre", "wn18rr", FORMS["5star"])
    with pytest.raises(UnknownName, match="wn18rr"):
        preset("paper", "wn18r", FORMS["5star"])
    with pytest.raises(UnknownName, match=r"paper-tuned.*ComplEx"):
        preset("paper-tuned", "wn18rr", FORMS["complex"])


def test_unknown_forms_are_refused_without_a_preset_too() -> None:
    with pytest.raises(UnknownName, match="complx"):
        settings_for(load("atlas"), "complx")
