"""A graph that grows: more facts, more entities, and the rows of a trained model in the new order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from difflib import SequenceMatcher

import numpy as np
import torch
from torch import Tensor

from conjoin.errors import UnknownName, UsageError, unknown
from conjoin.graph.graph import HELD_OUT, SPLITS, Graph, HeldOut, Ids, Vocabulary
from conjoin.graph.patterns import codes, distinct
from conjoin.model.model import Model
from conjoin.serve.given import Fact, Word, as_facts
from conjoin.serve.names import entity_names, plain
from conjoin.serve.predictor import Marks, Predictor

NO_NEW_RELATIONS = "A new relation cannot be folded in: train it with all facts (conjoin train GRAPH --from RUN)."
PIECE = 1 << 22
"""Facts that are compared at a time."""
NEAR = 0.75
"""Share of letters in common, from which one name may be a misspelling of another."""


def extend(graph: Graph, facts: Sequence[Fact], *, labels: Mapping[str, str] | None = None) -> Graph:
    """The graph with more training facts. Entities that it does not know by name or label are new ones.

    Facts that it holds already, in any split, are not repeated. A relation must be known.
    """
    facts = as_facts(facts)
    relations = [graph.relations.names[_known(graph.relations, r)] for _, r, _ in facts]
    ends = [tuple(_own_name(graph.entities, word) for word in (h, t)) for h, _, t in facts]
    fresh = {word for pair in ends for word in pair} - graph.entities.index.keys()
    entities = _grown(graph.entities, fresh, labels or {})
    places = row_numbers(entities, graph.entities)
    train, valid, test = (_moved(graph.triples(split), places) for split in SPLITS)
    added = np.array(
        [
            (entities.index[h], graph.relations.index[r], entities.index[t])
            for (h, t), r in zip(ends, relations, strict=True)
        ],
        dtype=np.int64,
    ).reshape(-1, 3)
    everything = Graph(entities, graph.relations, train, valid, test, name=graph.name)
    added = np.unique(added[~everything.known.contains(added)], axis=0)
    notes = (*graph.notes, f"{len(added)} facts and {len(fresh)} entities were added")
    return Graph(
        entities,
        graph.relations,
        np.concatenate([train, added]),
        valid,
        test,
        name=graph.name,
        notes=notes,
        bad_lines=graph.bad_lines,
    )


def row_numbers(vocabulary: Vocabulary, names_of: Vocabulary) -> Ids:
    """For each name of `names_of` its number in `vocabulary`, -1 where it is missing."""
    return np.array([vocabulary.index.get(name, -1) for name in names_of.names], dtype=np.int64)


def rows_for(predictor: Predictor, graph: Graph, *, seed: int, scale: float) -> dict[str, Tensor]:
    """Weights for a model of `graph`: rows of the predictor where it has the name, fresh ones elsewhere.

    They are float32, or what is more precise in the predictor.
    """
    old = predictor.model
    dtype = torch.promote_types(old.relations.dtype, torch.float32)
    fresh = Model(old.form, graph.n_entities, graph.n_relations, rank=old.rank, seed=seed, dtype=dtype, scale=scale)
    entities = row_numbers(graph.entities, predictor.graph.entities)
    relations = row_numbers(graph.relations, predictor.graph.relations)
    if (entities < 0).all() and (relations < 0).all():
        raise UsageError(
            f"{graph.name} has no name in common with {predictor.graph.name}: there is nothing to go on from"
        )
    both_ways = np.concatenate([relations, np.where(relations < 0, -1, relations + graph.n_relations)])
    weights = fresh.state_dict()
    for name, places in (("entities.weight", entities), ("relations", both_ways)):
        kept = torch.from_numpy(np.flatnonzero(places >= 0))
        weights[name][torch.from_numpy(places[places >= 0])] = old.state_dict()[name].cpu()[kept].to(dtype)
    return weights


def trained_before(graph: Graph, before: Graph) -> dict[HeldOut, Marks]:
    """Which facts of valid and test (n,) are training facts of an earlier graph: rows of its model know them.

    >>> before = Graph.from_triples([("a", "r", "b"), ("b", "s", "c")])
    >>> marks = trained_before(Graph.from_triples([("b", "s", "c")], [("a", "r", "c")], [("a", "r", "b")]), before)
    >>> marks["valid"].tolist(), marks["test"].tolist()
    ([False], [True])
    """
    entities, relations = (
        row_numbers(now, then) for now, then in ((graph.entities, before.entities), (graph.relations, before.relations))
    )
    columns = zip((entities, relations, entities), before.train.T, strict=True)
    trained = np.stack([numbers[ids] for numbers, ids in columns], axis=1)
    trained = trained[(trained >= 0).all(axis=1)]
    return {split: among(graph.triples(split), trained) for split in HELD_OUT}


def kept_apart(graph: Graph, before: Graph) -> Graph:
    """The graph with everything in train that an earlier graph's train gives away: facts between two entities that it
    linked, by whatever relation, as a split keeps these together.

    >>> before = Graph.from_triples([("a", "r", "b"), ("b", "s", "c")])
    >>> graph = Graph.from_triples([("b", "s", "c")], [("a", "r", "c")], [("a", "r", "b"), ("b", "s", "a")])
    >>> kept_apart(graph, before)
    Graph(graph: 3 entities, 2 relations, 3 / 1 / 0 triples)
    """
    linked = _moved(before.train, row_numbers(graph.entities, before.entities))
    linked = _ends(linked[(linked >= 0).all(axis=1)])
    told = {split: among(_ends(graph.triples(split)), linked) for split in HELD_OUT}
    joining = [graph.triples(split)[told[split]] for split in HELD_OUT]
    if not (moved := sum(map(len, joining))):
        return graph
    valid, test = (graph.triples(split)[~told[split]] for split in HELD_OUT)
    train = distinct(np.concatenate([graph.train, *joining]))
    notes = (*graph.notes, f"{moved} valid and test facts went to train: an earlier training had linked their ends")
    return replace(graph, train=train, valid=valid, test=test, notes=notes)


def among(facts: Ids, others: Ids) -> Marks:
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


def likely_misspelt(graph: Graph, names: Sequence[str]) -> dict[str, str]:
    """Names that differ from an entity of the graph by a letter or two, and what that entity is called."""
    index = entity_names(graph)
    found: dict[str, str] = {}
    for name in names:
        for match in index.find(name, 1):
            nearness = max(
                SequenceMatcher(None, plain(name), plain(word)).ratio() for word in (match.name, match.label)
            )
            has_letters = any(letter.isalpha() for letter in name[1:])
            if has_letters and nearness > NEAR:
                found[name] = match.label
    return found


def needed_words(graph: Graph) -> Callable[[Fact], list[Word]]:
    """What of a fact must be known before it can be folded in: its relation, and which entity a label means."""

    def words(fact: Fact) -> list[Word]:
        head, relation, tail = fact
        ambiguous = [word for word in (head, tail) if len(graph.entities.matching(word)) > 1]
        return [(graph.relations, relation), *((graph.entities, word) for word in ambiguous)]

    return words


def _known(relations: Vocabulary, word: str) -> int:
    try:
        return relations.find(word)
    except UnknownName as error:
        raise UnknownName(f"{error} {NO_NEW_RELATIONS}") from None


def _grown(vocabulary: Vocabulary, fresh: set[str], labels: Mapping[str, str]) -> Vocabulary:
    names = tuple(sorted({*vocabulary.names, *fresh}))
    shown = {name: vocabulary.labels[i] for name, i in vocabulary.index.items()} if vocabulary.labels else {}
    shown |= {name: labels[name] for name in fresh if name in labels}
    return Vocabulary(vocabulary.kind, names, tuple(shown.get(name, "") for name in names) if shown else ())


def _moved(triples: Ids, places: Ids) -> Ids:
    moved = triples.copy()
    moved[:, [0, 2]] = places[triples[:, [0, 2]]]
    return moved


def _own_name(vocabulary: Vocabulary, word: str) -> str:
    """The name that a name or label stands for; a word that is neither is a new name."""
    matches = vocabulary.matching(word)
    if len(matches) > 1:
        choices = ", ".join(vocabulary.names[i] for i in matches[:5])
        way_out = f"{len(matches)} have that label: use one of the names {choices}, or another name for a new one."
        raise unknown(vocabulary.kind, word, [], way_out=way_out)
    return vocabulary.names[matches[0]] if matches else word
