"""Write a large graph as TSV or N-Triples: python -m bench.big_graph big.tsv --triples 20000000 --entities 2000000

Every entity occurs, and popular entities occur far more often than rare ones. One line in a hundred repeats another.
The order of the lines is random. The same arguments give the same bytes.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

BLOCK = 1_000_000
ENTITY, RELATION = "http://graph.example/entity/Q", "http://graph.example/relation/P"


def write(file: Path, *, triples: int, entities: int, relations: int = 1000, seed: int = 0) -> None:
    """Write the lines of the graph in the format of the suffix."""
    random = np.random.default_rng(seed)
    names = random.permutation(10 * entities)[:entities]
    line = ntriples if file.suffix == ".nt" else tsv
    earlier = np.empty((0, 3), dtype=np.int64)
    with file.open("wb") as stream:
        for start in range(0, triples, BLOCK):
            count = min(BLOCK, triples - start)
            heads = np.arange(start, start + count) % entities
            tails = (entities * random.random(count) ** 3).astype(np.int64)
            kinds = (relations * random.random(count) ** 4).astype(np.int64)
            facts = np.stack([names[heads], kinds, names[tails]], axis=1)
            repeated = random.random(count) < 0.01
            if len(earlier):
                facts[repeated] = earlier[random.integers(0, len(earlier), int(repeated.sum()))]
            earlier = facts[:1000].copy() if start == 0 else earlier
            write_lines(stream, line(random.permutation(facts)))


def tsv(facts: np.ndarray[Any, Any]) -> Any:
    """Q1⇥P2⇥Q3"""
    return [("Q", facts[:, 0]), ("\tP", facts[:, 1]), ("\tQ", facts[:, 2]), ("\n", None)]


def ntriples(facts: np.ndarray[Any, Any]) -> Any:
    """<…/Q1> <…/P2> <…/Q3> ."""
    return [
        (f"<{ENTITY}", facts[:, 0]),
        (f"> <{RELATION}", facts[:, 1]),
        (f"> <{ENTITY}", facts[:, 2]),
        ("> .\n", None),
    ]


def write_lines(stream: BinaryIO, parts: list[tuple[str, Any]]) -> None:
    """Join the parts of all lines and write them."""
    import pyarrow as pa
    import pyarrow.compute as pc

    columns: list[Any] = []
    for text, numbers in parts:
        columns.append(pa.scalar(text, pa.large_string()))
        if numbers is not None:
            columns.append(pa.array(numbers).cast(pa.large_string()))
    joined = pc.binary_join_element_wise(*columns, pa.scalar("", pa.large_string()))
    stream.write(memoryview(joined.buffers()[2]))


def main() -> None:
    """Write one file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path, help="ends in .tsv or .nt")
    parser.add_argument("--triples", type=int, default=20_000_000)
    parser.add_argument("--entities", type=int, default=2_000_000)
    parser.add_argument("--relations", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    write(
        chosen.file,
        triples=chosen.triples,
        entities=chosen.entities,
        relations=chosen.relations,
        seed=chosen.seed,
    )


if __name__ == "__main__":
    main()
