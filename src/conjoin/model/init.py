"""Starting numbers that any process can draw for any range of rows.

Rows are drawn in blocks, each from its own generator, so that a shard starts with exactly the numbers that the same
rows of a whole table would have, and so that every form shares the entity table at the same seed.
"""

from __future__ import annotations

import hashlib
import os
from concurrent.futures import ThreadPoolExecutor
from operator import index

import torch
from torch import Tensor

BLOCK = 1 << 14
MANY = 64
"""Blocks from which on several threads draw them."""
GRAIN = 16
"""torch.randn draws sixteen numbers at a time and draws the last sixteen again when they end in the middle: with a
multiple of sixteen rows the first numbers do not depend on how many are drawn."""


def normal_rows(start: int, stop: int, width: int, *, seed: int, stream: str, scale: float) -> Tensor:
    """Rows start:stop of the endless table `stream`: N(0, 1) · scale, float32, shape (stop - start, width)."""
    rows = torch.empty(stop - start, width, dtype=torch.float32, device="cpu")
    for block in range(start // BLOCK, -(-stop // BLOCK)):
        first = block * BLOCK
        wanted = min(BLOCK, stop - first)
        count = -(-wanted // GRAIN) * GRAIN
        source = generator(seed, stream, block)
        drawn = torch.randn(count, width, generator=source, dtype=torch.float32, device="cpu")[:wanted]
        low = max(start, first)
        rows[low - start : first + len(drawn) - start] = drawn[low - first :]
    return rows.mul_(scale)


def fill_normal(rows: Tensor, first: int, *, seed: int, stream: str, scale: float) -> None:
    """Fill a table of any type on any device with the rows from `first` on, a block at a time."""
    stop = first + len(rows)
    starts = [max(first, block * BLOCK) for block in range(first // BLOCK, -(-stop // BLOCK))]

    def fill(start: int) -> None:
        end = min(stop, (start // BLOCK + 1) * BLOCK)
        rows[start - first : end - first] = normal_rows(
            start, end, rows.shape[1], seed=seed, stream=stream, scale=scale
        ).to(rows.dtype)

    if len(starts) < MANY:
        for start in starts:
            fill(start)
        return
    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        list(pool.map(fill, starts))


def generator(seed: int, stream: str, number: int) -> torch.Generator:
    """A random generator that belongs to (seed, stream, number) alone."""
    digest = hashlib.sha256(f"{index(seed)}/{stream}/{number}".encode()).digest()
    return torch.Generator("cpu").manual_seed(int.from_bytes(digest[:8], "little") >> 1)
