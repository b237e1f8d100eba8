from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from conjoin.graph.graph import Graph
from conjoin.model.model import Model
from conjoin.training.batches import epoch_order
from conjoin.training.loop import train
from conjoin.training.objective import Objective
from conjoin.training.recipe import Recipe
from conjoin.training.steps.dense import gradients, gradients_on_cpu


def source(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def groups_of(asked: torch.Tensor) -> list[tuple[tuple[int, ...], int]]:
    """Runs of equal questions: the question, and how long the run is."""
    runs: list[tuple[tuple[int, ...], int]] = []
    for question in map(tuple, asked.tolist()):
        if runs and runs[-1][0] == question:
            runs[-1] = (question, runs[-1][1] + 1)
        else:
            runs.append((question, 1))
    return runs


@given(
    heads=st.lists(st.integers(0, 4), min_size=0, max_size=60),
    group_queries=st.integers(1, 9),
    seed=st.integers(0, 2**31),
)
def test_every_example_occurs_once_in_the_fewest_groups(heads: list[int], group_queries: int, seed: int) -> None:
    queries = torch.tensor([[head, head % 2, number] for number, head in enumerate(heads)]).reshape(-1, 3)
    order = epoch_order(queries, group_queries, source(seed))
    assert sorted(order.tolist()) == list(range(len(heads)))
    if group_queries > 1:
        counts = [heads.count(head) for head in set(heads)]
        wanted = sum(-(-count // group_queries) for count in counts)
        assert len(groups_of(queries[order, :2])) <= wanted


def test_answers_and_places_of_a_group_are_drawn_anew() -> None:
    queries = torch.tensor([[number % 3, 0, number] for number in range(60)])
    orders = {tuple(epoch_order(queries, 4, source(seed)).tolist()) for seed in range(5)}
    assert len(orders) == 5
    first_groups = {frozenset(order[:4]) for order in orders}
    assert len(first_groups) == 5


def test_groups_are_shuffled_and_at_most_as_long_as_asked() -> None:
    queries = torch.tensor([[max(0, number - 2), 0, number] for number in range(60)])
    runs = [groups_of(queries[epoch_order(queries, 2, source(seed)), :2]) for seed in range(20)]
    assert all(run != sorted(run) for run in runs)
    assert sum(((0, 0), 3) in run for run in runs) < 5, (
        "three examples of one question are two groups, which seldom meet"
    )


def test_group_queries_1_is_a_plain_permutation() -> None:
    queries = torch.arange(30).reshape(10, 3)
    assert torch.equal(epoch_order(queries, 1, source()), torch.randperm(10, generator=source()))


def test_a_question_scored_once_for_all_its_answers_has_the_same_gradient() -> None:
    """Batches small enough to be left ungrouped otherwise."""
    recipe = Recipe(batch=40, n3=0.1, f2=0.02, group_queries=16)
    model = Model("5star-conj", 30, 3, rank=5, scale=0.4, dtype=torch.float64)
    h, r = torch.randint(3, (2, 40), generator=source())
    t = torch.randint(30, (40,), generator=source(1))
    wanted = gradients(model, h, r, t, Objective.of(recipe))
    expected = [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]
    found = gradients_on_cpu(model, h, r, t, Objective.of(recipe), group=True)
    torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-12)
    for parameter, gradient in zip(model.parameters(), expected, strict=True):
        torch.testing.assert_close(parameter.grad, gradient, rtol=1e-11, atol=1e-13)


def test_training_by_groups_learns() -> None:
    graph = Graph.from_triples([(f"e{i}", "next", f"e{j % 9}") for i in range(9) for j in (i + 1, i + 2, i + 3)])
    model = Model("complex", graph.n_entities, graph.n_relations, rank=8)
    losses = [epoch.loss for epoch in train(model, graph, Recipe(epochs=30, batch=10, n3=0, group_queries=3))]
    assert losses[-1] < 0.6 * losses[0]
