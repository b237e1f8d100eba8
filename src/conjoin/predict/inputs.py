"""Check facts and questions from users and files: their shape, and whether the graph has their names."""

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
SKIP = "Correct these lines, or skip them with on_error='skip' (--on-error skip)."

NamedTriple = tuple[str, str, str]
Word = tuple[Vocabulary, str]
"""A name or label, and the vocabulary that must have it."""
Words = Callable[[NamedTriple], Iterable[Word]]
KnownWords = tuple[Vocabulary, int]
"""A known name by its vocabulary and id."""


@dataclass(frozen=True)
class CheckedFacts:
    """The usable facts, place and reason of the others (the first 1,000), and a summary of these."""

    facts: list[NamedTriple]
    refused: tuple[str, ...] = ()
    note: str = ""


def as_facts(given: Iterable[NamedTriple]) -> list[NamedTriple]:
    """Raise UsageError unless the input is a list of facts: a single fact or data frame is a likely mistake."""
    facts = [*given]
    for number, fact in enumerate(facts, start=1):
        if not _in_three_parts(fact) or not all(isinstance(word, str) for word in fact):
            raise UsageError(
                f"Fact {number} is {fact!r}. Pass a list of facts, [(head, relation, tail), …], with names as strings."
            )
    return facts


def as_question(given: Sequence[str | None]) -> Sequence[str | None]:
    """Raise UsageError unless the input has the three parts of a question."""
    if not _in_three_parts(given):
        raise UsageError(f"{given!r} is not a question. Pass (head, relation, tail) with one of them None.")
    return given


def _in_three_parts(given: Any) -> bool:
    """Three parts in order; sets and mappings have no order."""
    return hasattr(given, "__len__") and len(given) == 3 and not isinstance(given, str | Mapping | Set)


def all_words(graph: Graph, *, but: str | None = None) -> Callable[[NamedTriple], list[Word]]:
    """A function that lists the names of a fact with their vocabularies, without the placeholder `but`."""
    places = (graph.entities, graph.relations, graph.entities)
    return lambda fact: [(place, word) for place, word in zip(places, fact, strict=True) if word != but]


def question_words(graph: Graph, question: Sequence[str | None], answers: Iterable[str]) -> Iterator[Word]:
    """The names in a question and in its answers."""
    head, relation, tail = (word or "?" for word in question)
    yield from all_words(graph, but="?")((head, relation, tail))
    asked = graph.relations if relation == "?" else graph.entities
    yield from ((asked, answer) for answer in answers)


def untrained(graph: Graph, words: Iterable[Word]) -> list[KnownWords]:
    """Known names that occur in no training fact, each once: the model has learned nothing about them."""
    unseen = {graph.entities: graph.unseen, graph.relations: graph.unseen_relations}
    if not any(map(len, unseen.values())):
        return []
    known = dict.fromkeys((place, i) for place, word in words for i in place.matching(word))
    return [(place, i) for place, i in known if _among(unseen[place], i)]


def untrained_names(graph: Graph, words: Iterable[Word]) -> list[str]:
    """Names that occur in no training fact, as strings."""
    return [place.names[i] for place, i in untrained(graph, words)]


def check_facts(
    file: object,
    given: Sequence[LocatedFact],
    words: Words,
    *,
    on_error: OnError = "stop",
    hint: str = "",
) -> CheckedFacts:
    """The facts without unknown names and ambiguous labels; with on_error="stop" raise UnknownName at the first ones.

    `hint` is added to the message if a relation is unknown.
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
    count = f"{len(refused):,} of {len(given):,} {facts}"
    unknown = f"unknown or ambiguous names: {len(names):,}."
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
    """The ids of the candidates, sorted and distinct; None if all are candidates."""
    if candidates is None:
        return None
    if isinstance(candidates, str):
        raise UsageError(f"candidates must be a list of names, got the string {candidates!r}. Pass [{candidates!r}].")
    if not len(candidates):
        raise UsageError("The list of candidates is empty. Name at least one, or pass None for all.")
    return np.unique(np.array([vocabulary.find(name) for name in candidates], dtype=np.int64))


def _among(ordered: Ids, i: int) -> bool:
    at = int(np.searchsorted(ordered, i))
    return at < len(ordered) and bool(ordered[at] == i)


def place_of(file: object, given: LocatedFact) -> str:
    """File and line, if the reader knows lines."""
    return str(file) if given.line is None else f"{file}:{given.line}"


def _reason(place: Vocabulary, word: str) -> str:
    try:
        place.find(word)
    except UnknownName as error:
        return str(error)
    raise AssertionError(f"{word!r} is known")
