"""The embedded atlas as it is shipped: its facts, its splits, and that its documents tell the truth about it."""

from __future__ import annotations

import gzip
import hashlib
import re
import unicodedata
from pathlib import Path

import pytest

from conjoin.graph.graph import Graph

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "src" / "conjoin" / "datasets" / "atlas"
SPLITS = ("train", "valid", "test")
Triple = tuple[str, ...]


def unpacked(split: str) -> bytes:
    return gzip.decompress((FOLDER / f"{split}.txt.gz").read_bytes())


@pytest.fixture(scope="module")
def parts() -> dict[str, list[Triple]]:
    return {split: [tuple(line.split("\t")) for line in unpacked(split).decode().splitlines()] for split in SPLITS}


@pytest.fixture(scope="module")
def facts(parts: dict[str, list[Triple]]) -> set[Triple]:
    return {triple for split in SPLITS for triple in parts[split]}


def pairs(triples: list[Triple]) -> set[frozenset[str]]:
    return {frozenset((head, tail)) for head, _, tail in triples}


def test_every_line_is_a_whole_triple_that_occurs_once(parts: dict[str, list[Triple]], facts: set[Triple]) -> None:
    everything = [triple for split in SPLITS for triple in parts[split]]
    assert all(len(triple) == 3 and all(name == name.strip() != "" for name in triple) for triple in everything)
    assert len(everything) == len(facts)
    assert all(head != tail for head, _, tail in facts)
    assert all(parts[split] == sorted(parts[split]) for split in SPLITS)


def test_the_files_are_packed_without_time_and_name_and_are_small() -> None:
    packed = [(FOLDER / f"{split}.txt.gz").read_bytes() for split in SPLITS]
    assert all(content[3:8] == bytes(5) for content in packed), "gzip flags and time are zero"
    assert sum(map(len, packed)) < 100_000


@pytest.mark.parametrize(
    "fact",
    [
        ("France", "borders", "Spain"),
        ("Spain", "borders", "France"),
        ("Vatican", "borders", "Italy"),
        ("Japan", "has_capital", "Tokyo"),
        ("Australia", "has_capital", "Canberra"),
        ("Kazakhstan", "has_capital", "Astana"),
        ("Brazil", "has_capital", "Brasília"),
        ("United States", "has_capital", "Washington, D.C."),
        ("Singapore", "has_capital", "Singapore (city)"),
        ("Lyon", "located_in", "France"),
        ("Houston", "located_in", "Texas"),
        ("Texas", "part_of", "United States"),
        ("Kenya", "part_of", "Eastern Africa"),
        ("Eastern Africa", "part_of", "Africa"),
        ("Germany", "has_currency", "Euro"),
        ("Bulgaria", "has_currency", "Euro"),
        ("Ecuador", "has_currency", "US Dollar"),
        ("Japan", "has_currency", "Japanese Yen"),
        ("Germany", "had_currency", "German Mark"),
        ("German Mark", "replaced_by", "Euro"),
        ("Switzerland", "official_language", "German"),
        ("South Africa", "official_language", "Zulu"),
        ("Spain", "regional_language", "Catalan"),
        ("Ukraine", "speaks", "Russian"),
        ("Portuguese", "most_spoken_in", "Brazil"),
        ("Russian", "written_in", "Cyrillic script"),
        ("Los Angeles", "keeps_time", "Pacific Time"),
        ("Italy", "keeps_time", "Central European Time"),
        ("San Diego", "near", "Tijuana"),
    ],
)
def test_well_known_facts_are_in_the_atlas(fact: Triple, facts: set[Triple]) -> None:
    assert fact in facts


@pytest.mark.parametrize(
    "fact",
    [
        ("Bulgaria", "has_currency", "Bulgarian Lev"),
        ("Cuba", "borders", "United States"),
        ("Albania", "borders", "Serbia"),
        ("Ukraine", "official_language", "Russian"),
        ("Germany", "has_currency", "German Mark"),
        ("London", "near", "New York City"),
    ],
)
def test_absurd_facts_are_not_in_the_atlas(fact: Triple, facts: set[Triple]) -> None:
    head, _, tail = fact
    names = {name for first, _, second in facts for name in (first, second)}
    assert {head, tail} <= names
    assert fact not in facts


