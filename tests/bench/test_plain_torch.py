"""Plain PyTorch computes the same scores, steps and ranks as the library."""

from __future__ import annotations

import pytest
import torch
from bench.compare.plain_torch import PlainModel, PlainTraining, can_be_plain, plain_ranks, published_width

from conjoin.errors import UsageError
from conjoin.evaluation.rank import rank
from conjoin.forms.notation import FORMS, form
from conjoin.graph.graph import Graph
from conjoin.model.model import Model
from conjoin.training.recipe import Recipe
from conjoin.training.steps.choose import TrainingStep

PUBLISHED = [name for name in FORMS if can_be_plain(form(name))]
RANK = 4


def twins(name: str, *, wide: bool, sparse: bool = False) -> tuple[Model, PlainModel]:
    """Both models with the same numbers, in double precision."""
    ours = Model(name, 9, 3, rank=RANK, dtype=torch.float64, scale=0.5)
    plain = PlainModel(name, 9, 3, rank=RANK, wide=wide, sparse=sparse).double()
    plain.entities.weight.data[:, : 2 * RANK] = ours.entities.weight.data
    plain.relations.weight.data[:] = ours.relations.data
    return ours, plain


def questions(number: int) -> torch.Tensor:
    source = torch.Generator().manual_seed(1)
    return torch.stack([torch.randint(n, (number,), generator=source) for n in (9, 6, 9)], dim=1)


def test_plain_torch_has_the_forms_of_the_paper() -> None:
    assert {"complex", "complex-conj", "5star", "5star-conj", "5star-neg", "5star-vert", "5star-horiz"} <= set(
        PUBLISHED
    )


@pytest.mark.parametrize("name", PUBLISHED)
@pytest.mark.parametrize(("wide", "sparse"), [(False, False), (True, False), (False, True)])
def test_plain_step_equals_our_step(name: str, wide: bool, sparse: bool) -> None:
    ours, plain = twins(name, wide=wide, sparse=sparse)
    recipe = Recipe(batch=12, lr=0.1, n3=0.3)
    step, training = TrainingStep(ours, recipe), PlainTraining(plain, lr=0.1, n3=0.3, batch=12)
    for _ in range(3):
        nll, penalty = step(questions(12)).tolist()
        assert training.step(questions(12)) == pytest.approx(nll + penalty, rel=1e-9)
    torch.testing.assert_close(plain.entities.weight.data[:, : 2 * RANK], ours.entities.weight.data)
    torch.testing.assert_close(plain.relations.weight.data, ours.relations.data)


def test_plain_epoch_visits_every_batch() -> None:
    _, plain = twins("complex", wide=False)
    training = PlainTraining(plain, lr=0.1, n3=0.0, batch=5)
    training.epoch(questions(12))
    assert all(state["step"] == 3 for state in training.optimizer.state.values())


@pytest.mark.parametrize(("name", "columns"), [("5star", 8), ("5star-conj", 4), ("complex", 2), ("complex-conj", 2)])
def test_published_widths(name: str, columns: int) -> None:
    assert published_width(form(name), RANK) == columns * RANK
    assert PlainModel(name, 9, 3, rank=RANK, wide=True).entities.weight.shape == (9, columns * RANK)


def test_plain_ranks_equal_our_ranks() -> None:
    source = torch.Generator().manual_seed(2)
    facts = torch.unique(torch.stack([torch.randint(n, (60,), generator=source) for n in (9, 3, 9)], dim=1), dim=0)
    facts = facts[torch.randperm(len(facts), generator=source)].numpy()
    graph = Graph.from_triples(facts[:30], facts[30:33], facts[33:])
    ours, plain = twins("5star-neg", wide=True)
    assert plain_ranks(plain, graph, batch=7).tolist() == rank(ours, graph, "test").ranks().tolist()


def test_unpublished_forms_are_refused() -> None:
    with pytest.raises(UsageError, match="published reading"):
        PlainModel("FiveStar(quotient=mobius)", 9, 3, rank=RANK)
