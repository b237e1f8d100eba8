"""Terms of the objective: DURA against a loop, toy terms on every path, names, and terms of another package."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from tests.oracle import scores as oracle
from tests.oracle.models import model_of, rows
from tests.oracle.specs import NAMED
from tests.oracle.standings import random_graph
from torch import Tensor

from conjoin.errors import BrokenPlugin, UnknownName, UsageError
from conjoin.forms.base import Form
from conjoin.model.model import Model
from conjoin.training.loop import train
from conjoin.training.objective import Batch, Objective, Term, loss
from conjoin.training.penalties import PENALTIES, FactorPenalty, Penalty
from conjoin.training.recipe import Recipe, TermWeights
from conjoin.training.steps import choose, dense
from conjoin.training.steps.choose import TrainingStep
from conjoin.training.steps.dense import gradients, gradients_on_cpu
from conjoin.training.terms import TERMS, load_term

EXAMPLES = [(0, 0, 1), (1, 3, 0), (0, 0, 2), (2, 0, 2), (5, 1, 0), (0, 0, 1), (0, 3, 5)]
PRODUCTS = ("complex", "complex-conj", "complex-twin", "complex(layout=published)")


class RelationSoftmax:
    """The cross-entropy of the relation over all relations, with scores Re Σ h r conj(t). It is not a Penalty."""

    def __call__(self, batch: Batch) -> Tensor:
        count = 2 * batch.model.n_relations
        scores = [
            batch.form.query(h[None].expand(count, -1), batch.every_relation) @ t
            for h, t in zip(batch.heads, batch.tails, strict=True)
        ]
        return torch.nn.functional.cross_entropy(torch.stack(scores), batch.r)

    def obstacle(self, form: Form, rank: int) -> str | None:  # noqa: ARG002
        return None


def objective(*, softmax: float = 0.0, **weights: float) -> Objective:
    """An objective with the toy term and registered ones; dura_w stands for dura-w."""
    terms = {name.replace("_", "-"): weight for name, weight in weights.items() if name not in ("n3", "f2")}
    own: dict[str, tuple[float, Term]] = {name: (weight, load_term(name)) for name, weight in terms.items()}
    if softmax:
        own["softmax"] = softmax, RelationSoftmax()
    return Objective(FactorPenalty(weights.get("n3", 0.0), weights.get("f2", 0.0)), own)


def examples() -> tuple[Tensor, Tensor, Tensor]:
    h, r, t = torch.tensor(EXAMPLES).unbind(1)
    return h, r, t


@pytest.mark.parametrize("name", ["complex", "complex-conj", "complex-twin"])
@pytest.mark.parametrize(("term", "single", "product"), [("dura", 1.0, 1.0), ("dura-w", 0.5, 1.5)])
def test_dura_equals_a_loop_over_coordinates(name: str, term: str, single: float, product: float) -> None:
    model = model_of(name)
    entities, relations = rows(model.entities.weight), rows(model.relations)
    expected = 0.0
    for h, r, t in EXAMPLES:
        head, tail = oracle.head(NAMED[name], entities[h]), oracle.tail(entities[t])
        slots = oracle.unfold(NAMED[name], relations[r])
        for x, y, z in zip(head, slots["a1"] + slots["a2"], tail, strict=True):
            expected += single * (abs(x) ** 2 + abs(z) ** 2) + product * (abs(x * y) ** 2 + abs(z * y.conjugate()) ** 2)
    costs = gradients(model, *examples(), Objective.of(Recipe(n3=0, terms={term: 0.3})))
    assert costs[2].item() == pytest.approx(0.3 * expected / len(EXAMPLES), rel=1e-10)


@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.parametrize("term", sorted(TERMS))
def test_terms_pass_gradcheck(name: str, term: str) -> None:
    model = model_of(name, entities=6, rank=2)
    recipe = Recipe(n3=0.1, terms={term: 0.3})
    assert torch.autograd.gradcheck(
        lambda *_: loss(model, *examples(), recipe), (model.entities.weight, model.relations)
    )


def reference(model: Model, wanted: Objective) -> tuple[Tensor, list[Tensor]]:
    """The objective by automatic differentiation of whole tables; its terms and its gradients."""
    h, r, t = examples()
    batch = Batch(model, h, r, t, model.entities(h), model.relations[r], model.entities(t))
    vars(batch)["relation_table"] = model.relations
    nll = torch.nn.functional.cross_entropy(model.scores(h, r), t)
    parts = [nll, wanted.penalty.per_example(batch.squared_moduli()).mean(), *wanted.term_costs(batch)]
    return torch.stack(parts).detach(), list(torch.autograd.grad(sum(parts), list(model.parameters())))  # type: ignore[arg-type]


@pytest.fixture(params=[500, 3], ids=["single", "grouped"])
def grouped(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dense, "GROUPED", request.param)


@pytest.mark.usefixtures("grouped")
@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.parametrize(
    "weights", [{"dura": 0.3}, {"softmax": 2.0}, {"n3": 0.1, "f2": 0.2, "dura_w": 0.3, "softmax": 1.0}]
)
def test_gradients_of_all_terms_are_those_of_autograd(name: str, weights: dict[str, float]) -> None:
    wanted = objective(**weights)
    costs, expected = reference(model_of(name), wanted)
    for way in (gradients, gradients_on_cpu):
        model = model_of(name)
        torch.testing.assert_close(way(model, *examples(), wanted), costs, rtol=1e-10, atol=1e-12)
        for parameter, gradient in zip(model.parameters(), expected, strict=True):
            torch.testing.assert_close(parameter.grad, gradient, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("path", ["whole", "tiles", "sampled"])
def test_every_path_takes_the_step_of_the_objective(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the plain gradient rule a step moves every number by the rate times its gradient."""
    from tests.training.steps.test_rowwise import everyone

    wanted = objective(n3=0.1, dura=0.2, softmax=1.5)
    model = model_of("complex", budget=100 if path == "tiles" else None)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    costs, gradient = reference(model_of("complex"), wanted)
    recipe = Recipe(optimizer="sgd", lr=0.01, batch=len(EXAMPLES), negatives=7 if path == "sampled" else 0)
    monkeypatch.setattr(choose, "Objective", type("Fixed", (), {"of": staticmethod(lambda _: wanted)}))
    step = TrainingStep(model, recipe)
    assert (step._update is None) == (path == "whole")
    batch = torch.tensor(EXAMPLES)
    found = step(batch, everyone(model, batch[:, 2]) if path == "sampled" else None)
    torch.testing.assert_close(found, costs, rtol=1e-10, atol=1e-12)
    for parameter, start, slope in zip(model.parameters(), before, gradient, strict=True):
        torch.testing.assert_close(parameter.detach(), start - 0.01 * slope, rtol=1e-10, atol=1e-12)