def test_nearly_every_country_has_exactly_one_capital_that_lies_in_it(facts: set[Triple]) -> None:
    countries = {head for head, relation, _ in facts if relation == "has_currency"}
    capitals = {head: tail for head, relation, tail in facts if relation == "has_capital"}
    assert len(capitals) == sum(relation == "has_capital" for _, relation, _ in facts)
    assert len(countries) == 246
    assert countries - set(capitals) == {"Bonaire, Saint Eustatius and Saba", "Tokelau"}
    outside = {c for c, city in capitals.items() if (city, "located_in", c) not in facts}
    assert outside == {"United States"}, "whose cities lie in states"


def test_symmetric_relations_hold_both_ways_and_no_other_does(facts: set[Triple]) -> None:
    for relation in {relation for _, relation, _ in facts}:
        own = {(head, tail) for head, r, tail in facts if r == relation}
        turned = {(tail, head) for head, tail in own}
        assert (own == turned) if relation in ("borders", "near") else not own & turned


def test_no_relation_repeats_another(facts: set[Triple]) -> None:
    held: dict[str, set[tuple[str, str]]] = {}
    for head, relation, tail in facts:
        held.setdefault(relation, set()).add((head, tail))
    for first, own in held.items():
        for second, other in held.items():
            if first != second:
                assert not own & other, f"{first} and {second} join the same pairs"
                turned = {(tail, head) for head, tail in other}
                assert len(own & turned) < 0.7 * max(len(own), len(other)), f"{first} is {second} backwards"


def test_pairs_of_entities_stay_in_one_split(parts: dict[str, list[Triple]]) -> None:
    train, valid, test = (pairs(parts[split]) for split in SPLITS)
    assert not train & valid
    assert not train & test
    assert not valid & test


def test_nothing_in_valid_and_test_is_unseen_and_every_relation_is_in_all_three(parts: dict[str, list[Triple]]) -> None:
    seen = {name for head, _, tail in parts["train"] for name in (head, tail)}
    assert {name for split in ("valid", "test") for h, _, t in parts[split] for name in (h, t)} <= seen
    relations = [{relation for _, relation, _ in parts[split]} for split in SPLITS]
    assert relations[0] == relations[1] == relations[2]
    total = sum(len(parts[split]) for split in SPLITS)
    assert all(0.04 < len(parts[split]) / total < 0.06 for split in ("valid", "test"))


def test_names_differ_by_more_than_case_and_accents(facts: set[Triple]) -> None:
    names = {name for head, _, tail in facts for name in (head, tail)}
    bare = {
        "".join(
            letter for letter in unicodedata.normalize("NFKD", name.casefold()) if not unicodedata.combining(letter)
        )
        for name in names
    }
    assert len(bare) == len(names)


def test_documents_state_the_correct_counts(parts: dict[str, list[Triple]], facts: set[Triple]) -> None:
    entities = {name for head, _, tail in facts for name in (head, tail)}
    relations = {relation for _, relation, _ in facts}
    sizes = " / ".join(f"{len(parts[split]):,}" for split in SPLITS)
    line = f"{len(facts):,} triples ({sizes} train / valid / test), {len(entities):,} entities, {len(relations)} "
    documented = (ROOT / "docs" / "atlas.md").read_text(encoding="utf-8")
    assert line in documented
    assert line in (FOLDER / "README.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| (\w+) \| ([\d,]+) \| \d+ / \d+ / \d+ \|", documented, flags=re.MULTILINE))
    assert rows == {r: f"{sum(relation == r for _, relation, _ in facts):,}" for r in relations}


@pytest.mark.parametrize("split", SPLITS)
def test_the_readme_has_the_checksums_of_the_unpacked_files(split: str) -> None:
    digest = hashlib.sha256(unpacked(split)).hexdigest()
    assert re.search(rf"^\| {split}\.txt \| [\d,]+ \| {digest} \|$", (FOLDER / "README.md").read_text(), re.MULTILINE)


def test_atlas_loads_as_a_graph(parts: dict[str, list[Triple]]) -> None:
    graph = Graph.from_triples(parts["train"], parts["valid"], parts["test"], name="atlas")
    assert len(graph.unseen) == 0
    assert graph.entities.find("France") != graph.entities.find("Paris")
