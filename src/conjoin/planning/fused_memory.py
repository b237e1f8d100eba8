"""The memory of the fused step of a GPU (`kernels/fused_table.py`, `training/steps/fused.py`), as arithmetic on sizes.

The same lines as there, without triton and without a GPU;
`tests/planning/test_fused_memory.py` compares the two.
"""

from __future__ import annotations

from dataclasses import dataclass

REAL, HALF, INDEX = 4, 2, 4
ROWS, DEPTH = 128, 64
"""Queries and coordinates are padded to multiples of these (`conjoin.kernels.fused_table.Tile.measured`)."""


@dataclass(frozen=True)
class FusedBytes:
    """Bytes that stay allocated between steps, and bytes that a step allocates and frees."""

    copy: int
    exponentials: int
    buffers: int
    gradient: int
    product: int


def fused_bytes(
    entities: int, width: int, batch: int, *, relation_width: int, precision: str, budget: int
) -> FusedBytes:
    """Of a table (entities, width) whose relations have rows of `relation_width` numbers."""
    grain = _grain(batch)
    size = HALF if precision == "bf16" else REAL
    rows, columns, length = _up(batch, ROWS), _up(width, DEPTH), _up(entities, grain)
    chunk = min(length, max(grain, budget // (max(rows, width) * size) // grain * grain))
    sums = REAL * rows * -(-entities // grain)
    of_questions = 2 * size * rows * columns + REAL * (3 * batch + rows)
    of_rows = REAL * batch * (width + 2 * width + 2 * width + relation_width)
    return FusedBytes(
        copy=size * length * columns if precision == "bf16" else 0,
        exponentials=size * rows * chunk + sums,
        buffers=of_questions + of_rows + INDEX * entities,
        gradient=size * chunk * width,
        product=REAL * rows * columns * (2 if chunk < entities else 1),
    )


def input_bytes(questions: int, *, entities: int, relations: int, batch: int) -> int:
    """The inputs of recorded steps, all integers: queries, weights and two row groups (`FusedStep.batches`)."""
    of_entities = 4 * batch + min(2 * batch, entities)
    of_relations = 2 * batch + min(batch, 2 * relations)
    return -(-questions // batch) * INDEX * (4 * batch + of_entities + of_relations)


def _grain(batch: int) -> int:
    return 128 if batch > 128 else 64


def _up(size: int, grain: int) -> int:
    return -(-size // grain) * grain
