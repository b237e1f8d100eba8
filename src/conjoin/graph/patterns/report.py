"""The patterns of every relation, each with support and confidence: what `conjoin patterns` shows.

All triples of the graph are counted, whichever split holds them; a self-loop is no evidence for or against anything.

    symmetric      (h, t) with (t, h) too. Confidence: among all pairs.
    antisymmetric  (h, t) without (t, h). Confidence: among the pairs that could have been reversed, where t is the head
                   of some pair and h the tail of some pair. Heads and tails that never mix are no evidence.
    inverse        (h, t) whose (t, h) is in another relation. Confidence: the smaller share of the two relations.
    composition    (x, z) joined by a path of two relations. Confidence: among all (x, z) that the path joins. A
                   relation counts as composed where such a path also joins half of its own pairs (coverage).
    hierarchy      pairs; confidence is the tree-likeness of hierarchy.py, and the depth is at least 2.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np

from conjoin.errors import UsageError
from conjoin.graph.graph import Graph, Ids
from conjoin.graph.patterns.compositions import Compositions, find_compositions
from conjoin.graph.patterns.detect import (
    CARDINALITIES,
    Cardinality,
    Flags,
    Mirrors,
    Reals,
    all_links,
    cardinality,
    find_copies,
    find_mirrors,
)
from conjoin.graph.patterns.hierarchy import Hierarchy, measure_hierarchy

PATTERNS = ("symmetric", "antisymmetric", "inverse", "composition", "hierarchy")
NONE = "none of these"
BACKWARDS = "⁻¹"


@dataclass(frozen=True, kw_only=True)
class Thresholds:
    """When a pattern counts as found.

    Compositions need less confidence: a path that holds in the world also leads to facts that the graph lacks.
    """

    confidence: float = 0.8
    composition: float = 0.5
    coverage: float = 0.5
    support: int = 10
    depth: int = 2

    def __post_init__(self) -> None:
        for name in ("confidence", "composition", "coverage"):
            if not 0 < getattr(self, name) <= 1:
                raise UsageError(f"{name} = {getattr(self, name)}: a share lies above 0 and is at most 1")
        if self.support < 1:
            raise UsageError(f"support = {self.support}: at least one pair must support a pattern")


USUAL = Thresholds()


@dataclass(frozen=True, eq=False)
class Evidence:
    """Per relation: how many pairs support a pattern, and what share that is."""

    support: Ids
    confidence: Reals


@dataclass(frozen=True, eq=False)
class PatternReport:
    """What the relations of a graph are like. Arrays have one entry per relation."""

    graph: Graph
    thresholds: Thresholds
    pairs: Ids
    symmetric: Evidence
    antisymmetric: Evidence
    inverses: Mirrors
    copies: Mirrors
    compositions: Compositions
    hierarchy: Hierarchy
    cardinality: Cardinality

    @cached_property
    def has(self) -> dict[str, Flags]:
        """Which relations show a pattern; a relation may show several."""
        asked, n = self.thresholds, self.graph.n_relations
        likely = {
            name: (evidence.confidence >= asked.confidence) & (evidence.support >= asked.support)
            for name, evidence in (("symmetric", self.symmetric), ("antisymmetric", self.antisymmetric))
        }
        ordered = (self.hierarchy.likeness >= asked.confidence) & (self.pairs >= asked.support)
        return {
            **likely,
            "inverse": _marked(n, self.inverses.relation, self.inverses.other),
            "composition": _marked(n, self.compositions.third[self.compositions.coverage >= asked.coverage]),
            "hierarchy": ordered & (self.hierarchy.depth >= asked.depth),
        }

    @cached_property
    def plain(self) -> Flags:
        """Relations that show no pattern."""
        plain: Flags = ~np.any([self.has[name] for name in PATTERNS], axis=0)
        return plain

    def groups(self, relations: Ids) -> dict[str, Flags]:
        """For questions with these relations: which belong to a pattern. Groups overlap; empty ones are left out."""
        flags = {**self.has, NONE: self.plain}
        return {name: flag[relations] for name, flag in flags.items() if flag[relations].any()}

    def patterns_of(self, relation: int) -> list[str]:
        return [name for name in PATTERNS if self.has[name][relation]]

    def label(self, relation: int) -> str:
        """A relation's label, marked where it is read backwards."""
        n = self.graph.n_relations
        return self.graph.relations.label(relation % n) + (BACKWARDS if relation >= n else "")

    def to_json(self) -> dict[str, Any]:
        """Plain values, relations by name."""
        names = self.graph.relations.names
        n, rules = len(names), self.compositions

        def read(relation: int) -> dict[str, Any]:
            return {"relation": names[relation % n], "backwards": relation >= n}

        def listed(found: Mirrors) -> list[dict[str, Any]]:
            return [
                {"relation": names[r], "other": names[o], "support": int(s), "confidence": float(c)}
                for r, o, s, c in zip(found.relation, found.other, found.support, found.confidence, strict=True)
            ]

        return {
            "graph": self.graph.name,
            "thresholds": asdict(self.thresholds),
            "counts": {name: int(flags.sum()) for name, flags in {**self.has, NONE: self.plain}.items()},
            "relations": [self._row(r) for r in range(n)],
            "inverses": listed(self.inverses),
            "copies": listed(self.copies),
            "compositions": [
                {
                    "first": read(int(rules.first[i])),
                    "second": read(int(rules.second[i])),
                    "third": names[int(rules.third[i])],
                    "support": int(rules.support[i]),
                    "confidence": float(rules.confidence[i]),
                    "coverage": float(rules.coverage[i]),
                }
                for i in range(len(rules))
            ],
        }

    def _row(self, r: int) -> dict[str, Any]:
        kind = int(self.cardinality.kind[r])
        return {
            "relation": self.graph.relations.names[r],
            "pairs": int(self.pairs[r]),
            "patterns": self.patterns_of(r),
            "cardinality": CARDINALITIES[kind] if kind >= 0 else None,
            **{
                name: {"support": int(part.support[r]), "confidence": float(part.confidence[r])}
                for name, part in (("symmetric", self.symmetric), ("antisymmetric", self.antisymmetric))
            },
            "hierarchy": {
                "likeness": float(self.hierarchy.likeness[r]),
                "order": float(self.hierarchy.order[r]),
                "parents": float(self.hierarchy.parents[r]),
                "depth": int(self.hierarchy.depth[r]),
                "parent_at": "tail" if self.hierarchy.upward[r] else "head",
            },
        }


