"""The rules that follow from planted patterns, to check the rules that `find_patterns` finds.

A rule follows from Horn rules if its head can be derived from its body: for r1 ∘ r2 → r3, start with the facts r1(x, y)
and r2(y, z) and apply the planted rules until no new fact appears; then r3(x, z) must be among the facts. In a graph of
a group, a rule holds exactly if the product of the elements agrees.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product

from conjoin.graph.graph import Graph
from conjoin.graph.patterns.report import BACKWARDS, USUAL, PatternReport, Thresholds, find_patterns

RuleFact = tuple[str, int, int]
X, Y, Z = 0, 1, 2


@dataclass(frozen=True, order=True)
class Rule:
    """A pattern and its relations; the first two of a composition may be read backwards (`back`)."""

    pattern: str
    relations: tuple[str, ...]

    def __str__(self) -> str:
        if self.pattern == "composition":
            first, second, third = self.relations
            return f"{first} ∘ {second} → {third}"
        return f"{self.pattern}({', '.join(self.relations)})"


def back(relation: str) -> str:
    """A relation read backwards."""
    return relation.removesuffix(BACKWARDS) if relation.endswith(BACKWARDS) else relation + BACKWARDS


class RuleSet:
    """The planted rules of a graph, and all rules that follow from them."""

    def follows(self, rule: Rule) -> bool:
        raise NotImplementedError

    def closure(self, relations: Iterable[str]) -> frozenset[Rule]:
        """Every rule over these relations that follows."""
        names = sorted(relations)
        read = [*names, *map(back, names)]
        candidates = [Rule(pattern, (r,)) for pattern in ("symmetric", "antisymmetric", "hierarchy") for r in names]
        candidates += [Rule(pattern, (r, s)) for pattern in ("inverse", "copy") for r in names for s in names if r < s]
        candidates += [Rule("composition", parts) for parts in product(read, read, names)]
        return frozenset(rule for rule in candidates if self.follows(rule))


@dataclass(frozen=True)
class HornRules(RuleSet):
    """Planted rules of any pattern."""

    rules: tuple[Rule, ...]

    def follows(self, rule: Rule) -> bool:
        names = rule.relations
        if rule.pattern == "hierarchy":
            return rule in self.rules or any(Rule("hierarchy", (r,)) in self.rules for r in self._inverses(names[0]))
        if rule.pattern == "symmetric":
            return self._derives([fact(names[0], X, Y)], fact(names[0], Y, X))
        if rule.pattern == "antisymmetric":
            return self._refuted([fact(names[0], X, Y), fact(names[0], Y, X)])
        if rule.pattern in ("inverse", "copy"):
            one, other = names
            ends = (Y, X) if rule.pattern == "inverse" else (X, Y)
            return self._derives([fact(one, X, Y)], fact(other, *ends)) and self._derives(
                [fact(other, X, Y)], fact(one, *ends)
            )
        first, second, third = names
        return self._derives([fact(first, X, Y), fact(second, Y, Z)], fact(third, X, Z))

    def _inverses(self, relation: str) -> Iterator[str]:
        for rule in self.rules:
            if rule.pattern == "inverse" and relation in rule.relations:
                yield from (other for other in rule.relations if other != relation)

    def _derives(self, body: list[RuleFact], head: RuleFact) -> bool:
        return head in self._saturated(body)

    def _refuted(self, body: list[RuleFact]) -> bool:
        """Do these facts contradict a planted denial? A hierarchy has no cycle, so it is antisymmetric too."""
        facts = self._saturated(body)
        one_way = {rule.relations[0] for rule in self.rules if rule.pattern in ("antisymmetric", "hierarchy")}
        return any(r in one_way and (r, y, x) in facts for r, x, y in facts)

    def _saturated(self, body: list[RuleFact]) -> set[RuleFact]:
        facts = set(body)
        while more := {new for rule in self.rules for new in _consequences(rule, facts)} - facts:
            facts |= more
        return facts


@dataclass(frozen=True)
class GroupRules(RuleSet):
    """Relations that multiply by a group element; the number x + turns · y, below 2 · turns, stands for rˣ sʸ."""

    turns: int
    dihedral: bool
    elements: Mapping[str, int]

    @classmethod
    def of(cls, turns: int, *, dihedral: bool) -> GroupRules:
        """r, s, r s and r⁻¹ s. In the dihedral group s r = r⁻¹ s, in the other s r = r s."""
        return cls(
            turns, dihedral, {"turn": 1, "flip": turns, "turn_and_flip": 1 + turns, "unturn_and_flip": 2 * turns - 1}
        )

    def times(self, g: int, h: int) -> int:
        """The product g h."""
        flipped, x = divmod(g, self.turns)
        other, y = divmod(h, self.turns)
        turned = x - y if self.dihedral and flipped else x + y
        return turned % self.turns + self.turns * (flipped ^ other)

    def follows(self, rule: Rule) -> bool:
        g = [self._element(relation) for relation in rule.relations]
        if rule.pattern == "symmetric":
            return self.times(g[0], g[0]) == 0
        if rule.pattern == "antisymmetric":
            return self.times(g[0], g[0]) != 0
        if rule.pattern == "inverse":
            return self.times(g[0], g[1]) == 0
        if rule.pattern == "copy":
            return g[0] == g[1]
        return rule.pattern == "composition" and self.times(g[0], g[1]) == g[2]

    def _element(self, relation: str) -> int:
        if not relation.endswith(BACKWARDS):
            return self.elements[relation]
        forward = self._element(back(relation))
        return next(g for g in range(2 * self.turns) if self.times(forward, g) == 0)


def fact(relation: str, head: int, tail: int) -> RuleFact:
    """A fact; for a relation read backwards, head and tail are swapped."""
    return (back(relation), tail, head) if relation.endswith(BACKWARDS) else (relation, head, tail)


def _consequences(rule: Rule, facts: set[RuleFact]) -> Iterator[RuleFact]:
    if rule.pattern == "symmetric":
        yield from ((r, y, x) for r, x, y in facts if r == rule.relations[0])
    elif rule.pattern == "inverse":
        one, other = rule.relations
        yield from ((other if r == one else one, y, x) for r, x, y in facts if r in (one, other))
    elif rule.pattern == "composition":
        first, second, third = rule.relations
        for x, y, z in product((X, Y, Z), repeat=3):
            if x != z and fact(first, x, y) in facts and fact(second, y, z) in facts:
                yield third, x, z


def found_rules(report: PatternReport) -> frozenset[Rule]:
    """The patterns of a report as rules."""
    names = report.graph.relations.names
    n = len(names)

    def read(relation: int) -> str:
        return back(names[relation - n]) if relation >= n else names[relation]

    rules = {
        Rule(pattern, (names[r],))
        for pattern in ("symmetric", "antisymmetric", "hierarchy")
        for r in range(n)
        if report.has[pattern][r]
    }
    for pattern, mirrors in (("inverse", report.inverses), ("copy", report.copies)):
        pairs = zip(mirrors.relation.tolist(), mirrors.other.tolist(), strict=True)
        rules |= {Rule(pattern, tuple(sorted((names[r], names[s])))) for r, s in pairs}
    parts = zip(*(column.tolist() for column in (report.compositions.first, report.compositions.second)), strict=True)
    thirds = report.compositions.third.tolist()
    rules |= {Rule("composition", (read(f), read(s), names[t])) for (f, s), t in zip(parts, thirds, strict=True)}
    return frozenset(rules)


@dataclass(frozen=True)
class Recovery:
    """The rules that follow from the planted ones (`closure`), and the rules that were found."""

    closure: frozenset[Rule]
    found: frozenset[Rule]

    @property
    def missed(self) -> frozenset[Rule]:
        return self.closure - self.found

    @property
    def invented(self) -> frozenset[Rule]:
        return self.found - self.closure

    @property
    def precision(self) -> float | None:
        """The share of the found rules that follow; None if none was found."""
        return len(self.closure & self.found) / len(self.found) if self.found else None

    @property
    def recall(self) -> float | None:
        """The share of the closure that was found; None if the closure is empty."""
        return len(self.closure & self.found) / len(self.closure) if self.closure else None


def recovery(theory: RuleSet, graph: Graph, thresholds: Thresholds = USUAL) -> Recovery:
    """Find the patterns of a graph and compare them with its planted rules."""
    return Recovery(theory.closure(graph.relations.names), found_rules(find_patterns(graph, thresholds)))
