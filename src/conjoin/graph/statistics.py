"""The statistics of a graph that `conjoin inspect` reports. Every measure carries its definition as a sentence."""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Literal

import numpy as np

from conjoin.graph.graph import SPLITS, Graph, Ids
from conjoin.graph.patterns.detect import (
    CARDINALITIES,
    MIRROR_CONFIDENCE,
    MIRROR_SUPPORT,
    Cardinality,
    Flags,
    Leaks,
    Mirrors,
    cardinality,
    codes,
    find_leaks,
    find_mirrors,
)


@dataclass(frozen=True)
class Measure:
    """`count` out of `of`, and what was counted."""

    count: int
    of: int
    definition: str

    @property
    def share(self) -> float | None:
        """Between 0 and 1; None if `of` is 0."""
        return self.count / self.of if self.of else None


@dataclass(frozen=True)
class GraphSizes:
    """The row of the paper's dataset table; examples are the training queries of both directions."""

    train: int
    valid: int
    test: int
    entities: int
    relations: int
    examples: int


@dataclass(frozen=True)
class Degrees:
    """Training triples per entity, over all entities; a self-loop counts twice."""

    minimum: int
    median: float
    mean: float
    maximum: int
    once: Measure


@dataclass(frozen=True)
class RelationRow:
    """One relation; the means and the cardinality are None if train has no triple of it."""

    relation: str
    train: int
    valid: int
    test: int
    tails_per_head: float | None
    heads_per_tail: float | None
    cardinality: str | None


@dataclass(frozen=True)
class CardinalityRow:
    """How many relations, training triples and test triples are 1-1, 1-n, n-1 or n-n.

    The row of relations without a training triple has `cardinality` None; it is missing if there are none.
    """

    cardinality: str | None
    relations: int
    train: int
    test: int


@dataclass(frozen=True)
class Repeats:
    """Repeated triples and self-loops."""

    within_train: Measure
    within_valid: Measure
    within_test: Measure
    valid_in_train: Measure
    test_in_train: Measure
    test_in_valid: Measure
    self_loops: Measure


@dataclass(frozen=True)
class MirrorRow:
    """A symmetric relation (its own `other`) or a pair of inverses, with the evidence as in `Mirrors`."""

    pattern: Literal["symmetric", "inverse"]
    relation: str
    other: str
    support: int
    confidence: float


@dataclass(frozen=True)
class Leakage:
    """Test triples whose answer follows from a training triple between the same two entities."""

    linked: Measure
    reverse: Measure
    parallel: Measure
    mirrored: Measure
    symmetric: Measure
    inverse: Measure


@dataclass(frozen=True)
class Unseen:
    """Entities and relations of valid and test that do not occur in train."""

    entities: Measure
    valid_triples: Measure
    test_triples: Measure
    relations: tuple[str, ...]
    relation_test_triples: Measure


