"""Train, valid and test of the atlas: all facts about a pair of entities stay together, nothing is unseen in train."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable

Triple = tuple[str, str, str]
SPLITS = ("train", "valid", "test")
HELD_OUT = 0.05
LEAST_GROUPS = 10


def pairs(triples: Iterable[Triple]) -> dict[tuple[str, ...], list[Triple]]:
    """The triples grouped by their two entities without regard to direction and relation."""
    groups: dict[tuple[str, ...], list[Triple]] = {}
    for triple in sorted(triples):
        groups.setdefault(tuple(sorted({triple[0], triple[2]})), []).append(triple)
    return groups


def split(triples: Iterable[Triple]) -> dict[str, list[Triple]]:
    """Hold out HELD_OUT of the pairs for valid and as many for test, per combination of relations, in hashed order.

    A pair is held out only while both its entities keep another pair in train; a combination of relations with
    fewer than LEAST_GROUPS pairs stays in train. Each list is sorted.
    """
    groups = pairs(triples)
    left = Counter(entity for pair in groups for entity in pair)
    combinations: dict[tuple[str, ...], list[tuple[str, ...]]] = {}
    for pair, facts in groups.items():
        combinations.setdefault(tuple(sorted({relation for _, relation, _ in facts})), []).append(pair)
    chosen: dict[tuple[str, ...], str] = {}
    for _, members in sorted(combinations.items()):
        quota = max(1, round(HELD_OUT * len(members))) if len(members) >= LEAST_GROUPS else 0
        wanted = ["test", "valid"] * quota
        for pair in sorted(members, key=_hash):
            if wanted and all(left[entity] > 1 for entity in pair):
                chosen[pair] = wanted.pop()
                left.subtract(pair)
    parts: dict[str, list[Triple]] = {name: [] for name in SPLITS}
    for pair, facts in groups.items():
        parts[chosen.get(pair, "train")] += facts
    return {name: sorted(facts) for name, facts in parts.items()}


def _hash(pair: tuple[str, ...]) -> str:
    return hashlib.sha256("\t".join(pair).encode()).hexdigest()
