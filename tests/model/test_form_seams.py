"""Forms with derived reciprocals, with shared parameters that have state, and links and forms of other packages."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest
import torch
from tests.runtime.test_plugins import announce
from torch import Tensor, nn

from conjoin.errors import BrokenPlugin, FormError
from conjoin.evaluation.rank import rank
from conjoin.forms.base import Form
from conjoin.forms.link import LinkNames
from conjoin.forms.notation import FORMS, form, parse
from conjoin.forms.planar import Z
from conjoin.graph.graph import Graph
from conjoin.model.model import Model
from conjoin.model.sharded import ShardedTable
from conjoin.runtime.distributed import Mesh
from conjoin.training.loop import train
from conjoin.training.objective import Objective, loss
from conjoin.training.recipe import Recipe
from conjoin.training.steps.dense import gradients, gradients_on_cpu

EXAMPLES = torch.tensor([(0, 0, 1), (1, 3, 0), (0, 2, 1), (2, 0, 2), (5, 1, 0), (0, 3, 5)])
GRAPH = Graph.from_triples(
    [(f"e{i}", "next", f"e{(i + 1) % 12}") for i in range(12)], [("e0", "next", "e1")], [("e3", "next", "e4")]
)


@dataclass(frozen=True, kw_only=True)
class Adjoint(Form):
    """ComplEx whose reciprocal is the conjugate: score(t, reciprocal of r, h) = score(h, r, t)."""

    def entity_width(self, rank: int) -> int:
        return 2 * rank

    def relation_width(self, rank: int) -> int:
        return 2 * rank

    def reversed_rows(self, rows: Tensor) -> Tensor:
        return Z.of_row(rows).conj().row()

    def query(self, heads: Tensor, unfolded: Tensor) -> Tensor:
        return (Z.of_row(heads) * Z.of_row(unfolded)).row()


def test_a_form_with_derived_reciprocals_stores_one_row_per_relation() -> None:
    model = Model(Adjoint(), 7, 2, rank=3, dtype=torch.float64, scale=0.7)
    assert model.relations.shape == (2, 6)
    h, r, t = torch.tensor([0, 3, 5]), torch.tensor([0, 1, 1]), torch.tensor([4, 3, 2])
    torch.testing.assert_close(model.score(h, r, t), model.score(t, r + 2, h))
    with pytest.raises(FormError, match="ComplEx"):
        FORMS["complex"].reversed_rows(torch.zeros(1, 2))


@pytest.mark.parametrize("way", [gradients, gradients_on_cpu])
def test_gradients_of_derived_reciprocals_add_up_in_the_relations_row(way: object) -> None:
    model, reference = (Model(Adjoint(), 7, 2, rank=3, dtype=torch.float64, scale=0.7) for _ in range(2))
    recipe, (h, r, t) = Recipe(n3=0.1), EXAMPLES.unbind(1)
    loss(reference, h, r, t, recipe).backward()  # type: ignore[no-untyped-call]
    way(model, h, r, t, Objective.of(recipe))  # type: ignore[operator]
    for found, wanted in zip(model.parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(found.grad, wanted.grad)


def test_a_form_with_derived_reciprocals_learns() -> None:
    model = Model(Adjoint(), GRAPH.n_entities, GRAPH.n_relations, rank=8, scale=0.1)
    losses = [epoch.loss for epoch in train(model, GRAPH, Recipe(epochs=20, batch=12, n3=0.0))]
    assert losses[-1] < losses[0] / 2
    assert rank(model, GRAPH, "test").mrr() > 0


@dataclass(frozen=True, kw_only=True)
class Normalised(Form):
    """q = batch normalisation of W h r, with one matrix W for all relations."""

    class Core(nn.Module):
        """W, and the batch normalisation."""

        def __init__(self, rank: int) -> None:
            super().__init__()
            self.mix = nn.Linear(rank, rank, bias=False)
            self.norm = nn.BatchNorm1d(rank)

    def shared(self, rank: int) -> nn.Module:
        return self.Core(rank)

    def unfold(self, relations: Tensor, shared: object = None) -> tuple[Tensor, Normalised.Core]:
        assert isinstance(shared, Normalised.Core)
        return relations, shared

    def query(self, heads: Tensor, unfolded: tuple[Tensor, Normalised.Core]) -> Tensor:
        relations, core = unfolded
        return cast(Tensor, core.norm(core.mix(heads) * relations))

    def factor(
        self, name: str, heads: Tensor, unfolded: tuple[Tensor, Normalised.Core], tails: Tensor, query: Tensor
    ) -> Tensor:
        return super().factor(name, heads, unfolded[0], tails, query)


def test_models_store_shared_parameters_and_state() -> None:
    before = torch.random.get_rng_state()
    one, same, other = (Model(Normalised(), 7, 2, rank=4, seed=seed, dtype=torch.float64) for seed in (1, 1, 2))
    assert torch.equal(torch.random.get_rng_state(), before)
    named = dict(one.state_dict())
    assert {"entities.weight", "relations", "shared.mix.weight", "shared.norm.running_mean"} <= set(named)
    assert len(list(one.parameters())) == 5
    assert one.n_parameters == 7 * 4 + 4 * 4 + 16 + 2 * 4 == sum(p.numel() for p in one.parameters())
    assert named["shared.mix.weight"].dtype == torch.float64
    assert torch.equal(named["shared.mix.weight"], same.state_dict()["shared.mix.weight"])
    assert not torch.equal(named["shared.mix.weight"], other.state_dict()["shared.mix.weight"])
    other.load_state_dict(named)
    h, r, _ = EXAMPLES.unbind(1)
    assert torch.equal(other.scores(h, r), one.scores(h, r))


def test_a_new_model_normalises_with_stored_statistics_until_it_is_trained() -> None:
    model = Model(Normalised(), 7, 2, rank=4, scale=1.0)
    h, r, _ = EXAMPLES.unbind(1)
    alone, together = model.scores(h[:1], r[:1]), model.scores(h, r)
    torch.testing.assert_close(alone[0], together[0])
    assert model.shared is not None
    model.shared.train()
    model.scores(h, r)
    assert model.state_dict()["shared.norm.running_mean"].any()


def test_a_mesh_can_be_passed_to_a_model() -> None:
    """The second of two processes, without the other: it holds its own rows with the numbers that one process has."""
    whole = Model("complex", 7, 2, rank=2)
    part = Model("complex", 7, 2, rank=2, mesh=Mesh(rank=1, count=2))
    assert isinstance(part.entities, ShardedTable)
    first = part.entities.first
    assert torch.equal(part.entities.weight, whole.entities.weight[first:])
    assert part.n_entities == 7


LINK = """
import torch
from conjoin.forms.link import Link


