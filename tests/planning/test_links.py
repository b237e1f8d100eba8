"""Plans for forms with other links and widths: the memory that their paths take."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from tests.oracle.memory import Allocations

from conjoin.forms.notation import FORMS, parse
from conjoin.model.model import Model
from conjoin.planning.memory_model import PlannedSetting, PlannedSizes, memory, parameters
from conjoin.planning.plan import make_plan
from conjoin.planning.tie_savings import tie_savings

SIZES = PlannedSizes(entities=3000, relations=5, train=4000, valid=100, test=100)
TEXTS = ("complex", "distmult", "transe", "transe-squared", "transh", "TransE(distance=l1)")


def setting(text: str, **changes: object) -> PlannedSetting:
    return replace(PlannedSetting(form=parse(text), rank=32, batch=300), **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", FORMS)
def test_planned_parameters_are_those_of_the_model(name: str) -> None:
    entities, relations = parameters(SIZES, setting(name))
    model = Model(name, SIZES.entities, SIZES.relations, rank=32)
    assert (entities, relations) == (model.entities.weight.numel(), model.n_relation_parameters)


@pytest.mark.parametrize("text", TEXTS)
def test_the_softmax_stays_within_the_planned_memory(text: str) -> None:
    model = Model(text, SIZES.entities, SIZES.relations, rank=32)
    h, r, t = (torch.arange(300) % most for most in (3000, 10, 3000))
    q, out = model.query(h, r).detach(), torch.zeros_like(model.entities.weight)
    with Allocations() as allocations, torch.no_grad():
        model.entities.softmax(q, t, out=out)
    planned = memory(SIZES, setting(text))
    assert allocations.peak < planned.scores + planned.activations


@pytest.mark.parametrize("text", TEXTS)
def test_ranking_stays_within_the_planned_memory(text: str) -> None:
    model = Model(text, SIZES.entities, SIZES.relations, rank=32)
    asked = min(200, model.entities.questions_at_once())
    ids, none = torch.arange(asked), torch.empty(0, dtype=torch.long)
    q = model.query(ids, ids % 10).detach()
    with Allocations() as allocations, torch.no_grad():
        model.entities.standing(q, ids, (none, none))
    assert allocations.peak < memory(SIZES, setting(text)).ranking + 4 * asked * 64 * 8


def test_forms_without_kernels_are_not_planned_with_them() -> None:
    for text, precision in (("complex", "bf16"), ("transe", "tf32"), ("distmult", "tf32")):
        plan = make_plan(SIZES, setting(text, device="cuda"), available=None)
        assert plan.recommendation.precision == precision
    assert memory(SIZES, setting("distmult", device="cuda", precision="bf16")).copies == 0


def test_a_form_without_ties_saves_nothing_by_ties() -> None:
    assert tie_savings(SIZES, setting("transh")).saved_bytes == 0
