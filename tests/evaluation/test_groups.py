"""Questions grouped by how often the known end occurs in train."""

from __future__ import annotations

import numpy as np
from tests.oracle.standings import graph_of

from conjoin.evaluation.groups import degree_of_known_end
from conjoin.evaluation.rank import rank
from conjoin.model.model import Model


def test_degrees_of_the_known_end() -> None:
    """Entity 0 occurs five times in train (a loop counts twice), 1 once, 2 twice, 3 never."""
    train = [(0, 0, 0), (0, 0, 1), (0, 0, 2), (2, 0, 0)]
    graph = graph_of(4, 1, train, [], [(0, 0, 3), (3, 0, 1), (1, 0, 2)])
    ranks = rank(Model("complex", 4, 1, rank=2), graph)
    names, group = degree_of_known_end(ranks, graph)
    assert names == ["0", "1", "2-4", "5-16", "17-64", "65-256", "257 or more"]
    assert [names[g] for g in group] == ["5-16", "0", "1", "0", "1", "2-4"]
    parts = ranks.by(group)
    assert sum(len(part) for part in parts.values()) == len(ranks)
    assert [names[g] for g in parts] == ["0", "1", "2-4", "5-16"]


def test_bounds_belong_to_the_lower_group() -> None:
    for degree, name in ((0, "0"), (1, "1"), (2, "2-4"), (4, "2-4"), (5, "5-16"), (16, "5-16"), (17, "17-64")):
        graph = graph_of(3, 1, [(0, 0, 1)] * degree, [], [(0, 0, 2)])
        names, group = degree_of_known_end(rank(Model("complex", 3, 1, rank=2), graph), graph)
        assert names[group[0]] == name
        assert names[group[1]] == "0"
    many = graph_of(3, 1, [(0, 0, 1)] * 300, [], [(0, 0, 2)])
    names, group = degree_of_known_end(rank(Model("complex", 3, 1, rank=2), many), many)
    assert [names[g] for g in group] == ["257 or more", "0"]
    assert group.dtype == np.int64
