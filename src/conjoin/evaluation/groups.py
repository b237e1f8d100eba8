"""Ways to group questions that need the graph."""

from __future__ import annotations

import numpy as np

from conjoin.evaluation.ranks import Ids, Ranks
from conjoin.graph.graph import Graph

BOUNDS = (0, 1, 4, 16, 64, 256)
"""Upper ends of the degree groups; the last group is open."""


def degree_of_known_end(ranks: Ranks, graph: Graph) -> tuple[list[str], Ids]:
    """Per question the group of the known end's degree in train, and the groups' names."""
    degree = graph.degrees()
    known_end = np.where(ranks.direction == 0, ranks.head, ranks.tail)
    lows = [0, *(bound + 1 for bound in BOUNDS)]
    names = [str(low) if low == high else f"{low}-{high}" for low, high in zip(lows[:-1], BOUNDS, strict=True)]
    return [*names, f"{lows[-1]} or more"], np.searchsorted(BOUNDS, degree[known_end]).astype(np.int64)
