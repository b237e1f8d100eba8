"""Describe growth measurements in sentences. Does not import torch."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

LAST = 3
"""Number of the largest sizes that the exponent is fitted to."""


def slope(sizes: Sequence[float], costs: Sequence[float]) -> float:
    """The exponent of growth: least squares in logarithms over the largest sizes."""
    x = [math.log(size) for size in sizes[-LAST:]]
    y = [math.log(cost) for cost in costs[-LAST:]]
    middle_x, middle_y = sum(x) / len(x), sum(y) / len(y)
    spread = sum((a - middle_x) ** 2 for a in x)
    return sum((a - middle_x) * (b - middle_y) for a, b in zip(x, y, strict=True)) / spread


def in_words(points: Sequence[Mapping[str, Any]]) -> list[str]:
    """One sentence for each size that was varied."""
    sentences = []
    for moves, size in (("entities", "number of entities"), ("rank", "rank"), ("batch", "batch")):
        line = [point for point in points if point["moves"] == moves]
        if len(line) < 2:
            continue
        sizes = [point[moves] for point in line]
        time_power = slope(sizes, [point["seconds"] for point in line])
        memory_power = slope(sizes, [point["peak_bytes"] for point in line])
        others = [name for name in ("entities", "rank", "batch") if name != moves]
        fixed = " and ".join(f"{name} {line[0][name]:,}" for name in others)
        sentences.append(
            f"With {fixed}: doubling the {size} multiplies the time of a step by {2**time_power:.2f} and the memory by "
            f"{2**memory_power:.2f} (exponents {time_power:.2f} and {memory_power:.2f}, fitted from "
            f"{sizes[max(0, len(sizes) - LAST)]:,} to {sizes[-1]:,})."
        )
    return sentences
