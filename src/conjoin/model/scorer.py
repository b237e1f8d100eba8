"""Scorer: everything that ranking and prediction see of a model.

`Model` implements it with its form and its table of entities, `Ensemble` with the scores of its members.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from conjoin.errors import UsageError
from conjoin.model.score_blocks import Blocks
from conjoin.model.table import RankCounts

Pairs = tuple[Tensor, Tensor]
"""Pairs of a query number and an entity, each (n,)."""


class Scorer(Protocol):
    """Scores for queries (h, r, ?) over the entities of one graph.

    Relations are numbered 0 … 2·n_relations - 1: number r + n_relations is the reciprocal of r, so that a head query
    (?, r, t) is the tail query (t, r + n_relations, ?). All ids are int64 tensors on `device`.
    """

    @property
    def title(self) -> str:
        """A short description for people: form and rank of a model."""
        ...

    @property
    def n_entities(self) -> int:
        """How many entities are scored."""
        ...

    @property
    def n_relations(self) -> int:
        """Relations of the graph, reciprocals not counted."""
        ...

    @property
    def device(self) -> torch.device:
        """Where scores are computed."""
        ...

    def check_graph(self, name: str, *, n_entities: int, n_relations: int) -> None:
        """Raise UsageError unless the graph has as many entities and relations as the scorer."""
        ...

    def questions_at_once(self) -> int:
        """How many queries to score together within the memory budget."""
        ...

    def scores(self, h: Tensor, r: Tensor) -> Tensor:
        """Scores of every entity as the tail of (h, r, ?), (B, n_entities), free to be changed."""
        ...

    def score_blocks(self, h: Tensor, r: Tensor) -> Blocks:
        """The same scores in blocks (B, columns) within the memory budget, which can be gone through more than once.

        Entities with equal parameters have exactly equal scores here; products of any shape do not ensure this.
        """
        ...

    def score(self, h: Tensor, r: Tensor, t: Tensor) -> Tensor:
        """Scores (B,) of the facts (h, r, t); `t` has B entries, or is a scalar tensor, the one tail of all queries."""
        ...

    def standing(self, h: Tensor, r: Tensor, t: Tensor, hidden: Pairs) -> RankCounts:
        """How many entities score higher than each t (B,), and the same; hidden pairs never compete, t always does.

        Entities with equal parameters have exactly equal scores, so that they are counted as tied.
        """
        ...

    def best(
        self, h: Tensor, r: Tensor, k: int, hidden: Pairs | None = None, among: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """The k best entities of every query: scores and ids, each (B, k), best first; hidden pairs score -inf.

        `among` (n,), sorted and without repeats, are the only candidates; with fewer than k of them all are returned.
        """
        ...

    def similarity(self, e: int) -> Tensor:
        """How similar the embedding of each entity (n_entities,) is to that of entity e, between -1 and 1."""
        ...


def check_sizes(scorer: Scorer, name: str, *, n_entities: int, n_relations: int) -> None:
    """Raise UsageError unless a graph has as many entities and relations as the scorer: ids would mean other rows."""
    if (n_entities, n_relations) != (scorer.n_entities, scorer.n_relations):
        raise UsageError(
            f"the model is for {scorer.n_entities} entities and {scorer.n_relations} relations, "
            f"{name} has {n_entities} and {n_relations}"
        )


def positions_of(pairs: Pairs, among: Tensor) -> Pairs:
    """Pairs of query and entity as pairs of query and position in the sorted ids `among`, without other entities."""
    query, entity = pairs
    position = torch.searchsorted(among, entity).clamp_(max=len(among) - 1)
    inside = among[position] == entity
    return query[inside], position[inside]
