"""Triton kernels of the fused training step. Importing this module needs triton; nothing else does.

Shapes: B questions, N entities of w reals. Operands of products are padded with zeros to whole tiles (Bp, Np, wp), so
no product has a ragged edge; the float32 tables themselves are not padded and are read and written under masks.
"""

# ruff: noqa: PLR0917 (a kernel takes a flat list of pointers and sizes)

from __future__ import annotations

import triton
import triton.language as tl

ADAGRAD, ADAM, SGD = (tl.constexpr(i) for i in range(3))
HIGHEST = tl.constexpr(64.0)  # exp(64) of a hundred million entities still have a sum in float32


@triton.jit
def exponentials(
    q, table, score, p, sums, first_entity, entities, p_stride, sums_stride, question_tiles,
    WIDTH: tl.constexpr, Q_STRIDE: tl.constexpr, TABLE_STRIDE: tl.constexpr, PRODUCT: tl.constexpr, STORE: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    """exp(q · E - s_t) of one tile, written once and never read back for a softmax, and the sum of each of its rows.

    A score more than HIGHEST above the answer's counts as HIGHEST above it, so that no sum overflows.
    Without PRODUCT the scores q · E stand in p already.
    """
    tile = tl.program_id(0)
    rows = (tile % question_tiles) * ROWS + tl.arange(0, ROWS)
    column_tile = tile // question_tiles
    columns = column_tile * COLUMNS + tl.arange(0, COLUMNS)
    place = p + rows.to(tl.int64)[:, None] * p_stride + columns[None, :]
    if PRODUCT:
        depth = tl.arange(0, DEPTH)
        q_at = q + rows[:, None] * Q_STRIDE + depth[None, :]
        table_at = table + (first_entity + columns).to(tl.int64)[:, None] * TABLE_STRIDE + depth[None, :]
        total = tl.zeros((ROWS, COLUMNS), tl.float32)
        for _ in range(0, WIDTH, DEPTH):
            total = tl.dot(tl.load(q_at), tl.trans(tl.load(table_at)), total)
            q_at += DEPTH
            table_at += DEPTH
    else:
        total = tl.load(place)
    above = total - tl.load(score + rows)[:, None]
    value = tl.exp(tl.where(above > HIGHEST, HIGHEST, above))
    value = tl.where((first_entity + columns < entities)[None, :], value, 0.0)
    tl.store(sums + rows.to(tl.int64) * sums_stride + first_entity // COLUMNS + column_tile, tl.sum(value, axis=1))
    if STORE:
        tl.store(place, value.to(p.dtype.element_ty))


@triton.jit
def shares(
    q, sums, weight, share, nll, factor,
    WIDTH: tl.constexpr, TILES: tl.constexpr, STRIDE: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Z = the sum of the exponentials, nll = log Z, factor = weight / Z, and the query times factor as an operand."""
    row = tl.program_id(0)
    total = tl.zeros((COLUMNS,), tl.float32)
    for first in range(0, TILES, COLUMNS):
        at = first + tl.arange(0, COLUMNS)
        total += tl.load(sums + row.to(tl.int64) * TILES + at, mask=at < TILES, other=0.0)
    z = tl.sum(total, axis=0)
    part = tl.load(weight + row) / z
    tl.store(nll + row, tl.log(z))
    tl.store(factor + row, part)
    for first in range(0, STRIDE, COLUMNS):
        columns = first + tl.arange(0, COLUMNS)
        value = tl.load(q + row.to(tl.int64) * WIDTH + columns, mask=columns < WIDTH, other=0.0) * part
        at = share + row.to(tl.int64) * STRIDE + columns
        tl.store(at, value.to(share.dtype.element_ty), mask=columns < WIDTH)


@triton.jit
def _optimise(
    gradient, value, memory, table, first, second, shadow, at, shadow_at, mask, lr, clock,
    RULE: tl.constexpr, SHADOW: tl.constexpr,
):  # fmt: skip
    """One optimiser's rule on a block whose value and first state are loaded: torch.optim's formulas and defaults."""
    if RULE == ADAGRAD:
        squares = memory + gradient * gradient
        tl.store(first + at, squares, mask=mask)
        value -= lr * gradient / (tl.sqrt(squares) + 1e-10)
    elif RULE == ADAM:
        steps = tl.load(clock)
        mean = memory + (gradient - memory) * (1 - 0.9)
        squares = tl.load(second + at, mask=mask, other=0.0) * 0.999 + gradient * gradient * (1 - 0.999)
        tl.store(first + at, mean, mask=mask)
        tl.store(second + at, squares, mask=mask)
        rate = lr / (1 - tl.exp2(steps * -0.15200309344504995))
        value -= rate * mean / (tl.sqrt(squares) / tl.sqrt(1 - tl.exp2(steps * -0.0014434168696687186)) + 1e-8)
    else:
        value -= lr * gradient
    tl.store(table + at, value, mask=mask)
    if SHADOW:
        tl.store(shadow + shadow_at, value.to(shadow.dtype.element_ty), mask=mask)


@triton.jit
def update(
    gradient, table, first, second, shadow, slot, stash, clock, lr, first_entity, entities,
    WIDTH: tl.constexpr, SHADOW_STRIDE: tl.constexpr, RULE: tl.constexpr, SHADOW: tl.constexpr, STASH: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """The optimiser's step on one tile of the table, by a chunk of its gradient.

    Rows that the batch also looks up (slot ≥ 0) are not finished: their gradient goes to the stash, and `rows`
    completes it.
    """
    tile = tl.program_id(0)
    column_tiles: tl.constexpr = (WIDTH + COLUMNS - 1) // COLUMNS
    top = (tile // column_tiles) * ROWS
    local = tl.arange(0, ROWS)
    columns = (tile % column_tiles) * COLUMNS + tl.arange(0, COLUMNS)
    base = (first_entity + top).to(tl.int64)
    real = first_entity + top + local < entities
    mask = real[:, None] & (columns < WIDTH)[None, :]
    at = local[:, None] * WIDTH + columns[None, :]
    start = base * WIDTH
    total = tl.load(gradient + top.to(tl.int64) * WIDTH + at, mask=mask, other=0.0).to(tl.float32)
    value = tl.load(table + start + at, mask=mask, other=0.0)
    memory = value if RULE == SGD else tl.load(first + start + at, mask=mask, other=0.0)
    if STASH:
        place = tl.load(slot + base + local, mask=real, other=-1)
        looked_up = (place >= 0)[:, None]
        tl.store(stash + place[:, None] * WIDTH + columns[None, :], total, mask=mask & looked_up)
        mask = mask & (place < 0)[:, None]
    shadow_at = local[:, None] * SHADOW_STRIDE + columns[None, :]
    _optimise(
        total, value, memory, table + start, first + start, second + start, shadow + base * SHADOW_STRIDE,
        at, shadow_at, mask, lr, clock, RULE, SHADOW,
    )  # fmt: skip


@triton.jit
def mark(ids, slot, count, BLOCK: tl.constexpr):
    """slot[id] = where the first of equal ids stands in the sorted list."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    here = tl.load(ids + at, mask=at < count, other=-1)
    before = tl.load(ids + at - 1, mask=(at > 0) & (at < count), other=-1)
    tl.store(slot + here, at, mask=(at < count) & (here != before))


@triton.jit
def rows(
    ids, order, starts, source, table, first, second, shadow, slot, stash, gradient, clock, lr, count,
    WIDTH: tl.constexpr, SHADOW_STRIDE: tl.constexpr,
    STASH: tl.constexpr, RULE: tl.constexpr, SHADOW: tl.constexpr, COLLECT: tl.constexpr,
    GROUP: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Sum the gradients of one looked-up row in the order of the sorted list, add the stash, and optimise the row.

    One program serves one distinct id; `starts` says where each begins in the list, and count where there is none.
    With COLLECT the sum is only written down, in `gradient`.
    """
    start = tl.load(starts + tl.program_id(0))
    if start < count:
        here = tl.load(ids + start)
        columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
        inside = columns < WIDTH
        if STASH:
            total = tl.load(stash + start * WIDTH + columns, mask=inside, other=0.0)
            tl.store(slot + here, -1)
        else:
            total = tl.zeros((COLUMNS,), tl.float32)
        position = start
        more = True
        while more:
            members = position + tl.arange(0, GROUP)
            same = tl.load(ids + members, mask=members < count, other=-1) == here
            which = tl.load(order + members, mask=same, other=0)
            at = which[:, None] * WIDTH + columns[None, :]
            total += tl.sum(tl.load(source + at, mask=same[:, None] & inside[None, :], other=0.0), axis=0)
            position += GROUP
            more = tl.load(ids + position, mask=position < count, other=-1) == here
        base = here.to(tl.int64) * WIDTH
        if COLLECT:
            tl.store(gradient + base + columns, total, mask=inside)
        else:
            value = tl.load(table + base + columns, mask=inside, other=0.0)
            memory = value if RULE == SGD else tl.load(first + base + columns, mask=inside, other=0.0)
            _optimise(
                total, value, memory, table + base, first + base, second + base,
                shadow + here.to(tl.int64) * SHADOW_STRIDE, columns, columns, inside, lr, clock, RULE, SHADOW,
            )  # fmt: skip
