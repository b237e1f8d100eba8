"""How good are mined facts? A rehearsal: facts that are known, but were held out of training, are hidden and mined for.

What is not among the hidden facts counts as wrong, though it may be true and missing from the graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from conjoin.graph.graph import Split
from conjoin.progress import Track, silent
from conjoin.serve.calibration import Reals
from conjoin.serve.mine import mine
from conjoin.serve.predictor import Predictor


class Rehearsal(NamedTuple):
    """Mined facts, most plausible first: the logarithm of their plausibility (n,), and 1 where one was hidden (n,)."""

    value: Reals
    right: Reals
    hidden: int


def rehearse(predictor: Predictor, hide: Sequence[Split], *, n: int, track: Track = silent) -> Rehearsal:
    """Hide splits that the model was not trained on, and mine for n facts.

    >>> from conjoin.graph.named.datasets import load
    >>> from conjoin.model.model import Model
    >>> graph = load("synthetic:symmetric(entities=120)")
    >>> found = rehearse(Predictor(Model("complex", graph.n_entities, graph.n_relations, rank=4), graph), ["test"], n=9)
    >>> found.value.shape, found.hidden == len(graph.test)
    ((9,), True)
    """
    graph = predictor.graph
    valid, test = (
        facts[: 0 if split in hide else None] for split, facts in (("valid", graph.valid), ("test", graph.test))
    )
    partly = replace(graph, valid=valid, test=test)
    hidden = {fact for split in hide for fact in map(tuple, graph.triples(split).tolist())}
    entities, relations = graph.entities.index, graph.relations.index
    found = list(mine(Predictor(predictor.model, partly), n=n, track=track))
    right = [(entities[f.head], relations[f.relation], entities[f.tail]) in hidden for f in found]
    plausible = np.maximum([f.plausibility for f in found], np.finfo(np.float64).tiny)  # a sharp model's may be 0
    return Rehearsal(np.log(plausible), np.array(right, dtype=np.float64), len(hidden))
