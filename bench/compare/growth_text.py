"""What growth measurements say, in words. Without torch."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

LAST = 3
"""Points at the large end that a power is fitted to."""


def slope(sizes: Sequence[float], costs: Sequence[float]) -> float:
    """The power with which costs grow with sizes at the large end: least squares in logarithms."""
    x = [math.log(size) for size in sizes[-LAST:]]
    y = [math.log(cost) for cost in costs[-LAST:]]
    middle_x, middle_y = sum(x) / len(x), sum(y) / len(y)
    spread = sum((a - middle_x) ** 2 for a in x)
    return sum((a - middle_x) * (b - middle_y) for a, b in zip(x, y, strict=True)) / spread


def in_words(points: Sequence[Mapping[str, Any]]) -> list[str]:
    """What the slopes say, a sentence for each size that moves."""
    sentences = []
    for moves, plural in (("entities", "entities"), ("rank", "the rank"), ("batch", "the batch")):
        line = [point for point in points if point["moves"] == moves]
        if len(line) < 2:
            continue
        sizes = [point[moves] for point in line]
        time_power = slope(sizes, [point["seconds"] for point in line])
        memory_power = slope(sizes, [point["peak_bytes"] for point in line])
        others = [name for name in ("entities", "rank", "batch") if name != moves]
        fixed = " and ".join(f"{name} {line[0][name]:,}" for name in others)
        sentences.append(
            f"With {fixed}: from {sizes[max(0, len(sizes) - LAST)]:,} to {sizes[-1]:,}, twice {plural} take "
            f"{2**time_power:.2f} times the time of a step and {2**memory_power:.2f} times the memory "
            f"(powers {time_power:.2f} and {memory_power:.2f})."
        )
    return sentences
