"""Every relation with its counts, its patterns, and its test metrics in both directions."""

from __future__ import annotations

from typing import Any

import numpy as np

from conjoin.evaluation.ranks import DIRECTIONS, Ranks, Reals
from conjoin.graph.graph import SPLITS
from conjoin.graph.patterns.detect import CARDINALITIES, cardinality, find_mirrors
from conjoin.server.open_runs import OpenRun

RelationTable = dict[str, dict[str, float] | None]


def relation_rows(run: OpenRun) -> list[dict[str, Any]]:
    """One JSON object per relation, by id."""
    graph = run.graph
    n = graph.n_relations
    counts = [np.bincount(graph.triples(split)[:, 1], minlength=n) for split in SPLITS]
    kinds = cardinality(graph)
    patterns = _patterns(run)
    ranks = _ranks(run)
    rows = []
    for r in range(n):
        train, valid, test = (int(count[r]) for count in counts)
        rows.append(
            {
                **run.named(graph.relations, r),
                "train": train,
                "valid": valid,
                "test": test,
                "tails_per_head": float(kinds.tails_per_head[r]) if train else None,
                "heads_per_tail": float(kinds.heads_per_tail[r]) if train else None,
                "cardinality": CARDINALITIES[kinds.kind[r]] if train else None,
                "patterns": patterns[r],
                "ranks": ranks[r],
            }
        )
    return rows


def by_frequency(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: -int(row["train"]))


def _patterns(run: OpenRun) -> list[list[dict[str, Any]]]:
    patterns: list[list[dict[str, Any]]] = [[] for _ in range(run.graph.n_relations)]
    mirrors = find_mirrors(run.graph)
    for r, other, support, confidence in zip(
        mirrors.relation.tolist(),
        mirrors.other.tolist(),
        mirrors.support.tolist(),
        mirrors.confidence.tolist(),
        strict=True,
    ):
        evidence = {"support": support, "confidence": confidence}
        pattern = "symmetric" if r == other else "inverse"
        for this, that in {(r, other), (other, r)}:
            patterns[this].append({"pattern": pattern, "other": run.named(run.graph.relations, that), **evidence})
    return patterns


def _ranks(run: OpenRun) -> list[RelationTable]:
    """Test metrics of each relation by direction.

    None for a direction without test questions, and everywhere if the stored ranks belong to other weights.
    """
    n, folder = run.graph.n_relations, run.folder
    if folder is None or run.weights != folder.run.weights or not folder.ranks_file("test").exists():
        return [dict.fromkeys(DIRECTIONS) for _ in range(n)]
    ranks = folder.ranks("test")
    by_direction = {
        direction: _by_relation(ranks.where(ranks.direction == d), n) for d, direction in enumerate(DIRECTIONS)
    }
    return [{direction: rows[r] for direction, rows in by_direction.items()} for r in range(n)]


def _by_relation(ranks: Ranks, n: int) -> list[dict[str, float] | None]:
    rank = ranks.ranks()
    questions = np.bincount(ranks.relation, minlength=n)

    def mean(values: Any) -> Reals:
        return np.asarray(np.bincount(ranks.relation, weights=values, minlength=n) / np.maximum(questions, 1))

    mrr, first, tenth = mean(1 / rank), mean(rank <= 1), mean(rank <= 10)
    return [
        {"mrr": float(mrr[r]), "hits@1": float(first[r]), "hits@10": float(tenth[r]), "questions": int(questions[r])}
        if questions[r]
        else None
        for r in range(n)
    ]
