"""A study on a graph of sixty facts that trains in a moment."""

from __future__ import annotations

import random
from pathlib import Path

from conjoin.studies.parse import read_study
from conjoin.studies.spec import Study

TEXT = """
name = "small"
seeds = 2
rows = [
    { name = "complex", form = "complex" },
    { name = "tied", form = "complex-conj", settings = "complex" },
]

[defaults]
validate_every = 2

[datasets.own]
graph = "own"

[settings.own]
complex = { rank = 4, epochs = 6, batch = 20, lr = 0.1 }
wild = { rank = 4, epochs = 6, batch = 20, lr = 1e38, initial_scale = 1e15 }
"""


def small_study(folder: Path, *, text: str = TEXT) -> Study:
    """The study, with its graph beside it."""
    graph = folder / "own"
    graph.mkdir(parents=True, exist_ok=True)
    chance = random.Random(0)
    facts = sorted({(chance.randrange(20), chance.randrange(3), chance.randrange(20)) for _ in range(90)})
    chance.shuffle(facts)
    for name, part in (("train", facts[:60]), ("valid", facts[60:70]), ("test", facts[70:])):
        lines = "".join(f"e{head}\tr{relation}\te{tail}\n" for head, relation, tail in part)
        (graph / f"{name}.txt").write_text(lines, encoding="utf-8")
    file = folder / "small.toml"
    file.write_text(text, encoding="utf-8")
    return read_study(file)
