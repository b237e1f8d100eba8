"""Example facts about an invented village: marriages, families, houses and trades, which depend on each other."""

from __future__ import annotations

import csv
import random
from pathlib import Path

Fact = tuple[str, str, str]
TRADES = ("baker", "smith", "miller", "weaver", "tailor", "cooper", "potter", "mason")
SYMMETRIC = ("married_to", "sibling_of")
STARTS, ENDS = (
    ("Al", "Bri", "Cor", "Den", "El", "Fa", "Gre", "Hil", "Is", "Jo"),
    ("a", "dan", "wyn", "mar", "lis", "ko"),
)


def village(*, families: int = 40, seed: int = 0) -> list[Fact]:
    """Every fact of the village in random order; each family has three generations."""
    draw = random.Random(seed)
    facts: list[Fact] = []
    for number in range(families):
        house, trade = f"House {number + 1}", draw.choice(TRADES)
        elders = [_name(draw, number, 0, i) for i in range(2)]
        parents = [_name(draw, number, 1, i) for i in range(2)]
        children = [_name(draw, number, 2, i) for i in range(draw.randint(2, 4))]
        for pair in (elders, parents):
            facts += [(pair[0], "married_to", pair[1]), (pair[1], "married_to", pair[0])]
        for old, young in ((elders, parents[:1]), (parents, children)):
            facts += [(a, "parent_of", b) for a in old for b in young]
            facts += [(b, "child_of", a) for a in old for b in young]
        facts += [(a, "grandparent_of", b) for a in elders for b in children]
        facts += [(a, "sibling_of", b) for a in children for b in children if a != b]
        facts += [(person, "lives_in", house) for person in (*elders, *parents, *children)]
        facts += [(person, "works_as", trade) for person in (elders[0], parents[0], children[0])]
    draw.shuffle(facts)
    return facts


def _name(draw: random.Random, family: int, generation: int, place: int) -> str:
    return f"{draw.choice(STARTS)}{draw.choice(ENDS)} {family + 1}.{generation + 1}.{place + 1}"


def write_csv(path: Path, facts: list[Fact]) -> None:
    """Three columns with a header, as a spreadsheet would save them."""
    with path.open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream).writerows([("head", "relation", "tail"), *facts])
