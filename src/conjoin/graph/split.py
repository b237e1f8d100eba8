"""Split a graph without leakage: deterministic, all triples between two entities in one split, no unseen entities.

`conjoin.graph.split_groups` decides which triples leave train, for graphs in memory and on disk alike.
"""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from conjoin.errors import UsageError
from conjoin.graph.graph import Graph
from conjoin.graph.patterns.detect import distinct
from conjoin.graph.split_groups import bands, digests, hold_out, parts_of, split_notes

HOLD_MORE_OUT = "hold more out with split_graph(graph, valid=0.2, test=0.1) (conjoin split FILE --valid 20% -o FOLDER)"
"""The advice of errors about too few validation triples."""


def parse_size(text: str) -> float | int:
    """A share of the triples (`5%`, `0.05`) as a float below 1, or a number of triples (`500`) as an int."""
    word = text.strip()
    if re.fullmatch(r"[0-9]+", word):
        return int(word)
    if match := re.fullmatch(r"([0-9]+\.?[0-9]*|\.[0-9]+)\s*(%?)", word):
        share = float(match[1]) / (100 if match[2] else 1)
        if share < 1:
            return share
        raise UsageError(f"A share must be below 100%, got {text!r}: nothing would be left to train on.")
    raise UsageError(f"{text!r} is not a size. Give a share such as 5% or 0.05, or a number of triples such as 500.")


def split_graph(graph: Graph, *, valid: float | int, test: float | int, seed: int = 0) -> Graph:
    """The distinct triples of the graph in three new splits, each of shape (n, 3); the vocabularies stay the same.

    `valid` and `test` are a share (float) or a number (int) of the distinct triples. No entity and no relation loses
    its last training triple, and all triples between two entities stay together. A split is smaller than requested if
    too few triples can leave train; a note says so.

    >>> graph = Graph.from_triples([(f"e{i}", "next", f"e{(i + k) % 20}") for i in range(20) for k in (1, 2)])
    >>> parts = split_graph(graph, valid=0.1, test=2)
    >>> parts.train.shape, parts.valid.shape, parts.test.shape
    ((34, 3), (4, 3), (2, 3))
    """
    everything = graph.everything()
    triples = distinct(everything)
    parts = parts_of(len(triples), valid=valid, test=test)
    hold_out(
        parts,
        lambda: bands(lambda: iter([triples]), digests(graph.entities.names, seed), n_triples=len(triples)),
        entity_left=np.bincount(triples[:, [0, 2]].ravel(), minlength=1),
        relation_left=np.bincount(triples[:, 1], minlength=1),
    )
    split_of = np.zeros(len(triples), dtype=np.int8)
    for number, part in enumerate(parts, start=1):
        split_of[part.rows] = number
    train_ids, test_ids, valid_ids = (triples[split_of == number] for number in range(3))
    notes = split_notes(parts, seed=seed, train=len(train_ids), repeated=len(everything) - len(triples))
    return replace(graph, train=train_ids, valid=valid_ids, test=test_ids, notes=(*graph.notes, *notes))
