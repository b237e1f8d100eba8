"""The patterns of every relation with support and confidence, as `conjoin patterns` shows them.

Triples of all splits are counted; self-loops are ignored.

    symmetric      (h, t) with (t, h) too. Confidence: the share of all pairs.
    antisymmetric  (h, t) without (t, h). Confidence: the share of the pairs that could occur reversed, i.e. t is the
                   head of some pair and h the tail of some pair. Other pairs are not evidence.
    inverse        (h, t) whose (t, h) is in another relation. Confidence: the smaller share of the two relations.
    composition    (x, z) connected by a path of two relations. Confidence: the share of all (x, z) that the path
                   connects. A relation counts as composed if such a path also connects half of its pairs (coverage).
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
    """The thresholds for reporting a pattern.

    Compositions need less confidence: a rule that is true in the world also connects pairs that the graph lacks.
    """

    confidence: float = 0.8
    composition: float = 0.5
    coverage: float = 0.5
    support: int = 10
    depth: int = 2

    def __post_init__(self) -> None:
        for name in ("confidence", "composition", "coverage"):
            if not 0 < getattr(self, name) <= 1:
                raise UsageError(f"{name} must be above 0 and at most 1, got {getattr(self, name)}.")
        if self.support < 1:
            raise UsageError(f"support must be at least 1, got {self.support}.")


USUAL = Thresholds()


@dataclass(frozen=True, eq=False)
class Evidence:
    """Per relation: the number of pairs that support a pattern, and their share."""

    support: Ids
    confidence: Reals


@dataclass(frozen=True, eq=False)
class PatternReport:
    """The patterns of the relations of a graph. Arrays have one entry per relation."""

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
        """Which relations have each pattern, booleans (n_relations,); a relation may have several."""
        thresholds, n = self.thresholds, self.graph.n_relations
        likely = {
            name: (evidence.confidence >= thresholds.confidence) & (evidence.support >= thresholds.support)
            for name, evidence in (("symmetric", self.symmetric), ("antisymmetric", self.antisymmetric))
        }
        ordered = (self.hierarchy.likeness >= thresholds.confidence) & (self.pairs >= thresholds.support)
        return {
            **likely,
            "inverse": _marked(n, self.inverses.relation, self.inverses.other),
            "composition": _marked(n, self.compositions.third[self.compositions.coverage >= thresholds.coverage]),
            "hierarchy": ordered & (self.hierarchy.depth >= thresholds.depth),
        }

    @cached_property
    def plain(self) -> Flags:
        """Which relations have none of the patterns, booleans (n_relations,)."""
        plain: Flags = ~np.any([self.has[name] for name in PATTERNS], axis=0)
        return plain

    def groups(self, relations: Ids) -> dict[str, Flags]:
        """For queries with the relations (n,): which belong to each pattern, booleans (n,). Groups may overlap; empty
        ones are left out."""
        flags = {**self.has, NONE: self.plain}
        return {name: flag[relations] for name, flag in flags.items() if flag[relations].any()}

    def patterns_of(self, relation: int) -> list[str]:
        return [name for name in PATTERNS if self.has[name][relation]]

    def label(self, relation: int) -> str:
        """A relation's label, with ⁻¹ if it is read backwards."""
        n = self.graph.n_relations
        return self.graph.relations.label(relation % n) + (BACKWARDS if relation >= n else "")

    def to_json(self) -> dict[str, Any]:
        """Plain values, relations by name."""
        names = self.graph.relations.names
        n, rules = len(names), self.compositions

        def read(relation: int) -> dict[str, Any]:
            return {"relation": names[relation % n], "backwards": relation >= n}

        def listed(mirrors: Mirrors) -> list[dict[str, Any]]:
            rows = zip(mirrors.relation, mirrors.other, mirrors.support, mirrors.confidence, strict=True)
            return [
                {"relation": names[r], "other": names[o], "support": int(s), "confidence": float(c)}
                for r, o, s, c in rows
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
    """Evidence from pairs that occur reversed, and from pairs that do not although they could."""
    n, r = graph.n_entities, graph.n_relations
    offset = links[:, 1] * n
    reversed_too = _among(offset + links[:, 2], offset + links[:, 0])
    possible = np.isin(offset + links[:, 2], offset + links[:, 0]) & np.isin(offset + links[:, 0], offset + links[:, 2])

    def count(chosen: Flags) -> Ids:
        return np.bincount(links[chosen, 1], minlength=r)

    both, open_ones = count(reversed_too), count(possible)
    missing = count(possible & ~reversed_too)
    return Evidence(both, both / np.maximum(pairs, 1)), Evidence(missing, missing / np.maximum(open_ones, 1))


def _among(heads: Ids, tails: Ids) -> Flags:
    """Is (t, r, h) a link, for each link (h, r, t)? `heads` holds r·n + t and `tails` r·n + h."""
    # A product of two such numbers could overflow, so they are renumbered first.
    distinct, index = np.unique(np.concatenate([heads, tails]), return_inverse=True)
    t, h = index[: len(heads)], index[len(heads) :]
    return np.isin(t * len(distinct) + h, h * len(distinct) + t)


def _marked(n: int, *relations: Ids) -> Flags:
    flags = np.zeros(n, dtype=bool)
    for chosen in relations:
        flags[chosen] = True
    return flags
