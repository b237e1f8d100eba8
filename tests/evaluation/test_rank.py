"""Filtered ranks against going through every entity of every question."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracle import scores as oracle
from tests.oracle.memory import Allocations
from tests.oracle.models import rows
from tests.oracle.specs import NAMED, every_spec
from tests.oracle.standings import filtered, graph_of, graphs, random_graph

from conjoin.errors import Diverged, UnknownName, UsageError
from conjoin.evaluation.rank import DeviceFilter, rank
from conjoin.evaluation.ranks import Ranks
from conjoin.graph.graph import SPLITS, Graph, Split
from conjoin.model.model import Model

BUDGETS = (None, 1, 5000, 100_000)
SPECS = every_spec()


def triples(graph: Graph, split: Split) -> list[tuple[int, int, int]]:
    return [(h, r, t) for h, r, t in graph.triples(split).tolist()]


def counted(ranks: Ranks) -> list[tuple[int, int, int]]:
    return list(zip(ranks.better.tolist(), ranks.tied.tolist(), ranks.candidates.tolist(), strict=True))


def expected(model: Model, graph: Graph, name: str, split: Split) -> list[tuple[int, int, int]]:
    entities, relations = rows(model.entities.weight), rows(model.relations)
    known: dict[tuple[int, int], list[float]] = {}

    def score(h: int, r: int) -> list[float]:
        if (h, r) not in known:
            known[h, r] = oracle.scores(SPECS[name], entities, relations[r], h)
        return known[h, r]

    return filtered(graph, triples(graph, split), score)


@settings(max_examples=40, deadline=None)
@given(
    graph=graphs(),
    name=st.sampled_from(["complex", "complex-conj", "complex-twin", "complex-conj/published", "pair"]),
    budget=st.sampled_from(BUDGETS),
    split=st.sampled_from(SPLITS),
    seed=st.integers(0, 10**6),
)
def test_ranks_with_many_ties(graph: Graph, name: str, budget: int | None, split: Split, seed: int) -> None:
    """Whole numbers make every score exact, so that ties are planted everywhere, beside rows that are identical."""
    model = Model(SPECS[name].text(), graph.n_entities, graph.n_relations, rank=2, budget=budget)
    source = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for table in (model.entities.weight, model.relations):
            table.copy_(torch.randint(-2, 3, table.shape, generator=source))
        model.entities.weight[: graph.n_entities // 3] = model.entities.weight[-1]
    assert counted(rank(model, graph, split)) == expected(model, graph, name, split)


@pytest.mark.parametrize("name", SPECS)
def test_ranks_of_every_form(name: str) -> None:
    graph = random_graph(3)
    model = Model(
        SPECS[name].text(), graph.n_entities, graph.n_relations, rank=4, dtype=torch.float64, scale=0.7, budget=4000
    )
    assert counted(rank(model, graph, "test")) == expected(model, graph, name, "test")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", ["complex", "5star", "5star-conj"])
def test_identical_entities_tie_whatever_the_numbers(name: str, dtype: torch.dtype) -> None:
    """Every question has a twin of its answer; under all three policies it costs what the policy says."""
    for entities in (8, 20, 33, 50, 75):
        graph = random_graph(entities, entities=entities, train=0, held_out=15)
        for budget in BUDGETS:
            model = Model(name, 2 * entities, 3, rank=4, dtype=dtype, scale=0.7, budget=budget)
            with torch.no_grad():
                model.entities.weight[entities:] = model.entities.weight[:entities]
            doubled = graph_of(2 * entities, 3, [], [], triples(graph, "test"))
            assert counted(rank(model, doubled)) == expected(model, doubled, name, "test")


def test_questions_stand_in_order() -> None:
    graph = random_graph(5)
    ranks = rank(Model("complex", 20, 3, rank=2), graph, "valid")
    assert len(ranks) == 2 * len(graph.valid)
    assert ranks.direction.tolist() == [0] * 10 + [1] * 10
    for column, place in (("head", 0), ("relation", 1), ("tail", 2)):
        assert getattr(ranks, column).tolist() == graph.valid[:, place].tolist() * 2


def test_known_answers_of_every_split_are_filtered() -> None:
    """Scores 3 > 2 > 1 > 0 for entities 0…3; the target is the last, and each split hides one above it."""
    model = Model("complex", 5, 1, rank=2)
    with torch.no_grad():
        model.relations.copy_(torch.tensor([[1.0, 1, 0, 0], [1, 1, 0, 0]]))
        model.entities.weight.zero_()
        model.entities.weight[:, 0] = torch.tensor([3.0, 2, 1, 0, 1])
    for hidden in range(4):
        splits: list[list[tuple[int, int, int]]] = [[], [], [(4, 0, 3)]]
        for entity in range(hidden):
            splits[entity].append((4, 0, entity))
        ranks = rank(model, graph_of(5, 1, *splits))
        tail_questions = ranks.where((ranks.direction == 0) & (ranks.tail == 3))
        assert counted(tail_questions) == [(4 - hidden, 0, 5 - hidden)]


def test_duplicate_questions_are_asked_twice_and_hide_once() -> None:
    graph = graph_of(4, 1, [(0, 0, 2), (0, 0, 2)], [(0, 0, 2)], [(0, 0, 1), (0, 0, 1)])
    ranks = rank(Model("complex", 4, 1, rank=2), graph)
    assert len(ranks) == 4
    assert ranks.candidates.tolist() == [3, 3, 4, 4]


def test_an_empty_split_has_no_ranks() -> None:
    ranks = rank(Model("complex", 3, 1, rank=2), graph_of(3, 1, [(0, 0, 1)]))
    assert len(ranks) == 0
    assert np.isnan(ranks.mrr())


def test_unseen_entities_compete_and_can_be_answers() -> None:
    graph = graph_of(6, 1, [(0, 0, 1)], [], [(4, 0, 5)])
    assert graph.unseen.tolist() == [2, 3, 4, 5]
    ranks = rank(Model("5star", 6, 1, rank=2), graph)
    assert ranks.candidates.tolist() == [6, 6]


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
@pytest.mark.parametrize("budget", BUDGETS)
def test_scores_that_are_not_finite_raise(bad: float, budget: int | None) -> None:
    graph = random_graph(6, entities=70)
    for table in ("entities", "relations"):
        model = Model("complex", 70, 3, rank=2, budget=budget)
        with torch.no_grad():
            (model.entities.weight if table == "entities" else model.relations).fill_(bad)
        with pytest.raises(Diverged, match="learning rate"):
            rank(model, graph)


def test_an_unknown_split_is_named() -> None:
    with pytest.raises(UnknownName, match="valid"):
        rank(Model("complex", 20, 3, rank=2), random_graph(0), "vlaid")  # type: ignore[arg-type]


def test_ranking_leaves_no_trace() -> None:
    graph, model = random_graph(7), Model("5star-conj", 20, 3, rank=2)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    precision = torch.get_float32_matmul_precision()
    rank(model, graph)
    assert torch.get_float32_matmul_precision() == precision
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())


def test_a_bounded_ranking_holds_no_matrix_of_scores() -> None:
    budget, entities = 256 << 10, 6000
    graph = random_graph(8, entities=entities, train=200, held_out=100)
    model = Model(NAMED["complex-conj"].text(), entities, 3, rank=2, budget=budget)
    with Allocations() as seen:
        rank(model, graph)
    assert budget / 8 < seen.largest <= budget
    assert seen.peak <= 2 * budget < 32 * entities * 4


@given(graphs())
def test_the_filter_of_a_gpu_hides_what_the_filter_of_a_cpu_hides(graph: Graph) -> None:
    known = graph.known
    there = DeviceFilter(known, torch.device("cpu"))
    asked = np.concatenate([graph.queries(split) for split in SPLITS])
    unknown = np.array([[graph.n_entities - 1, 0, 0], [0, 2 * graph.n_relations - 1, 0]])
    asked = np.concatenate([asked, unknown])
    wanted = known.pairs(asked[:, 0], asked[:, 1])
    found = there.pairs(*(torch.from_numpy(np.ascontiguousarray(asked[:, i], dtype=np.int64)) for i in range(2)))
    assert [part.tolist() for part in found] == [part.tolist() for part in wanted]


@pytest.mark.parametrize(("entities", "relations"), [(2, 1), (4, 1), (3, 2)])
def test_a_model_of_another_graph_is_refused(entities: int, relations: int) -> None:
    """One that is too large would rank among entities that are not there, and nothing would show it."""
    graph = Graph.from_triples([("a", "r", "b")], None, [("b", "r", "c")], name="mine")
    with pytest.raises(UsageError, match="mine has 3 and 1"):
        rank(Model("complex", entities, relations, rank=2), graph, "test")
