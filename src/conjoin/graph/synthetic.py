"""Generate graphs with exactly known patterns; everything else in them is random.

The name of a graph gives its family and options, `synthetic:dihedral(entities=120, noise=0.1, seed=3)`, and determines
it completely. The held-out facts follow from the training facts by the planted patterns, so a model finds them only if
it has learnt the patterns: of a symmetric pair one direction is held out, of an inverse pair one relation, of a
composition facts of the third relation. `noise` is the share of all facts, training and held-out, that random pairs
replace.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

import numpy as np

from conjoin.errors import UsageError, unknown
from conjoin.graph.graph import Graph, Ids
from conjoin.graph.patterns.rules import GroupRules, HornRules, Rule, RuleSet, back

PREFIX = "synthetic:"
HELD = 0.4
"""The held-out share of the facts that follow from others, half for valid and half for test."""
DEGREE = 3
"""Links per entity in a random relation: with fewer, a composition would nearly determine its parts."""
RETURNED = 0.2
"""The share of the pairs of a random or composed relation that also occur reversed."""
STEPS = (1, 2, 5)
"""Steps of the circular relation: few sums and differences of these are steps again, so no other pattern holds."""
TURNS = 6
"""The order of the rotation in the groups, which have 2 · 6 elements."""
TREES = 5
WINDOW = 4
"""A child's parent is one of the last four entities of its tree, which makes trees deep."""
MOST = 2**31 - 1
FEWEST = 100
_TEXT = re.compile(r"(?P<family>[\w-]+)\s*(?:\(\s*(?P<body>[^()]*?)\s*\))?")


@dataclass(frozen=True, kw_only=True)
class SyntheticSpec:
    """The family (`FAMILIES`) of a graph, its size, the share of noise, and a seed."""

    family: str
    entities: int = 120
    noise: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        if self.family not in FAMILIES:
            raise unknown("family", self.family, FAMILIES, way_out=f"Families are {', '.join(FAMILIES)}.")
        if self.entities < FEWEST:
            raise UsageError(
                f"entities must be at least {FEWEST}, got {self.entities}: smaller graphs have patterns by chance."
            )
        if self.entities > MOST:
            raise UsageError(f"entities must be at most {MOST}, got {self.entities}.")
        if not 0 <= self.noise <= 1:
            raise UsageError(f"noise must be from 0 to 1, got {self.noise}.")
        if self.seed < 0:
            raise UsageError(f"seed must be at least 0, got {self.seed}.")

    def __str__(self) -> str:
        return f"{PREFIX}{self.family}(entities={self.entities}, noise={self.noise:g}, seed={self.seed})"

    @classmethod
    def parse(cls, text: str) -> SyntheticSpec:
        """The inverse of `str`. The prefix and every option are optional."""
        match = _TEXT.fullmatch(text.strip().removeprefix(PREFIX))
        if not match:
            raise UsageError(
                f"{text!r} is not the name of a synthetic graph. "
                f"Write, for example, {PREFIX}symmetric(entities=120, noise=0, seed=0)."
            )
        chosen: dict[str, float] = {}
        for item in (match["body"] or "").split(","):
            key, _, value = (part.strip() for part in item.partition("="))
            if not key:
                continue
            if key not in ("entities", "noise", "seed"):
                way_out = "Options are entities, noise and seed."
                raise unknown("option", key, ("entities", "noise", "seed"), way_out=way_out)
            try:
                number = float(value) if key == "noise" else int(value)
            except ValueError as error:
                raise UsageError(f"{key} in {text!r} must be a number, got {value!r}.") from error
            chosen[key] = number
        return cls(
            family=match["family"],
            entities=int(chosen.get("entities", cls.entities)),
            noise=chosen.get("noise", cls.noise),
            seed=int(chosen.get("seed", cls.seed)),
        )


@dataclass(frozen=True, eq=False)
class Facts:
    """The pairs (n, 2) of one relation; `derived` (n,) marks pairs that follow from others and may be held out."""

    relation: str
    pairs: Ids
    derived: np.ndarray


@dataclass(frozen=True, eq=False)
class SyntheticGraph:
    """A graph and the rules that were planted in it."""

    plan: SyntheticSpec
    graph: Graph
    theory: RuleSet


def is_synthetic(name: str) -> bool:
    """Is this the name of a synthetic graph?"""
    return name.startswith(PREFIX)