def test_epoch_terms_sum_to_the_objective() -> None:
    graph = random_graph(0)
    model = Model("complex", graph.n_entities, graph.n_relations, rank=4, scale=0.3)
    (epoch,) = train(model, graph, Recipe(epochs=1, n3=0.01, terms={"dura": 0.1}))
    assert list(epoch.terms) == ["nll", "n3", "dura"]
    assert epoch.loss == epoch.terms["nll"]
    assert epoch.penalty == pytest.approx(epoch.terms["n3"] + epoch.terms["dura"])
    assert epoch.terms["dura"] > 0
    (without,) = train(model, graph, Recipe(epochs=1, n3=0.0))
    assert list(without.terms) == ["nll"]


def test_dura_refuses_forms_whose_query_is_not_a_product() -> None:
    graph = random_graph(0)
    for form in ("5star", "5star-conj"):
        model = Model(form, graph.n_entities, graph.n_relations, rank=4)
        with pytest.raises(UsageError, match=r"dura.*head_relation"):
            train(model, graph, Recipe(terms={"dura": 0.1}))


def test_terms_keep_fused_kernels_from_running() -> None:
    model = Model("complex", 5, 2, rank=4)
    on_gpu = type("OnGpu", (), {"device": torch.device("cuda"), "entities": model.entities, "form": model.form})()
    assert "dura" in str(choose.why_not(on_gpu, Recipe(precision="tf32", terms={"dura": 0.1})))
    assert "weights" in str(choose.why_not(on_gpu, Recipe(precision="tf32", target_weights="degree")))