@dataclass(frozen=True)
class GraphStatistics:
    """All statistics of `conjoin inspect`. `relations` is sorted by frequency in train, `mirrors` by support."""

    name: str
    sizes: GraphSizes
    degrees: Degrees
    cardinalities: tuple[CardinalityRow, ...]
    repeats: Repeats
    leakage: Leakage
    unseen: Unseen
    mirrors: tuple[MirrorRow, ...]
    relations: tuple[RelationRow, ...]
    notes: tuple[str, ...]
    bad_lines: tuple[str, ...]
    read_as: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain dictionaries, lists, numbers and text, fields in the order above."""
        plain: dict[str, Any] = _plain(self)
        return plain


def graph_statistics(graph: Graph) -> GraphStatistics:
    """Count, classify and compare the triples of a graph.

    >>> statistics = graph_statistics(Graph.from_triples([("a", "r", "b"), ("b", "r", "a")], None, [("a", "r", "c")]))
    >>> statistics.sizes.train, statistics.unseen.entities.count
    (2, 1)
    """
    kinds, mirrors = cardinality(graph), find_mirrors(graph)
    return GraphStatistics(
        name=graph.name,
        sizes=GraphSizes(
            train=len(graph.train),
            valid=len(graph.valid),
            test=len(graph.test),
            entities=graph.n_entities,
            relations=graph.n_relations,
            examples=2 * len(graph.train),
        ),
        degrees=_degrees(graph),
        cardinalities=_cardinality_rows(graph, kinds),
        repeats=_repeats(graph),
        leakage=_leakage(find_leaks(graph, mirrors)),
        unseen=_unseen(graph),
        mirrors=_mirror_rows(graph, mirrors),
        relations=_relation_rows(graph, kinds),
        notes=graph.notes,
        bad_lines=graph.bad_lines,
        read_as=graph.read_as,
    )


def _degrees(graph: Graph) -> Degrees:
    degree = graph.degrees()
    once = Measure(int((degree == 1).sum()), graph.n_entities, "entities that stand in exactly one training triple")
    if not len(degree):
        return Degrees(0, 0.0, 0.0, 0, once)
    return Degrees(int(degree.min()), float(np.median(degree)), float(degree.mean()), int(degree.max()), once)


def _cardinality_rows(graph: Graph, kinds: Cardinality) -> tuple[CardinalityRow, ...]:
    train, test = _per_relation(graph.train, graph), _per_relation(graph.test, graph)
    rows = []
    for code, name in [*enumerate(CARDINALITIES), (-1, None)]:
        chosen = kinds.kind == code
        if name is not None or chosen.any():
            rows.append(CardinalityRow(name, int(chosen.sum()), int(train[chosen].sum()), int(test[chosen].sum())))
    return tuple(rows)


def _relation_rows(graph: Graph, kinds: Cardinality) -> tuple[RelationRow, ...]:
    counts = [_per_relation(graph.triples(split), graph) for split in SPLITS]
    rows = []
    for r in np.argsort(-counts[0], kind="stable").tolist():
        train, valid, test = (int(count[r]) for count in counts)
        tails, heads = float(kinds.tails_per_head[r]), float(kinds.heads_per_tail[r])
        means = (tails, heads, CARDINALITIES[kinds.kind[r]]) if train else (None, None, None)
        rows.append(RelationRow(graph.relations.names[r], train, valid, test, *means))
    return tuple(rows)


def _mirror_rows(graph: Graph, mirrors: Mirrors) -> tuple[MirrorRow, ...]:
    rows = []
    for i in np.argsort(-mirrors.support, kind="stable"):
        relation, other = (graph.relations.names[r[i]] for r in (mirrors.relation, mirrors.other))
        pattern: Literal["symmetric", "inverse"] = "symmetric" if relation == other else "inverse"
        rows.append(MirrorRow(pattern, relation, other, int(mirrors.support[i]), float(mirrors.confidence[i])))
    return tuple(rows)


def _repeats(graph: Graph) -> Repeats:
    train, valid, test = codes(graph.train, graph.valid, graph.test)
    everything = graph.everything()

    def within(part: Ids, split: str) -> Measure:
        definition = f"lines of {split} that repeat an earlier line of {split}"
        return Measure(len(part) - len(np.unique(part)), len(part), definition)

    def shared(part: Ids, other: Ids, definition: str) -> Measure:
        return Measure(int(np.isin(part, other).sum()), len(part), definition)

    loops = int((everything[:, 0] == everything[:, 2]).sum())
    return Repeats(
        within_train=within(train, "train"),
        within_valid=within(valid, "valid"),
        within_test=within(test, "test"),
        valid_in_train=shared(valid, train, "valid triples that are in train, exactly the same"),
        test_in_train=shared(test, train, "test triples that are in train, exactly the same"),
        test_in_valid=shared(test, valid, "test triples that are in valid, exactly the same"),
        self_loops=Measure(loops, len(everything), "triples of all splits whose head is their tail"),
    )


def _leakage(leaks: Leaks) -> Leakage:
    def share(hit: Flags, definition: str) -> Measure:
        return Measure(int(hit.sum()), len(hit), definition)

    return Leakage(
        linked=share(
            leaks.reverse | leaks.parallel,
            "test triples (h, r, t) whose h and t are linked in train, by any relation in any direction: "
            "the source of the often quoted 81 % for FB15K and 94 % for WN18",
        ),
        reverse=share(leaks.reverse, "test triples (h, r, t) for which train contains (t, r', h) for any r'"),
        parallel=share(leaks.parallel, "test triples (h, r, t) for which train contains (h, r', t) for any r'"),
        mirrored=share(
            leaks.symmetric | leaks.inverse,
            "test triples (h, r, t) for which train contains (t, r', h) where r' is r and symmetric, or the inverse "
            f"of r: {MIRROR_CONFIDENCE:.0%} of the pairs of each, and at least {MIRROR_SUPPORT}, occur reversed in the "
            "other, over all splits",
        ),
        symmetric=share(leaks.symmetric, "the part of mirrored that comes from symmetric relations, r' = r"),
        inverse=share(leaks.inverse, "the part of mirrored that comes from pairs of inverse relations, r' ≠ r"),
    )


def _unseen(graph: Graph) -> Unseen:
    unseen = np.zeros(graph.n_entities, dtype=bool)
    unseen[graph.unseen] = True
    held = np.concatenate([graph.valid, graph.test])[:, [0, 2]]
    asked = np.unique(held[unseen[held]])
    trained = _per_relation(graph.train, graph) > 0
    missing = ~trained & (_per_relation(graph.valid, graph) + _per_relation(graph.test, graph) > 0)

    def touching(split: str, triples: Ids) -> Measure:
        count = int(unseen[triples[:, [0, 2]]].any(axis=1).sum())
        return Measure(count, len(triples), f"{split} triples with an entity that no training triple contains")

    return Unseen(
        entities=Measure(
            len(asked), graph.n_entities, "entities that occur in valid or test but in no training triple"
        ),
        valid_triples=touching("valid", graph.valid),
        test_triples=touching("test", graph.test),
        relations=tuple(graph.relations.names[r] for r in np.flatnonzero(missing).tolist()),
        relation_test_triples=Measure(
            int(missing[graph.test[:, 1]].sum()), len(graph.test), "test triples with a relation that train lacks"
        ),
    )


def _per_relation(triples: Ids, graph: Graph) -> Ids:
    return np.bincount(triples[:, 1], minlength=graph.n_relations)


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if not is_dataclass(value):
        return value
    plain = {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    return {**plain, "share": value.share} if isinstance(value, Measure) else plain
