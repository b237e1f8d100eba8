"""Filtered ranks by going through every entity of every question, and graphs that are hard to rank."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from hypothesis import strategies as st

from conjoin.graph.graph import Graph, Vocabulary

Triple = tuple[int, int, int]
Standing = tuple[int, int, int]


def standing(scores: Sequence[float], target: int, known: set[int]) -> Standing:
    """(better, tied, candidates) of a target among the entities that complete no other known triple."""
    competitors = [e for e in range(len(scores)) if e == target or e not in known]
    better = sum(scores[e] > scores[target] for e in competitors)
    tied = sum(scores[e] == scores[target] for e in competitors) - 1
    return better, tied, len(competitors)


def filtered(graph: Graph, split: Sequence[Triple], score: Callable[[int, int], Sequence[float]]) -> list[Standing]:
    """The standings of all tail questions, then of all head questions; score(h, r) scores every entity."""
    known = {tuple(map(int, triple)) for part in (graph.train, graph.valid, graph.test) for triple in part}
    found = []
    for h, r, t in split:
        found.append(standing(score(h, r), t, {z for x, y, z in known if (x, y) == (h, r)}))
    for h, r, t in split:
        found.append(standing(score(t, r + graph.n_relations), h, {x for x, y, z in known if (y, z) == (r, t)}))
    return found


def graph_of(
    n_entities: int,
    n_relations: int,
    train: Sequence[Triple],
    valid: Sequence[Triple] = (),
    test: Sequence[Triple] = (),
) -> Graph:
    """A graph of numbers: entities in no triple, duplicates and leaks allowed."""
    entities = Vocabulary("entity", tuple(f"e{i:05}" for i in range(n_entities)))
    relations = Vocabulary("relation", tuple(f"r{i}" for i in range(n_relations)))
    first, second, third = (np.array(part, dtype=np.int64).reshape(-1, 3) for part in (train, valid, test))
    return Graph(entities, relations, first, second, third)


def random_graph(seed: int, *, entities: int = 20, relations: int = 3, train: int = 80, held_out: int = 10) -> Graph:
    random = np.random.default_rng(seed)
    high = (entities, relations, entities)
    triples = random.integers(0, high, (train + 2 * held_out, 3)).tolist()
    return graph_of(
        entities, relations, triples[:train], triples[train : train + held_out], triples[train + held_out :]
    )


@st.composite
def graphs(draw: st.DrawFn, *, most_entities: int = 40) -> Graph:
    """Few relations and many triples, so that questions have several answers; duplicates within and across splits."""
    n_entities, n_relations = draw(st.integers(1, most_entities)), draw(st.integers(1, 3))
    entity, relation = st.integers(0, n_entities - 1), st.integers(0, n_relations - 1)
    triples = st.lists(st.tuples(entity, relation, entity), max_size=25)
    train, valid, test = draw(triples), draw(triples), draw(triples)
    return graph_of(n_entities, n_relations, train, valid, [*test, *test[:2], *train[:1]])