def test_every_registered_term_can_be_loaded() -> None:
    assert all(isinstance(load_term(name), Penalty) for name in TERMS)
    assert PENALTIES["dura"] is load_term("dura")


def test_unknown_terms_are_refused_with_a_suggestion() -> None:
    with pytest.raises(UnknownName, match="dura"):
        Objective.of(Recipe(terms={"dora": 0.1}))


@pytest.mark.parametrize(
    "terms", [{"n3": 0.1}, {"dura": -1.0}, {"dura": float("inf")}, {"dura": "x"}, 5, "dura", {1: 0.1}]
)
def test_impossible_weights_of_terms_are_refused(terms: object) -> None:
    with pytest.raises(UsageError):
        Recipe(terms=terms)  # type: ignore[arg-type]


def test_weights_of_terms_are_sorted_hashable_and_fixed() -> None:
    recipe = Recipe(terms={"dura-w": 0.2, "dura": 0.1, "other": 0.0})
    assert list(recipe.terms.items()) == [("dura", 0.1), ("dura-w", 0.2)]
    assert hash(recipe) == hash(Recipe(terms={"dura": 0.1, "dura-w": 0.2}))
    assert copy.deepcopy(recipe) == recipe
    with pytest.raises(TypeError):
        recipe.terms["dura"] = 1.0  # type: ignore[index]
    assert Recipe(terms={"dura": 0.0}) == Recipe()
    assert isinstance(recipe.terms, TermWeights)


def test_powers_without_a_slope_at_zero_are_refused() -> None:
    with pytest.raises(UsageError, match=r"1\.5"):
        Penalty(power=1.5, factors={"head": 1.0})


TOY = """
import torch
from conjoin.training.penalties import Penalty

SMALL_TAILS = Penalty(power=4, factors={"tail": 1.0})

class HeadsNearTails:
    def __call__(self, batch):
        return (batch.heads - batch.tails + 0 * batch.relations.sum()).square().sum(dim=1).mean()

    def obstacle(self, form, rank):
        return "it is about entities only." if form.family == "Pair" else None

NEAR = HeadsNearTails()
NOT_A_TERM = 5
"""
ENTRIES = "[conjoin.terms]\nsmall-tails = toy_terms:SMALL_TAILS\nnear = toy_terms:NEAR\nnumber = toy_terms:NOT_A_TERM\n"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A package as installers leave it: one file and its entry points."""
    import sys

    (tmp_path / "toy_terms.py").write_text(TOY)
    facts = tmp_path / "toy_terms-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: toy-terms\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text(ENTRIES)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("toy_terms", None)


@pytest.mark.usefixtures("package")
def test_a_package_adds_a_penalty_and_a_loss_term_by_one_file_and_an_entry_point() -> None:
    graph = random_graph(0)
    terms = {"small-tails": 0.5, "near": 2.0}
    model = Model("5star-conj", graph.n_entities, graph.n_relations, rank=4, scale=0.3)
    epochs = list(train(model, graph, Recipe(epochs=8, batch=50, n3=0.0, terms=terms)))
    assert list(epochs[0].terms) == ["nll", "near", "small-tails"]
    assert epochs[-1].terms["near"] < epochs[0].terms["near"]
    with pytest.raises(UsageError, match=r"near.*quate|near.*Pair"):
        train(Model("quate", graph.n_entities, graph.n_relations, rank=4), graph, Recipe(terms=terms))
    with pytest.raises(BrokenPlugin, match="number"):
        load_term("number")
    with pytest.raises(UnknownName, match="small-tails"):
        load_term("small-tail")
