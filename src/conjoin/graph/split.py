"""Held-out triples that train does not give away: deterministic, twins on one side, nothing unseen.

Which triples leave train is decided in `conjoin.graph.split_groups`, the same for graphs in memory and on disk.
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
"""The way out of having nothing to validate or to calibrate on."""


def parse_size(text: str) -> float | int:
    """A share of the triples (`5%`, `0.05`) as a float below 1, or a number of triples (`500`) as an int."""
    word = text.strip()
    if re.fullmatch(r"[0-9]+", word):
        return int(word)
    if match := re.fullmatch(r"([0-9]+\.?[0-9]*|\.[0-9]+)\s*(%?)", word):
        share = float(match[1]) / (100 if match[2] else 1)
        if share < 1:
            return share
        raise UsageError(f"a share of {text!r} leaves nothing to train on: stay below 100%")
    raise UsageError(f"{text!r} is not a size: give a share such as 5% or 0.05, or a number of triples such as 500")


def split_graph(graph: Graph, *, valid: float | int, test: float | int, seed: int = 0) -> Graph:
    """All triples of the graph, repetitions dropped, in three new splits; the vocabularies stay the same.

    `valid` and `test` are a share (float) or a number (int) of the distinct triples. They are met exactly when there
    are enough triples that can leave: no entity and no relation loses its last training triple, and a group that
    would exceed the size is passed over. What could not be met is said in the notes. Each split has shape (n, 3).

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
    place = np.zeros(len(triples), dtype=np.int8)
    for number, part in enumerate(parts, start=1):
        place[part.rows] = number
    train_ids, test_ids, valid_ids = (triples[place == number] for number in range(3))
    notes = split_notes(parts, seed=seed, train=len(train_ids), repeated=len(everything) - len(triples))
    return replace(graph, train=train_ids, valid=valid_ids, test=test_ids, notes=(*graph.notes, *notes))
