"""Rank every question of a split, filtered and exact, within a memory limit."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from conjoin.device import matmul_precision
from conjoin.graph.graph import Graph, Split
from conjoin.graph.known import Ids
from conjoin.model.model import Model
from conjoin.progress import Track, silent
from conjoin.ranking.ranks import Ranks


def rank(model: Model, graph: Graph, split: Split = "test", *, track: Track = silent) -> Ranks:
    """Where the true answer of each question of `split` stands, in both directions.

    Entities that complete a triple known from train, valid or test do not compete. Products are always full float32
    (or the model's own precision), whatever the model was trained with.
    """
    parts = _parts(model, graph.queries(split))
    standings = [_standing(model, graph, part) for part in track(parts, f"rank {split}", len(parts))]
    better, tied, candidates = (
        np.concatenate([s[i].cpu().numpy() for s in standings] or [np.empty(0, np.int64)]) for i in range(3)
    )
    triples = np.concatenate([graph.triples(split)] * 2)
    direction = np.repeat(np.arange(2), len(triples) // 2)
    return Ranks(triples[:, 0], triples[:, 1], triples[:, 2], direction, better, tied, candidates)


def _parts(model: Model, queries: Ids) -> list[Ids]:
    size = model.entities.questions_at_once()
    return [queries[i : i + size] for i in range(0, len(queries), size)]


@torch.no_grad()
def _standing(model: Model, graph: Graph, queries: Ids) -> tuple[Tensor, Tensor, Tensor]:
    question, entity = graph.known.pairs(queries[:, 0], queries[:, 1])
    h, r, t, question_ids, entity_ids = (
        torch.from_numpy(np.ascontiguousarray(ids)).to(model.device)
        for ids in (queries[:, 0], queries[:, 1], queries[:, 2], question, entity)
    )
    with matmul_precision("fp32"):
        return model.entities.standing(model.query(h, r), t, (question_ids, entity_ids))