@cache
def generate(plan: SyntheticSpec) -> SyntheticGraph:
    """Build the graph of a specification.

    >>> planted = generate(SyntheticSpec(family="symmetric", entities=120))
    >>> planted.graph.n_entities, planted.graph.train.shape[1]
    (120, 3)
    """
    draw = np.random.default_rng([plan.seed, *plan.family.encode()])
    parts, theory = FAMILIES[plan.family](plan.entities, draw)
    names = [part.relation for part in parts]
    triples = np.concatenate([np.insert(part.pairs, 1, r, axis=1) for r, part in enumerate(parts)])
    derived = np.concatenate([part.derived for part in parts])
    triples = _with_noise(triples, plan, draw)
    held = np.flatnonzero(derived)
    held = draw.permutation(held)[: round(HELD * len(held))]
    split = np.zeros(len(triples), dtype=np.int64)
    split[held[0::2]], split[held[1::2]] = 1, 2
    digits = len(str(plan.entities - 1))
    text = np.array([f"e{i:0{digits}}" for i in range(plan.entities)], dtype=object)
    relations = np.array(names, dtype=object)
    rows = [(text[h], relations[r], text[t]) for h, r, t in triples.tolist()]
    chosen = [[row for row, part in zip(rows, split, strict=True) if part == number] for number in (0, 1, 2)]
    return SyntheticGraph(plan, Graph.from_triples(*chosen, name=str(plan)), theory)


def _with_noise(triples: Ids, plan: SyntheticSpec, draw: np.random.Generator) -> Ids:
    """Replace a share of the facts by new random ones of the same relation."""
    spoiled = np.flatnonzero(draw.random(len(triples)) < plan.noise)
    known = set(map(tuple, triples.tolist()))
    noisy = triples.copy()
    for i in spoiled.tolist():
        while True:
            h, t = draw.choice(plan.entities, 2, replace=False).tolist()
            if (h, int(triples[i, 1]), t) not in known:
                break
        noisy[i] = h, triples[i, 1], t
        known.add((h, int(triples[i, 1]), t))
    return noisy


def _random(n: int, draw: np.random.Generator) -> Ids:
    """Link every entity to DEGREE others, some links in both directions; pairs (m, 2).

    Without links in both directions, a sparse relation would be antisymmetric by chance.
    """
    shifts = np.stack([draw.choice(n - 1, DEGREE, replace=False) + 1 for _ in range(n)])
    heads = np.repeat(np.arange(n), DEGREE)
    links = np.stack([heads, (heads + shifts.ravel()) % n], axis=1)
    returned = links[draw.random(len(links)) < RETURNED, ::-1]
    return np.unique(np.concatenate([links, returned]), axis=0)


def _never(pairs: Ids) -> np.ndarray:
    return np.zeros(len(pairs), dtype=bool)


def _always(pairs: Ids) -> np.ndarray:
    return np.ones(len(pairs), dtype=bool)


def _symmetric(n: int, draw: np.random.Generator) -> tuple[list[Facts], HornRules]:
    """A symmetric relation; one direction of some pairs is held out."""
    links = np.unique(np.sort(_random(n, draw), axis=1), axis=0)
    turned = links[:, ::-1]
    # One direction of each pair may be held out; draw which.
    second = np.where(draw.random(len(links))[:, None] < 0.5, links, turned)
    first = second[:, ::-1]
    pairs = np.concatenate([first, second])
    derived = np.arange(len(pairs)) >= len(first)
    return [Facts("befriends", pairs, derived)], HornRules((Rule("symmetric", ("befriends",)),))


def _antisymmetric(n: int, draw: np.random.Generator) -> tuple[list[Facts], HornRules]:
    """A circle in hidden order: each entity is ahead of the entities 1, 2 and 5 steps further."""
    circle = draw.permutation(n)
    pairs = np.concatenate([np.stack([circle, np.roll(circle, -step)], axis=1) for step in STEPS])
    # No rule derives one of these facts from others; a model can learn the circle from most of its links.
    derived = draw.random(len(pairs)) < 0.5
    return [Facts("ahead_of", pairs, derived)], HornRules((Rule("antisymmetric", ("ahead_of",)),))


def _inverse(n: int, draw: np.random.Generator) -> tuple[list[Facts], HornRules]:
    """Two relations, each the other reversed; facts of one are held out."""
    pairs = _random(n, draw)
    turned = pairs[:, ::-1]
    parts = [Facts("lends_to", pairs, _never(pairs)), Facts("borrows_from", turned, _always(turned))]
    return parts, HornRules((Rule("inverse", ("lends_to", "borrows_from")),))


def _composition(n: int, draw: np.random.Generator) -> tuple[list[Facts], HornRules]:
    """Two random relations, and a third that holds for every pair connected by a path of the two."""
    first, second = _random(n, draw), _random(n, draw)
    parts = [
        Facts("works_for", first, _never(first)),
        Facts("supplies", second, _never(second)),
        _third("works_for_supplier_of", first, second, draw),
    ]
    return parts, HornRules((Rule("composition", ("works_for", "supplies", "works_for_supplier_of")),))