class Huber(Link):
    name = "huber"

    def scores(self, q, rows):
        return self._minus((q[:, None] - rows).abs())

    def pairs(self, q, rows):
        return self._minus((q - rows).abs())

    def _minus(self, gap):
        return -torch.where(gap < 1, gap.square() / 2, gap - 0.5).sum(dim=-1)


class Wide(Huber):
    name = "wide"
    query_parts = 2


HUBER = Huber()
WIDE = Wide()
NAMELESS = Huber
"""
ENTRIES = """[conjoin.links]
huber = toy_link:HUBER
broken = toy_link:HUBER
wide = toy_link:WIDE
nameless = toy_link:NAMELESS
[conjoin.forms]
huber-transe = toy_link:FORM
"""


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package with a link: pairwise sums, whose gradient autograd computes."""
    source = LINK + "\nfrom conjoin.forms.transe import TransE\nFORM = TransE(distance='huber')\n"
    announce(tmp_path, "toy_link", ENTRIES, source)
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.usefixtures("toy")
@pytest.mark.parametrize("budget", [None, 100])
def test_a_link_of_another_package_trains_and_ranks(budget: int | None) -> None:
    assert "huber" in LinkNames()
    value = form("huber-transe")
    assert parse(str(value)) == value == form("TransE(distance=huber)")
    model = Model(value, GRAPH.n_entities, GRAPH.n_relations, rank=8, scale=0.1, budget=budget)
    losses = [epoch.loss for epoch in train(model, GRAPH, Recipe(epochs=20, batch=12, n3=0.0))]
    assert losses[-1] < losses[0]
    assert rank(model, GRAPH, "test").mrr() > 0
    h, r, t = torch.tensor([0, 1]), torch.tensor([0, 1]), torch.tensor([2, 3])
    torch.testing.assert_close(model.score(h, r, t), model.scores(h, r)[torch.arange(2), t])


@pytest.mark.usefixtures("toy")
def test_a_broken_link_of_another_package_is_an_error() -> None:
    for name in ("broken", "nameless"):
        with pytest.raises(BrokenPlugin, match=name):
            form(f"TransE(distance={name})")
    with pytest.raises(FormError, match="distance=wide"):
        form("TransE(distance=wide)")
    with pytest.raises(FormError, match="huber"):
        form("TransE(distance=hubber)")
