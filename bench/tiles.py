"""How a GPU best cuts the two fused products into tiles, and what each part of a step takes: python bench/tiles.py

For the shapes of the published settings. What is printed first in each list is what `Tiles.measured` should say.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import torch
from triton.testing import do_bench

from conjoin.model.fused.engine import FusedTable, Optimised, Tile, Tiles
from conjoin.model.rows import with_room

SHAPES = {"wn18rr 5star": (1000, 40_943, 1000), "fb15k-237 5star": (2000, 14_541, 1000),
          "wn18rr complex": (100, 40_943, 4000), "fb15k-237 complex": (100, 14_541, 4000)}  # fmt: skip


CANDIDATES = {
    "scores": [(128, 128, 64, 8, 4), (128, 64, 64, 4, 4)],
    "update": [None, (64, 64, 64, 8, 2), (64, 64, 128, 8, 1), (64, 128, 64, 8, 2), (64, 32, 64, 4, 2), (32, 64, 64, 4, 2),
               (32, 128, 64, 4, 2), (32, 128, 64, 8, 2), (32, 256, 64, 8, 2), (16, 256, 64, 4, 2), (16, 256, 64, 8, 2),
               (16, 512, 64, 8, 2), (32, 256, 32, 8, 2), (16, 128, 64, 4, 2)],
}  # fmt: skip


def made(
    shape: tuple[int, int, int], tiles: Tiles, precision: torch.dtype
) -> tuple[FusedTable, tuple[torch.Tensor, ...]]:
    """A table in training and one batch for it."""
    questions, entities, width = shape
    table = with_room(torch.randn(entities, width, device="cuda") * 0.1)
    weights = Optimised(table, "adagrad", 0.01, {"sum": torch.ones_like(table)})
    fused = FusedTable(weights, questions=questions, dtype=precision, budget=2 << 30, tiles=tiles)
    fused.refresh()
    fused.queries[:] = torch.randn(questions, width, device="cuda") * 0.1
    fused.q[:questions, :width] = fused.queries
    fused.target[:questions] = 0
    ids, order = torch.sort(torch.randint(entities, (2 * questions,), device="cuda", dtype=torch.int32))
    gradients = torch.randn(2 * questions, width, device="cuda") * 1e-4
    return fused, (torch.full((questions,), 1 / questions, device="cuda"), ids, order.int(), gradients)


def main() -> None:
    """Every tile for every shape, then the parts of a step."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--search", action="store_true", help="try all tiles, not only the chosen ones")
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    found = {}
    for name, shape in SHAPES.items():
        tiles = Tiles.measured(shape[0])
        if chosen.search and shape[0] == 100:
            for part in ("scores", "update"):
                times = []
                for numbers in CANDIDATES[part]:
                    tile = Tile(*numbers) if numbers else None
                    tried = replace(tiles, **{part: tile})
                    try:
                        fused, (weight, ids, order, gradients) = made(shape, tried, torch.bfloat16)
                        work = (
                            (lambda f=fused: f._exponentials(0, store=True))
                            if part == "scores"
                            else (lambda f=fused: f._update(0))
                        )
                        times.append((do_bench(work, warmup=5, rep=20, return_mode="median"), tile))
                    except Exception as error:
                        print(part, tile, type(error).__name__, str(error)[:80])
                times.sort(key=lambda pair: pair[0])
                for seconds, tile in times:
                    print(f"{name} {part}: {seconds:.4f} ms {tile}", flush=True)
                found[f"{name} {part}"] = [(seconds, tile and asdict(tile)) for seconds, tile in times]
                tiles = replace(tiles, **{part: times[0][1]})
        for precision in (torch.bfloat16, torch.float32):
            fused, (weight, ids, order, gradients) = made(shape, tiles, precision)
            fused.step(weight, ids)
            parts: dict[str, Callable[[], object]] = {
                "exponentials": lambda: fused._exponentials(0, store=True),
                "shares": lambda: fused._shares(weight), "dq": lambda: fused._product(0), "update": lambda: fused._update(0),
                "finish": lambda: fused.finish(ids, order, gradients),
                "step": lambda: (fused.step(weight, ids), fused.finish(ids, order, gradients)),
            }  # fmt: skip
            torch.backends.cuda.matmul.allow_tf32 = True
            for part, work in parts.items():
                seconds = do_bench(work, warmup=5, rep=30, return_mode="median")
                found[f"{name} {precision} {part}"] = seconds
                print(f"{name} {precision} {part}: {seconds:.4f} ms", flush=True)
    if chosen.out:
        chosen.out.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
