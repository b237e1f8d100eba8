"""Initial rows and held-out facts of a training that starts from an earlier run."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from conjoin.errors import UsageError
from conjoin.graph.graph import HELD_OUT, Graph, HeldOut, Ids, Vocabulary
from conjoin.graph.patterns.detect import Flags, codes, distinct
from conjoin.model.model import Model

PIECE = 1 << 22
"""Facts that are compared at a time."""


def row_numbers(vocabulary: Vocabulary, names_of: Vocabulary) -> Ids:
    """For each name of `names_of` its number in `vocabulary`, -1 where it is missing."""
    return np.array([vocabulary.index.get(name, -1) for name in names_of.names], dtype=np.int64)


def initial_rows(old: Model, before: Graph, graph: Graph, *, seed: int, scale: float) -> dict[str, Tensor]:
    """Weights for a model of `graph`: rows of the model `old` of `before` for shared names, fresh rows elsewhere.

    They are float32, or float64 where the old model is.
    """
    dtype = torch.promote_types(old.relations.dtype, torch.float32)
    fresh = Model(old.form, graph.n_entities, graph.n_relations, rank=old.rank, seed=seed, dtype=dtype, scale=scale)
    entities = row_numbers(graph.entities, before.entities)
    relations = row_numbers(graph.relations, before.relations)
    if (entities < 0).all() and (relations < 0).all():
        raise UsageError(
            f"{graph.name} and {before.name}, the graph of the earlier run, have no name in common. "
            "Train without an earlier run, or use the same names."
        )
    if not old.form.derives_reciprocals:
        relations = np.concatenate([relations, np.where(relations < 0, -1, relations + graph.n_relations)])
    weights = {**fresh.state_dict(), **_shared_state(old)}
    for name, places in (("entities.weight", entities), ("relations", relations)):
        kept = torch.from_numpy(np.flatnonzero(places >= 0))
        weights[name][torch.from_numpy(places[places >= 0])] = old.state_dict()[name].cpu()[kept].to(dtype)
    return weights


def _shared_state(model: Model) -> dict[str, Tensor]:
    """What relations share in a model, such as batch normalisation, with its state."""
    state = {} if model.shared is None else model.shared.state_dict(prefix="shared.")
    wide = torch.promote_types(model.relations.dtype, torch.float32)
    return {name: value.cpu().to(wide if value.is_floating_point() else value.dtype) for name, value in state.items()}


def seen_in_training(graph: Graph, before: Graph) -> dict[HeldOut, Flags]:
    """Which facts of valid and test (n,) are training facts of an earlier graph: rows of its model know them.

    >>> before = Graph.from_triples([("a", "r", "b"), ("b", "s", "c")])
    >>> marks = seen_in_training(Graph.from_triples([("b", "s", "c")], [("a", "r", "c")], [("a", "r", "b")]), before)
    >>> marks["valid"].tolist(), marks["test"].tolist()
    ([False], [True])
    """
    entities, relations = (
        row_numbers(now, then) for now, then in ((graph.entities, before.entities), (graph.relations, before.relations))
    )
    columns = zip((entities, relations, entities), before.train.T, strict=True)
    trained = np.stack([numbers[ids] for numbers, ids in columns], axis=1)
    trained = trained[(trained >= 0).all(axis=1)]
    return {split: contained_in(graph.triples(split), trained) for split in HELD_OUT}


def move_leaks_to_train(graph: Graph, before: Graph) -> Graph:
    """The graph with everything in train that an earlier graph's train gives away: facts between two entities that it
    linked, by whatever relation, as a split keeps these together.

    >>> before = Graph.from_triples([("a", "r", "b"), ("b", "s", "c")])
    >>> graph = Graph.from_triples([("b", "s", "c")], [("a", "r", "c")], [("a", "r", "b"), ("b", "s", "a")])
    >>> move_leaks_to_train(graph, before)
    Graph(graph: 3 entities, 2 relations, 3 / 1 / 0 triples)
    """
    linked = _moved(before.train, row_numbers(graph.entities, before.entities))
    linked = _ends(linked[(linked >= 0).all(axis=1)])
    told = {split: contained_in(_ends(graph.triples(split)), linked) for split in HELD_OUT}
    joining = [graph.triples(split)[told[split]] for split in HELD_OUT]
    if not (moved := sum(map(len, joining))):
        return graph
    valid, test = (graph.triples(split)[~told[split]] for split in HELD_OUT)
    train = distinct(np.concatenate([graph.train, *joining]))
    notes = (*graph.notes, f"{moved} valid and test facts went to train: an earlier training had linked their ends")
    return replace(graph, train=train, valid=valid, test=test, notes=notes)


def contained_in(facts: Ids, others: Ids) -> Flags:
    """Which facts (n,) are among the others, looked through in pieces: there may be many."""
    found = np.zeros(len(facts), dtype=bool)
    ends = [np.unique(facts[:, place]) for place in (0, 2)]
    for start in range(0, len(others), PIECE):
        piece = others[start : start + PIECE]
        near = np.logical_and(*(np.isin(piece[:, place], of) for place, of in zip((0, 2), ends, strict=True)))
        these, those = codes(facts, piece[near])
        found |= np.isin(these, those)
    return found


def _ends(facts: Ids) -> Ids:
    """Facts without direction and relation."""
    low, high = np.sort(facts[:, [0, 2]], axis=1).T
    return np.stack([low, np.zeros_like(low), high], axis=1)


def _moved(triples: Ids, places: Ids) -> Ids:
    moved = triples.copy()
    moved[:, [0, 2]] = places[triples[:, [0, 2]]]
    return moved
