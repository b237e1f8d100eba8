"""A run's identity: what changes the numbers is in it, nothing else."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

import pytest

from conjoin.errors import ConjoinError, FormError, RunError, UnknownName, UsageError
from conjoin.forms.complex import ComplEx
from conjoin.forms.notation import form
from conjoin.graph.graph import Graph
from conjoin.runs.run import Run
from conjoin.training.recipe import Recipe

GRAPH = Graph.from_triples([("a", "r", "b"), ("b", "r", "c")], name="my graph/é")
RUN = Run.of(GRAPH, "5star-conj", rank=4, recipe=Recipe(epochs=2, validate_every=1))


def test_a_name_and_its_text_are_one_run() -> None:
    same = Run.of(GRAPH, " FiveStar( d=conj(a), c = conj(b) ) ", rank=4, recipe=RUN.recipe)
    assert same == RUN
    assert hash(same) == hash(RUN)
    assert RUN.form == "FiveStar(c=conj(b), d=conj(a))"


def test_a_form_as_a_value_is_the_same_run() -> None:
    assert Run.of(GRAPH, form("5star-conj"), rank=4, recipe=RUN.recipe) == RUN


@dataclass(frozen=True, kw_only=True)
class Pair(ComplEx):
    """Another formula under a name that is taken."""


@dataclass(frozen=True, kw_only=True)
class Unheard(ComplEx):
    """A formula that nobody has announced."""


@pytest.mark.parametrize("value", [Pair(), Unheard()])
def test_a_form_that_cannot_be_rebuilt_from_text_is_refused(value: ComplEx) -> None:
    with pytest.raises(FormError, match=r"conjoin\.forms"):
        Run.of(GRAPH, value, rank=4, recipe=Recipe())


def test_a_whole_number_for_a_real_one_is_the_same_run() -> None:
    """Else a run with lr=1 would not be found again, or go on, from the 1.0 that its folder gives back."""
    whole, real = (Run.of(GRAPH, "complex", rank=4, recipe=Recipe(lr=lr, n3=n3)) for lr, n3 in ((1, 0), (1.0, 0.0)))
    assert whole.id == real.id == Run.from_json(json.loads(json.dumps(whole.to_json()))).id


@pytest.mark.parametrize(
    "change",
    [
        {"checksum": "0" * 64},
        {"form": "FiveStar()"},
        {"rank": 5},
        {"seed": 1},
        {"weights": "best"},
        {"recipe": Recipe(epochs=3, validate_every=1)},
        {"recipe": Recipe(epochs=2, validate_every=1, precision="tf32")},
    ],
)
def test_every_setting_changes_the_id(change: dict[str, Any]) -> None:
    assert replace(RUN, **change).id != RUN.id


def test_a_mapping_instead_of_a_recipe_is_refused() -> None:
    with pytest.raises(UsageError, match="dict"):
        Run.of(GRAPH, "complex", rank=4, recipe={"epochs": 1})  # type: ignore[arg-type]


def test_the_name_of_the_graph_does_not_change_the_id() -> None:
    assert replace(RUN, data="another name").id == RUN.id
    assert len(RUN.id) == 16
    int(RUN.id, 16)


def test_the_id_is_the_same_in_every_process() -> None:
    """Written down: folders of studies are named by it, so a change makes every finished run start again."""
    plain = Run(data="x", checksum="c" * 64, form="ComplEx()", rank=8, recipe=Recipe(), seed=3)
    assert plain.id == "2ed3c45f884e1218"


def test_settings_at_their_defaults_do_not_count() -> None:
    stored = RUN.to_json()
    older = {**stored, "recipe": {k: v for k, v in stored["recipe"].items() if k not in ("precision", "f2")}}
    assert Run.from_json(older).id == RUN.id


def test_the_title_is_a_folder_name_everywhere() -> None:
    assert RUN.title == f"my_graph__-5star-conj-{RUN.id[:8]}"
    long = Run.of(replace(GRAPH, name="../" + "x" * 300), "FiveStar(c=-b, quotient=mobius)", rank=4, recipe=Recipe())
    assert len(long.title) < 80
    assert "/" not in long.title
    assert not long.title.startswith(".")


def test_json_comes_back() -> None:
    assert Run.from_json(RUN.to_json()) == RUN


@pytest.mark.parametrize(
    "stored",
    [
        {},
        [],
        None,
        {**RUN.to_json(), "colour": "red"},
        {k: v for k, v in RUN.to_json().items() if k != "rank"},
        {**RUN.to_json(), "recipe": None},
        {**RUN.to_json(), "recipe": {"epohcs": 3}},
        {**RUN.to_json(), "recipe": {"epochs": "3"}},
    ],
)
def test_invalid_stored_settings_are_refused(stored: Any) -> None:
    with pytest.raises(ConjoinError, match=r"."):
        Run.from_json(stored)


def test_conflicting_settings_are_refused() -> None:
    with pytest.raises(UnknownName, match=r"bset.*best"):
        replace(RUN, weights="bset")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="validate_every"):
        replace(RUN, weights="best", recipe=Recipe())
    with pytest.raises(FormError, match="even"):
        Run.of(GRAPH, "complex", rank=3, recipe=Recipe())
    with pytest.raises(RunError, match="settings"):
        Run.from_json({"recipe": {}})


def test_a_renamed_setting_leaves_the_id_of_a_run_as_it_was() -> None:
    """Computed by the version in which group_queries was called together."""
    fixed = {"data": "tiny", "checksum": "0" * 64, "form": "ComplEx()", "rank": 4}
    stored = {**fixed, "recipe": {"epochs": 3, "together": 16}, "seed": 2, "weights": "last", "origin": ""}
    run = Run.from_json(stored)
    assert run.recipe.group_queries == 16
    assert run.id == "0d1252cdbc57d378"
    assert Run.from_json(run.to_json()).id == run.id
