"""Rank every query of a split, filtered and exact, within a memory limit."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from conjoin.evaluation.ranks import Ranks
from conjoin.graph.filter import Ids, KnownTails, matching_pairs
from conjoin.graph.graph import Graph, Split
from conjoin.model.scorer import Scorer
from conjoin.model.table import RankCounts
from conjoin.runtime.device import matmul_precision
from conjoin.runtime.progress import Track, silent


def rank(model: Scorer, graph: Graph, split: Split = "test", *, track: Track = silent) -> Ranks:
    """The filtered rank of the true answer to each query of `split`, in both directions.

    Entities that complete a triple of train, valid or test do not compete. Products are computed in full float32, or
    in float64 for a model of float64, in whichever precision the model was trained. The arrays of the result have one
    entry per query, shape (2n,) for the n triples of the split.

    >>> from conjoin.model.model import Model
    >>> graph = Graph.from_triples([("a", "r", "b"), ("b", "r", "c")], None, [("c", "r", "a")])
    >>> ranks = rank(Model("complex", graph.n_entities, graph.n_relations, rank=4), graph, "test")
    >>> len(ranks), ranks.candidates.tolist()
    (2, [3, 3])
    """
    model.check_graph(graph.name, n_entities=graph.n_entities, n_relations=graph.n_relations)
    queries, size = graph.queries(split), model.questions_at_once()
    batches = [queries[start : start + size] for start in range(0, len(queries), size)]
    known = graph.known_of(split)
    filtered = DeviceFilter(known, model.device) if model.device.type == "cuda" else known
    counts = [_counts(model, filtered, batch) for batch in track(batches, f"rank {split}", len(batches))]
    better, tied, candidates = (
        np.concatenate([c[i].cpu().numpy() for c in counts] or [np.empty(0, np.int64)]) for i in range(3)
    )
    triples = np.concatenate([graph.triples(split)] * 2)
    direction = np.repeat(np.arange(2), len(triples) // 2)
    return Ranks(triples[:, 0], triples[:, 1], triples[:, 2], direction, better, tied, candidates)


@torch.no_grad()
def _counts(model: Scorer, known: KnownTails | DeviceFilter, queries: Ids) -> RankCounts:
    h, r, t = torch.from_numpy(np.ascontiguousarray(queries.T, dtype=np.int64)).to(model.device)
    if isinstance(known, DeviceFilter):
        hidden = known.pairs(h, r)
    else:
        question, entity = known.pairs(queries[:, 0], queries[:, 1])
        hidden = torch.from_numpy(question), torch.from_numpy(entity)
    with matmul_precision("fp32"):
        return model.standing(h, r, t, hidden)


class DeviceFilter:
    """`KnownTails` on a GPU, where a lookup of ten million pairs takes milliseconds."""

    def __init__(self, known: KnownTails, device: torch.device) -> None:
        self.n_relations = known.n_relations
        keys, starts, tails = (torch.tensor(part, device=device) for part in (known.keys, known.starts, known.tails))
        self.rows = keys, starts, tails

    def pairs(self, h: Tensor, r: Tensor) -> tuple[Tensor, Tensor]:
        """All (query number, known tail) pairs of a batch of queries, two tensors (m,), in the order of the batch."""
        wanted = h * self.n_relations + r
        query, tails = matching_pairs(torch, torch.repeat_interleave, self.rows, wanted)
        return query, tails
