"""Count how often equal entities get unequal scores, by plain products and by EntityTable: python -m bench.ties

Every table consists of equal rows, so every pair of scores of a question must be equal.
"""

from __future__ import annotations

import itertools
import json

import torch

from conjoin.model.table import EntityTable

ENTITIES = (2, 3, 5, 6, 7, 10, 11, 13, 17, 25, 33, 37, 50, 97, 135, 200, 301, 513)
QUESTIONS = (1, 2, 5, 9, 16, 31, 32, 64, 100)
WIDTHS = (2, 6, 10, 64, 130, 400)


def torn(scores: torch.Tensor) -> bool:
    """True if any score of a question differs from the first."""
    return bool((scores != scores[:, :1]).any())


def main() -> None:
    """Count and print one JSON object."""
    chance = torch.Generator().manual_seed(0)
    none = torch.empty(0, dtype=torch.long)
    counts: dict[str, dict[str, int]] = {}
    for dtype in (torch.float32, torch.float64):
        tables = plain = ours = 0
        for n, b, w in itertools.product(ENTITIES, QUESTIONS, WIDTHS):
            rows = torch.randn(1, w, generator=chance, dtype=dtype).repeat(n, 1)
            q = torch.randn(b, w, generator=chance, dtype=dtype)
            tables += 1
            plain += torn(q @ rows.T)
            standing = EntityTable(rows).standing(q, torch.zeros(b, dtype=torch.long), (none, none))
            ours += bool((standing.tied != n - 1).any())
        counts[str(dtype).removeprefix("torch.")] = {"tables": tables, "torn_plain": plain, "torn_in_ranking": ours}
    print(json.dumps({"threads": torch.get_num_threads(), **counts}, indent=2))


if __name__ == "__main__":
    main()
