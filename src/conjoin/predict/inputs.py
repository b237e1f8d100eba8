"""Facts and questions that come in a file: which of them name only what a graph knows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import numpy as np

from conjoin.errors import UnknownName, UsageError
from conjoin.graph.graph import Graph, Ids, Vocabulary
from conjoin.io.read_options import OnError
from conjoin.io.read_report import SAMPLES
from conjoin.io.readers import LocatedFact

SHOWN = 3
"""Unknown names for which the nearest known ones are looked up."""
SKIP = "Mend these lines, or leave them out with on_error='skip' (--on-error skip)."

NamedTriple = tuple[str, str, str]
Word = tuple[Vocabulary, str]
"""A word, and where it must be found."""
Words = Callable[[NamedTriple], Iterable[Word]]
KnownWords = tuple[Vocabulary, int]
"""A name by its id."""


@dataclass(frozen=True)
class CheckedFacts:
    """The facts that can be used, place and reason of the others (the first 1,000), and a sentence on these."""

    facts: list[NamedTriple]
    refused: tuple[str, ...] = ()
    note: str = ""


def as_facts(given: Iterable[NamedTriple]) -> list[NamedTriple]:
    """What a caller gave, shown to be facts: one alone, or a table of another program, reads like a list of others."""
    facts = [*given]
    for number, fact in enumerate(facts, start=1):
        if not _in_three_parts(fact) or not all(isinstance(word, str) for word in fact):
            raise UsageError(f"fact {number} is {fact!r}: give a list of facts, [(head, relation, tail), …], of names")
    return facts


def as_question(given: Sequence[str | None]) -> Sequence[str | None]:
    """What a caller gave, shown to have the three parts of a question."""
    if not _in_three_parts(given):
        raise UsageError(f"{given!r} is no question: give (head, relation, tail), one of them None")
    return given


def _in_three_parts(given: Any) -> bool:
    """Sets and tables of names have no order that could be meant."""
    return hasattr(given, "__len__") and len(given) == 3 and not isinstance(given, str | Mapping | Set)


def all_words(graph: Graph, *, but: str | None = None) -> Callable[[NamedTriple], list[Word]]:
    """Every name of a fact must be known, but for the one word that asks."""
    places = (graph.entities, graph.relations, graph.entities)
    return lambda fact: [(place, word) for place, word in zip(places, fact, strict=True) if word != but]


def question_words(graph: Graph, question: Sequence[str | None], answers: Iterable[str]) -> Iterator[Word]:
    """What a question names, and its answers."""
    head, relation, tail = (word or "?" for word in question)
    yield from all_words(graph, but="?")((head, relation, tail))
    asked = graph.relations if relation == "?" else graph.entities
    yield from ((asked, answer) for answer in answers)


def untrained(graph: Graph, words: Iterable[Word]) -> list[KnownWords]:
    """Known names that occur in no training fact, each once: nothing that a model says about them is learned."""
    unseen = {graph.entities: graph.unseen, graph.relations: graph.unseen_relations}
    if not any(map(len, unseen.values())):
        return []
    known = dict.fromkeys((place, i) for place, word in words for i in place.matching(word))
    return [(place, i) for place, i in known if _among(unseen[place], i)]


def untrained_names(graph: Graph, words: Iterable[Word]) -> list[str]:
    """The same as text."""
    return [place.names[i] for place, i in untrained(graph, words)]


def check_facts(
    file: object,
    given: Sequence[LocatedFact],
    words: Words,
    *,
    on_error: OnError = "stop",
    hint: str = "",
) -> CheckedFacts:
    """Leave out what holds an unknown name or an ambiguous label, or raise with the places of the first such names.

    `hint` is said where a relation is unknown.
    """
    refused: list[tuple[LocatedFact, list[Word]]] = []
    for each in given:
        if strange := [(place, word) for place, word in words(each.fact) if len(place.matching(word)) != 1]:
            refused.append((each, strange))
    if not refused:
        return CheckedFacts([each.fact for each in given])
    names: dict[tuple[str, str], str] = {}
    for each, strange in refused:
        for place, word in strange:
            if (place.kind, word) not in names:
                reason = _reason(place, word) if len(names) < SHOWN else ""
                names[place.kind, word] = f"{place_of(file, each)}: {reason}"
    facts = "fact" if len(given) == 1 else "facts"
    count, unknown = f"{len(refused):,} of {len(given):,} {facts}", f"{len(names):,} unknown in all."
    parts = list(names.values())[:SHOWN]
    parts += [hint] if hint and any(kind == "relation" for kind, _ in names) else []
    if on_error == "stop" or len(refused) == len(given):
        raise UnknownName(
            " ".join([f"{file}: {count} cannot be used: {unknown}", *parts, *([SKIP] if on_error == "stop" else [])])
        )
    bad = {id(each) for each, _ in refused}
    reasons = (
        f"{place_of(file, each)}: " + ", ".join(f"unknown {place.kind} {word!r}" for place, word in strange)
        for each, strange in refused[:SAMPLES]
    )
    return CheckedFacts(
        [each.fact for each in given if id(each) not in bad],
        tuple(reasons),
        " ".join([f"{file}: skipped {count}: {unknown}", *parts]),
    )


def chosen_ids(vocabulary: Vocabulary, candidates: Sequence[str] | None) -> Ids | None:
    """The ids to choose from, sorted, each once; None where the choice is open."""
    if candidates is None:
        return None
    if isinstance(candidates, str):
        raise UsageError(f"candidates are a list of names: [{candidates!r}]")
    if not len(candidates):
        raise UsageError("there is no candidate to choose from: name at least one, or leave the choice open")
    return np.unique(np.array([vocabulary.find(name) for name in candidates], dtype=np.int64))


def _among(ordered: Ids, i: int) -> bool:
    at = int(np.searchsorted(ordered, i))
    return at < len(ordered) and bool(ordered[at] == i)


def place_of(file: object, given: LocatedFact) -> str:
    """File and line, where a reader knows lines."""
    return str(file) if given.line is None else f"{file}:{given.line}"


def _reason(place: Vocabulary, word: str) -> str:
    try:
        place.find(word)
    except UnknownName as error:
        return str(error)
    raise AssertionError(f"{word!r} is known")
