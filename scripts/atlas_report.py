"""Tables about the atlas for README and docs: relations, overlaps, rules, and a counting baseline."""

from __future__ import annotations

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Iterable

from scripts.atlas_split import SPLITS, Triple, pairs
from scripts.atlas_tables import PINNED

Parts = dict[str, list[Triple]]
Pairs = set[tuple[str, str]]
LEAST_CONFIDENCE = 0.4
LEAST_COVERAGE = 0.1

# relation: (what it says, pattern, an example that the data must hold)
RELATIONS = {
    "borders": ("a land border", "symmetric", ("France", "Spain")),
    "had_currency": ("legal tender once, until 1945 or later", "n-n", ("France", "French Franc")),
    "has_capital": ("", "1-1, reverse of a part of located_in", ("Japan", "Tokyo")),
    "has_currency": ("legal tender today", "n-1 mostly", ("Ecuador", "US Dollar")),
    "keeps_time": ("of a country; of a city where its country has several", "n-1 mostly", ("Chicago", "Central Time")),
    "located_in": ("a city's country, or US state", "n-1, hierarchical", ("Lyon", "France")),
    "most_spoken_in": (
        "where most speakers live",
        "n-1, reverse of parts of the language relations",
        ("Portuguese", "Brazil"),
    ),
    "near": (
        "one is among the three nearest cities of the other, at most 250 km",
        "symmetric",
        ("Bordeaux", "Toulouse"),
    ),
    "official_language": ("official in the whole country", "n-n", ("Finland", "Swedish")),
    "part_of": (
        "country, region, continent; US state, country",
        "hierarchical, a chain",
        ("Germany", "Western Europe"),
    ),
    "regional_language": ("official in a part of the country", "1-n", ("Spain", "Catalan")),
    "replaced_by": ("a currency's successor", "a chain", ("German Mark", "Euro")),
    "speaks": ("an established language without official standing", "n-n", ("France", "Breton")),
    "written_in": ("", "n-1 mostly", ("Hindi", "Devanagari script")),
}


def everything(parts: Parts) -> list[Triple]:
    return [triple for name in SPLITS for triple in parts[name]]


def by_relation(triples: Iterable[Triple]) -> dict[str, Pairs]:
    found: dict[str, Pairs] = defaultdict(set)
    for head, relation, tail in triples:
        found[relation].add((head, tail))
    return dict(sorted(found.items()))


def turned(facts: Pairs) -> Pairs:
    return {(tail, head) for head, tail in facts}


def counts_line(parts: Parts) -> str:
    triples = everything(parts)
    entities = {name for head, _, tail in triples for name in (head, tail)}
    sizes = " / ".join(f"{len(parts[name]):,}" for name in SPLITS)
    relations = len(by_relation(triples))
    return (
        f"{len(triples):,} triples ({sizes} train / valid / test), {len(entities):,} entities, {relations} relations."
    )


def relation_table(parts: Parts) -> str:
    """One row per relation: sizes, measured symmetry, an example that is in the data."""
    rows = ["| relation | triples | train / valid / test | pattern | tails per head, heads per tail | example |"]
    rows.append("|---|---:|---:|---|---|---|")
    facts = by_relation(everything(parts))
    for relation, found in facts.items():
        meaning, pattern, (head, tail) = RELATIONS[relation]
        if (head, tail) not in found:
            raise SystemExit(f"the example {head} {relation} {tail} is not in the atlas")
        sizes = " / ".join(str(sum(r == relation for _, r, _ in parts[name])) for name in SPLITS)
        heads, tails = (len({pair[side] for pair in found}) for side in (0, 1))
        explained = f"{pattern}: {meaning}" if meaning else pattern
        spread = f"{len(found) / heads:.2f}, {len(found) / tails:.2f}"
        rows.append(f"| {relation} | {len(found):,} | {sizes} | {explained} | {spread} | {head} → {tail} |")
    return "\n".join(rows)


def overlap_table(parts: Parts) -> str:
    """For ordered pairs of relations: the share of the first's pairs that the second also has, in either direction."""
    rows = ["| of relation | this share | is also in |", "|---|---:|---|"]
    facts = by_relation(everything(parts))
    for first, own in facts.items():
        for second, other in facts.items():
            for arrow, held in (("", other), (" inverted", turned(other))):
                share = len(own & held) / len(own)
                if share and (first != second or arrow):
                    rows.append(f"| {first} | {share:.1%} | {second}{arrow} |")
    return "\n".join(rows)


def rule_table(parts: Parts) -> str:
    """Two-step rules x → y → z: how often the conclusion holds, and how much of the concluded relation it covers."""
    facts = by_relation(everything(parts))
    steps = {**facts, **{f"{name}⁻¹": turned(found) for name, found in facts.items() if found != turned(found)}}
    onward: dict[str, dict[str, set[str]]] = {name: defaultdict(set) for name in steps}
    for name, found in steps.items():
        for head, tail in found:
            onward[name][head].add(tail)
    rows = []
    for first, found in steps.items():
        for second in steps:
            reached = {(x, z) for x, y in found for z in onward[second].get(y, ()) if x != z}
            for relation, wanted in facts.items():
                held = len(reached & wanted)
                if held >= LEAST_CONFIDENCE * len(reached) and held >= LEAST_COVERAGE * len(wanted) and held:
                    rows.append((held / len(reached), held / len(wanted), f"{first}, {second} ⇒ {relation}"))
    lines = ["| rule | holds | covers |", "|---|---:|---:|"]
    lines += [f"| {rule} | {holds:.0%} | {covers:.0%} |" for holds, covers, rule in sorted(rows, reverse=True)]
    return "\n".join(lines)


