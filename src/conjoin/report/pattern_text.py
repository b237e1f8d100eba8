"""Sentences about the tests by pattern, computed from the numbers, so that they stay true when runs are added."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from conjoin.graph.patterns.detect import CARDINALITIES
from conjoin.graph.patterns.report import NONE, PATTERNS
from conjoin.report.formatting import listed, signed, span
from conjoin.report.pattern_effects import EVERYTHING, PatternEffect

Verdict = Literal["gains", "loses", "not told apart"]
VERDICTS: tuple[Verdict, ...] = ("gains", "loses", "not told apart")
DECIDED: tuple[Verdict, ...] = ("gains", "loses")
NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


@dataclass(frozen=True, kw_only=True)
class FormEffect:
    """All tests of a tied form against its original, with the level `alpha` for corrected p-values."""

    tied: str
    original: str
    tests: tuple[PatternEffect, ...]
    alpha: float

    def by_verdict(self, groups: Iterable[str]) -> dict[str, dict[Verdict, list[PatternEffect]]]:
        """The tests by group and verdict, in the order of the datasets."""
        found: dict[str, dict[Verdict, list[PatternEffect]]] = {}
        for group in groups:
            mine = [test for test in self.tests if test.group == group]
            found[group] = {v: [test for test in mine if test.verdict(self.alpha) == v] for v in VERDICTS}
        return found

    @property
    def patterns(self) -> tuple[str, ...]:
        """The tested groups that are patterns; relations without a pattern come last."""
        return tuple(name for name in (*PATTERNS, NONE) if any(test.group == name for test in self.tests))

    @property
    def cardinalities(self) -> tuple[str, ...]:
        return tuple(kind for kind in CARDINALITIES if any(test.group == kind for test in self.tests))

    @property
    def headline(self) -> str:
        """Number of datasets with gains and losses over all questions, with differences and intervals."""
        found = self.by_verdict([EVERYTHING])[EVERYTHING]
        n = sum(map(len, found.values()))
        said = [f"{v} on {number_word(len(found[v]))}" for v in DECIDED if found[v]]
        if not said:
            said = [f"is not told apart on {'any of ' if n > 1 else ''}{number_word(n)}"]
        numbers = (
            f"{test.dataset} {signed(test.paired.difference, decimals=3)} {span(test.paired.interval)}"
            for tests in found.values()
            for test in tests
        )
        places = "dataset" if n == 1 else "datasets"
        return f"over all questions it {' and '.join(said)} of {number_word(n)} {places}: {'; '.join(numbers)}"

    @property
    def sentences(self) -> tuple[str, ...]:
        """Sentences by pattern, by cardinality, and on whether the datasets agree on the sign."""
        lists = [f"By {kind} – {words}." for kind, groups in self._kinds if (words := self._listed(groups))]
        return (*lists, self._agreement)

    @property
    def _kinds(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        return ("pattern", self.patterns), ("cardinality", self.cardinalities)

    def _listed(self, groups: Sequence[str]) -> str:
        lines = []
        silent = []
        for group, found in self.by_verdict(groups).items():
            said = [
                f"{v} on " + ", ".join(f"{t.dataset} {signed(t.paired.difference, decimals=3)}" for t in found[v])
                for v in DECIDED
                if found[v]
            ]
            if said:
                lines.append(f"{named(group)}: {' and '.join(said)}")
            else:
                silent.append(named(group))
        if silent:
            lines.append(f"not told apart on {listed(silent)}")
        return "; ".join(lines)

    @property
    def _agreement(self) -> str:
        found = self.by_verdict((*self.patterns, *self.cardinalities))
        both = [group for group, each in found.items() if each["gains"] and each["loses"]]
        ever = [test for group in found.values() for v in DECIDED for test in group[v]]
        made = sum(len(each[v]) for each in found.values() for v in VERDICTS)
        if not ever:
            return f"None of the {made} tests by group tells the two apart."
        words = f"{len(ever)} of {made} tests by group are decided"
        if both:
            return f"{words}, with both signs on {listed([named(group) for group in both])}."
        return f"{words}, with one sign in each group."


def form_effects(tests: Iterable[PatternEffect], *, alpha: float) -> tuple[FormEffect, ...]:
    """One per tied row, in the order of the tests."""
    rows: dict[str, list[PatternEffect]] = {}
    for test in tests:
        rows.setdefault(test.tied.row.name, []).append(test)
    return tuple(
        FormEffect(tied=mine[0].tied.row.label, original=mine[0].original.row.label, tests=tuple(mine), alpha=alpha)
        for mine in rows.values()
    )


def consistency(effects: Sequence[FormEffect]) -> str:
    """A sentence on which patterns have gains and losses over all forms and datasets, and which only one of them."""
    signs: dict[str, set[Verdict]] = {}
    counts: dict[str, Mapping[Verdict, int]] = {}
    tested = {group for effect in effects for group in effect.patterns}
    for group in (name for name in (*PATTERNS, NONE) if name in tested):
        found = [effect.by_verdict([group])[group] for effect in effects]
        counts[group] = {v: sum(len(each[v]) for each in found) for v in VERDICTS}
        signs[group] = {v for v in DECIDED if counts[group][v]}
    said = [
        f"{named(group)} {each['gains']} gained, {each['loses']} lost, {each['not told apart']} open"
        for group, each in counts.items()
    ]
    mixed = [group for group, found in signs.items() if len(found) == 2]
    if not mixed:
        verdict = "no pattern has both signs"
    elif len(mixed) == len(signs):
        verdict = "every pattern has both signs, so none of them alone says whether tying helps"
    else:
        verdict = f"both signs on {listed([named(group) for group in mixed])}, where the pattern alone does not decide"
    return f"Tests of all forms and datasets by pattern: {'; '.join(said)}; {verdict}."


def agreement(first: Iterable[PatternEffect], second: Iterable[PatternEffect], *, alpha: float) -> tuple[int, int, int]:
    """Number of tests that two studies share, with equal verdicts, and with opposite verdicts."""
    verdicts = {(t.dataset, t.group, t.tied.row.name): t.verdict(alpha) for t in first}
    pairs = [
        (verdicts[key], test.verdict(alpha))
        for test in second
        if (key := (test.dataset, test.group, test.tied.row.name)) in verdicts
    ]
    return len(pairs), sum(a == b for a, b in pairs), sum({a, b} == set(DECIDED) for a, b in pairs)


def number_word(n: int) -> str:
    """A number as a word, if it is below ten."""
    return NUMBERS[n] if n < len(NUMBERS) else str(n)


def named(group: str) -> str:
    """The name of a group in sentences and plots."""
    return "patternless" if group == NONE else group
