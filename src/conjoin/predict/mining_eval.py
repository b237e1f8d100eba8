"""Evaluate mining: hide held-out facts that the graph knows, mine, and count how many of them are found.

Every mined fact that is not among the hidden ones counts as wrong, although it may be true and missing from the graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from conjoin.graph.graph import Ids, Split
from conjoin.predict.mining import MiningSearch
from conjoin.predict.predictor import Predictor
from conjoin.runs.calibration_curves import Reals
from conjoin.runtime.progress import Track, silent


class MiningEvaluation(NamedTuple):
    """Mined facts, best first, in arrays of shape (n,): log plausibility `value`, `relation`, and `right`, 1 for hidden
    facts. `said` is the predicted probability, or `value` again without a calibration. `hidden` is how many facts were
    hidden."""

    value: Reals
    relation: Ids
    right: Reals
    said: Reals
    hidden: int


class HiddenSplit:
    """A predictor whose graph lacks splits that the model was not trained on; it can mine any number of times.

    >>> from conjoin.datasets.load import load
    >>> from conjoin.model.model import Model
    >>> graph = load("synthetic:symmetric(entities=120)")
    >>> predictor = Predictor(Model("complex", graph.n_entities, graph.n_relations, rank=4), graph)
    >>> HiddenSplit(predictor, ["valid"]).first(7, relations=[0]).relation.tolist()
    [0, 0, 0, 0, 0, 0, 0]
    """

    def __init__(self, predictor: Predictor, hide: Sequence[Split]) -> None:
        graph = predictor.graph
        valid, test = (
            facts[: 0 if split in hide else None] for split, facts in (("valid", graph.valid), ("test", graph.test))
        )
        partly = replace(graph, valid=valid, test=test)
        facts = np.concatenate([graph.train[:0], *(graph.triples(split) for split in hide)])
        self.hidden = set(map(tuple, facts[~partly.known.contains(facts)].tolist()))
        self._search = MiningSearch(Predictor(predictor.scorer, partly, calibration=predictor.calibration))

    def first(self, n: int, *, relations: Sequence[int] | None = None, track: Track = silent) -> MiningEvaluation:
        """The first n mined facts of some relations, or of all."""
        wanted = range(self._search.predictor.graph.n_relations) if relations is None else relations
        found = self._search.best(wanted, n, track=track)
        facts = found.fact.cpu().numpy()
        right = np.array([fact in self.hidden for fact in map(tuple, facts.tolist())], dtype=np.float64)
        value, said = (column.double().cpu().numpy() for column in (found.value, found.order))
        return MiningEvaluation(value, facts[:, 1], right, said, len(self.hidden))


def evaluate_mining(predictor: Predictor, hide: Sequence[Split], *, n: int, track: Track = silent) -> MiningEvaluation:
    """Hide splits that the model was not trained on, and mine for n facts.

    >>> from conjoin.datasets.load import load
    >>> from conjoin.model.model import Model
    >>> graph = load("synthetic:symmetric(entities=120)")
    >>> model = Model("complex", graph.n_entities, graph.n_relations, rank=4)
    >>> found = evaluate_mining(Predictor(model, graph), ["test"], n=9)
    >>> found.value.shape, found.hidden == len(graph.test)
    ((9,), True)
    """
    return HiddenSplit(predictor, hide).first(n, track=track)
