"""Measure the time of a name search over many labels: python -m bench.names [--labels 100000]"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time

import numpy as np

from conjoin.graph.graph import Vocabulary
from conjoin.predict.name_search import NameIndex

SYLLABLES = tuple("karomitelsanverdolingraporestnorwalburham"[i : i + 3] for i in range(38))


def words_of(chance: random.Random, count: int) -> list[str]:
    return ["".join(chance.choices(SYLLABLES, k=chance.randint(2, 4))) for _ in range(count)]


def misspelt(chance: random.Random, text: str) -> str:
    """The text with two neighbouring letters swapped and one dropped."""
    at = chance.randrange(1, len(text) - 2)
    swapped = text[:at] + text[at + 1] + text[at] + text[at + 2 :]
    gone = chance.randrange(1, len(swapped))
    return swapped[:gone] + swapped[gone + 1 :]


def main() -> None:
    """Measure and print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--labels", type=int, default=100_000)
    parser.add_argument("--searches", type=int, default=300)
    chosen = parser.parse_args()
    chance = random.Random(0)
    stock = words_of(chance, chosen.labels // 2)
    labels = tuple(" ".join(chance.choices(stock, k=chance.randint(1, 4))).title() for _ in range(chosen.labels))
    names = tuple(f"Q{number}" for number in range(chosen.labels))
    start = time.perf_counter()
    degrees = np.random.default_rng(0).zipf(1.6, chosen.labels).clip(max=100_000)
    index = NameIndex(Vocabulary("entity", names, labels), degrees)
    index.find("warm xup")
    report: dict[str, object] = {"labels": chosen.labels, "seconds_to_build": round(time.perf_counter() - start, 2)}
    some = [labels[chance.randrange(chosen.labels)] for _ in range(chosen.searches)]
    kinds = {
        "one letter": [text[0] for text in some],
        "three letters": [text[:3] for text in some],
        "whole label": some,
        "start of the last word": [text.split()[-1][:5] for text in some],
        "words in another order": [" ".join(reversed(text.split())) for text in some],
        "misspelt": [misspelt(chance, text) for text in some],
        "not there": ["".join(chance.choices("bcdfghjklmnpqrstvwxz", k=12)) for _ in some],
    }
    for kind, texts in kinds.items():
        seconds, hits = [], 0
        for text, label in zip(texts, some, strict=True):
            start = time.perf_counter()
            found = index.find(text)
            seconds.append(time.perf_counter() - start)
            hits += any(match.label == label for match in found)
        report[kind] = {
            "median_ms": round(1000 * statistics.median(seconds), 2),
            "p99_ms": round(1000 * statistics.quantiles(seconds, n=100)[98], 2),
            "worst_ms": round(1000 * max(seconds), 2),
            "among_the_first_ten": round(hits / len(some), 3),
        }
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