def baseline_table(parts: Parts) -> str:
    """Filtered test MRR if every answer is the most frequent one of the relation; ties count half."""
    entities = sorted({name for head, _, tail in everything(parts) for name in (head, tail)})
    known: dict[tuple[str, str, bool], set[str]] = defaultdict(set)
    for head, relation, tail in everything(parts):
        known[head, relation, True].add(tail)
        known[tail, relation, False].add(head)
    seen: dict[tuple[str, bool], Counter[str]] = defaultdict(Counter)
    for head, relation, tail in parts["train"]:
        seen[relation, True][tail] += 1
        seen[relation, False][head] += 1
    scores: dict[tuple[str, bool], list[float]] = defaultdict(list)
    for head, relation, tail in parts["test"]:
        for given, answer, forward in ((head, tail, True), (tail, head, False)):
            count = seen[relation, forward]
            rivals = [count[name] for name in entities if name not in known[given, relation, forward]]
            better = sum(rival > count[answer] for rival in rivals)
            tied = sum(rival == count[answer] for rival in rivals)
            scores[relation, forward].append(1 / (1 + better + tied / 2))
    lines = ["| relation | questions | asked for the tail | asked for the head |", "|---|---:|---:|---:|"]
    for relation in by_relation(parts["test"]):
        tails, heads = scores[relation, True], scores[relation, False]
        lines.append(f"| {relation} | {2 * len(tails)} | {_mean(tails):.3f} | {_mean(heads):.3f} |")
    tails, heads = (
        [s for (_, way), found in scores.items() if way is forward for s in found] for forward in (True, False)
    )
    lines.append(f"| all | {len(tails) + len(heads)} | {_mean(tails):.3f} | {_mean(heads):.3f} |")
    return "\n".join(lines)


def _mean(numbers: list[float]) -> float:
    return sum(numbers) / len(numbers)


def capitals_line(parts: Parts) -> str:
    facts = by_relation(everything(parts))
    countries = {head for head, _ in facts["has_currency"]}
    missing = sorted(countries - {head for head, _ in facts["has_capital"]})
    found = len(countries) - len(missing)
    return f"{found} of {len(countries)} countries and territories have their capital. Without: {'; '.join(missing)}."


def leakage_line(parts: Parts) -> str:
    trained = set(pairs(parts["train"]))
    asked = [*pairs(parts["valid"]), *pairs(parts["test"])]
    shared = sum(pair in trained for pair in asked) + len(set(pairs(parts["valid"])) & set(pairs(parts["test"])))
    seen = {name for head, _, tail in parts["train"] for name in (head, tail)}
    unseen = {name for pair in asked for name in pair} - seen
    return (
        f"Pairs of entities that occur in two splits, under any relation and in either direction: {shared}. "
        f"Entities of valid and test that do not occur in train: {len(unseen)}."
    )


def docs_with_tables(text: str, parts: Parts) -> str:
    """The text with every block between `<!-- measured: NAME -->` and `<!-- end -->` measured anew."""
    blocks = {
        "counts": counts_line,
        "relations": relation_table,
        "splits": leakage_line,
        "capitals": capitals_line,
        "overlaps": overlap_table,
        "rules": rule_table,
        "counting": baseline_table,
    }

    def fill(match: re.Match[str]) -> str:
        name = match["name"]
        return f"<!-- measured: {name} -->\n{blocks[name](parts)}\n<!-- end -->"

    return re.sub(r"<!-- measured: (?P<name>\w+) -->\n.*?<!-- end -->", fill, text, flags=re.DOTALL)


def readme(parts: Parts, contents: dict[str, bytes]) -> str:
    """The README beside the data: counts, sources, and the sha256 of every unpacked file."""
    rows = "\n".join(
        f"| {name}.txt | {len(parts[name]):,} | {hashlib.sha256(contents[name]).hexdigest()} |" for name in SPLITS
    )
    pins = " and ".join(f"`{package}` {wanted}" for package, wanted in PINNED.items())
    return f"""# atlas

{counts_line(parts)}
Tab-separated `head relation tail`, UTF-8, gzip, sorted. Described and measured in docs/atlas.md of the repository.

Written by scripts/build_atlas.py from {pins}; do not edit by hand.
Contains data of GeoNames (https://www.geonames.org), CC BY 4.0, changed: selected, renamed where ambiguous, related;
and of Unicode CLDR 47, Unicode License V3. The repository's NOTICE has the full attribution.

| unpacked file | triples | sha256 |
|---|---:|---|
{rows}
"""
