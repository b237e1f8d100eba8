"""Find the fastest tiles for the product of queries and table on a GPU, and time the parts of a step.

python -m bench.tiles [--out FILE.json]: for the shapes of the published settings, in both fast precisions.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from torch import Tensor
from triton.testing import do_bench

from conjoin.kernels.fused_table import FusedTable, Optimised, RowGroups, Tile
from conjoin.model.padding import pad_rows
from conjoin.runtime.device import matmul_precision
from conjoin.training.steps.fused import grouped

SHAPES = {
    "wn18rr 5star": (1000, 40_943, 1000),
    "fb15k-237 5star": (2000, 14_541, 1000),
    "wn18rr complex": (100, 40_943, 4000),
    "fb15k-237 complex": (100, 14_541, 4000),
}
TILES = [Tile(128, 128, 64, 8, 3), Tile(128, 128, 64, 8, 4), Tile(128, 256, 64, 8, 3), Tile(128, 64, 64, 4, 4)]


def made(
    shape: tuple[int, int, int], dtype: torch.dtype, tile: Tile | None = None
) -> tuple[FusedTable, RowGroups, Tensor]:
    """A table in training, the rows of a batch, and their gradients."""
    questions, entities, width = shape
    table = pad_rows(torch.randn(entities, width, device="cuda") * 0.1)
    weights = Optimised(table, "adagrad", 0.01, (torch.ones_like(table),))
    fused = FusedTable(weights, questions=questions, dtype=dtype, budget=2 << 30, tile=tile)
    fused.refresh()
    fused.queries[:] = torch.randn(questions, width, device="cuda") * 0.1
    fused.q[:questions, :width] = fused.queries
    fused.target[:questions] = 0
    ids = torch.randint(entities, (1, 2 * questions), device="cuda", dtype=torch.int32)
    looked_up = RowGroups(*(part[0].contiguous() for part in grouped(ids, entities)))
    return fused, looked_up, torch.randn(2 * questions, width, device="cuda") * 1e-4


def parts(shape: tuple[int, int, int], dtype: torch.dtype) -> dict[str, Callable[[], object]]:
    """The operations of a step, one at a time and all together."""
    fused, looked_up, gradients = made(shape, dtype)
    weight = torch.full((shape[0],), 1 / shape[0], device="cuda")
    fused.step(weight, looked_up)

    def whole() -> None:
        fused.step(weight, looked_up)
        fused.finish(looked_up, gradients)

    return {
        "exponentials": partial(fused._exponentials, 0, store=True),
        "shares": partial(fused._shares, weight),
        "product": partial(fused._product, 0),
        "update": partial(fused._update, 0),
        "finish": partial(fused.finish, looked_up, gradients),
        "all": whole,
    }


def main() -> None:
    """Print milliseconds of the tiles, then of the parts of a step."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    measure = partial(do_bench, warmup=5, rep=30, return_mode="median")
    found: dict[str, float] = {}
    for name, shape in SHAPES.items():
        for tile in TILES:
            fused, _, _ = made(shape, torch.bfloat16, tile)
            found[f"{name}: {tile}"] = measure(partial(fused._exponentials, 0, store=True))
        for precision, dtype in {"bf16": torch.bfloat16, "tf32": torch.float32}.items():
            with matmul_precision(precision):
                times = {f"{name} {precision} {part}": measure(work) for part, work in parts(shape, dtype).items()}
            found |= times
    for name, milliseconds in found.items():
        print(f"{milliseconds:8.4f} ms  {name}")
    if chosen.out:
        chosen.out.write_text(json.dumps(found, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