def find_patterns(graph: Graph, thresholds: Thresholds = USUAL) -> PatternReport:
    """Find every pattern of every relation; arrays of the result have shape (n_relations,).

    >>> pairs = [(f"e{i}", f"e{i + 1}") for i in range(0, 40, 2)]
    >>> both = [(h, "near", t) for a, b in pairs for h, t in ((a, b), (b, a))]
    >>> find_patterns(Graph.from_triples(both)).has["symmetric"].tolist()
    [True]
    """
    links = all_links(graph)
    pairs = np.bincount(links[:, 1], minlength=graph.n_relations)
    mirrored = find_mirrors(graph, confidence=thresholds.confidence, support=thresholds.support)
    symmetric, antisymmetric = _reversals(graph, links, pairs)
    return PatternReport(
        graph=graph,
        thresholds=thresholds,
        pairs=pairs,
        symmetric=symmetric,
        antisymmetric=antisymmetric,
        inverses=mirrored.between_two(),
        copies=find_copies(graph, confidence=thresholds.confidence, support=thresholds.support),
        compositions=find_compositions(graph, confidence=thresholds.composition, support=thresholds.support),
        hierarchy=measure_hierarchy(graph),
        cardinality=cardinality(graph),
    )


def _reversals(graph: Graph, links: Ids, pairs: Ids) -> tuple[Evidence, Evidence]:
    """Pairs that occur reversed, and pairs that do not though they could."""
    n, r = graph.n_entities, graph.n_relations
    place = links[:, 1] * n
    reversed_too = _among(place + links[:, 2], place + links[:, 0])
    possible = np.isin(place + links[:, 2], place + links[:, 0]) & np.isin(place + links[:, 0], place + links[:, 2])

    def count(chosen: Flags) -> Ids:
        return np.bincount(links[chosen, 1], minlength=r)

    both, open_ones = count(reversed_too), count(possible)
    missing = count(possible & ~reversed_too)
    return Evidence(both, both / np.maximum(pairs, 1)), Evidence(missing, missing / np.maximum(open_ones, 1))


def _among(heads: Ids, tails: Ids) -> Flags:
    """Is (t, r, h) a link, for each link (h, r, t)? `heads` holds r·n + t and `tails` r·n + h."""
    # Two numbers below n² · relations could overflow together: places are renumbered before they are joined.
    places, index = np.unique(np.concatenate([heads, tails]), return_inverse=True)
    t, h = index[: len(heads)], index[len(heads) :]
    return np.isin(t * len(places) + h, h * len(places) + t)


def _marked(n: int, *relations: Ids) -> Flags:
    flags = np.zeros(n, dtype=bool)
    for chosen in relations:
        flags[chosen] = True
    return flags