def _order(n: int, draw: np.random.Generator) -> tuple[list[Facts], HornRules]:
    """A partial order of dimension 2: one entity precedes another if both of its two hidden coordinates are smaller."""
    one, two = draw.permutation(n), draw.permutation(n)
    below = (one[:, None] < one[None, :]) & (two[:, None] < two[None, :])
    pairs = np.argwhere(below)
    cover = below & ~((below.astype(np.int64) @ below.astype(np.int64)) > 0)
    derived = ~cover[pairs[:, 0], pairs[:, 1]]
    rules = (Rule("antisymmetric", ("precedes",)), Rule("composition", ("precedes", "precedes", "precedes")))
    return [Facts("precedes", pairs, derived)], HornRules(rules)


def _hierarchy(n: int, draw: np.random.Generator) -> tuple[list[Facts], HornRules]:
    """Random trees; every entity is also linked to its root, which is the root of its parent and children too."""
    parent, root = np.full(n, -1), np.arange(n) % TREES
    for i in range(TREES, n):
        parent[i] = i - TREES * draw.integers(1, min(i // TREES, WINDOW) + 1)
    name = draw.permutation(n)
    child = np.arange(TREES, n)
    up = name[np.stack([child, parent[child]], axis=1)]
    top = name[np.stack([child, root[child]], axis=1)]
    rules = (
        Rule("hierarchy", ("reports_to",)),
        Rule("composition", ("reports_to", "led_by", "led_by")),
        Rule("composition", (back("reports_to"), "led_by", "led_by")),
    )
    return [Facts("reports_to", up, _never(up)), Facts("led_by", top, _always(top))], HornRules(rules)


def _group(n: int, draw: np.random.Generator, *, dihedral: bool) -> tuple[list[Facts], GroupRules]:
    """Copies of a group of 2 · TURNS elements; a relation multiplies by one element. Remaining entities get no fact."""
    theory = GroupRules.of(TURNS, dihedral=dihedral)
    order = 2 * TURNS
    copies = n // order
    name = draw.permutation(n)[: copies * order].reshape(copies, order)
    parts = []
    for relation, element in theory.elements.items():
        moved = np.array([theory.times(x, element) for x in range(order)])
        pairs = np.stack([name.ravel(), name[:, moved].ravel()], axis=1)
        product = relation.startswith("turn_and") or relation.startswith("unturn_and")
        parts.append(Facts(relation, pairs, _always(pairs) if product else _never(pairs)))
    return parts, theory


def _abelian(n: int, draw: np.random.Generator) -> tuple[list[Facts], GroupRules]:
    """A group whose elements commute; relations multiply by r, s, r s and r⁻¹ s."""
    return _group(n, draw, dihedral=False)


def _dihedral(n: int, draw: np.random.Generator) -> tuple[list[Facts], GroupRules]:
    """A group of rotations and reflections, s r = r⁻¹ s; relations multiply by r, s, r s and r⁻¹ s."""
    return _group(n, draw, dihedral=True)


def _combination(n: int, draw: np.random.Generator) -> tuple[list[Facts], HornRules]:
    """All of the above except order and groups, and a symmetric relation composed with one of an inverse pair."""
    parts: list[Facts] = []
    rules: list[Rule] = []
    for build in (_symmetric, _antisymmetric, _inverse, _composition, _hierarchy):
        more, theory = build(n, draw)
        parts += more
        rules += theory.rules
    pairs = {part.relation: part.pairs for part in parts}
    parts.append(_third("friend_of_lender", pairs["befriends"], pairs["lends_to"], draw))
    rules.append(Rule("composition", ("befriends", "lends_to", "friend_of_lender")))
    return parts, HornRules(tuple(rules))


def _third(relation: str, first: Ids, second: Ids, draw: np.random.Generator) -> Facts:
    """A composed relation: the pairs that follow, and some reversed ones, so that it is not antisymmetric by chance."""
    composed = _composed(first, second)
    known = set(map(tuple, composed.tolist()))
    extra = [[z, x] for x, z in composed.tolist() if (z, x) not in known and draw.random() < RETURNED]
    pairs = np.concatenate([composed, np.array(extra, dtype=np.int64).reshape(-1, 2)])
    return Facts(relation, pairs, np.arange(len(pairs)) < len(composed))


def _composed(first: Ids, second: Ids) -> Ids:
    """The pairs (x, z), x ≠ z, that a path of the two relations connects; shape (m, 2)."""
    onward: dict[int, list[int]] = {}
    for y, z in second.tolist():
        onward.setdefault(y, []).append(z)
    return np.array(sorted({(x, z) for x, y in first.tolist() for z in onward.get(y, []) if x != z}), dtype=np.int64)


Build = Callable[[int, np.random.Generator], tuple[list[Facts], RuleSet]]

FAMILIES: MappingProxyType[str, Build] = MappingProxyType(
    {
        "symmetric": _symmetric,
        "antisymmetric": _antisymmetric,
        "inverse": _inverse,
        "composition": _composition,
        "order": _order,
        "hierarchy": _hierarchy,
        "abelian": _abelian,
        "dihedral": _dihedral,
        "combination": _combination,
    }
)
"""The families of synthetic graphs and the functions that build them."""
