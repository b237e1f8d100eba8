"""Triton kernels of the fused training step. Importing this module needs triton; nothing else does.

Shapes: B questions, N entities of w reals. Operands of products are padded with zeros to whole tiles (Bp, Np, wp), so
no product has a ragged edge; the float32 tables themselves are not padded and are read and written under masks.
"""

# ruff: noqa: PLR0917 (a kernel takes a flat list of pointers and sizes)

from __future__ import annotations

import triton
import triton.language as tl

ADAGRAD, ADAM, SGD = (tl.constexpr(i) for i in range(3))


@triton.jit
def targets(
    q, operand, table, t, score,
    questions, WIDTH: tl.constexpr, TABLE_STRIDE: tl.constexpr, STRIDE: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Queries in the precision of the products, and the score of each question's own answer: s_t = q · E[t].

    The exponent of a softmax may be shifted by any number; shifted by s_t, the loss is the log of the sum. Questions
    that only pad the batch get s_t = inf, so that all their exponentials are 0.
    """
    row = tl.program_id(0)
    real = row < questions
    answer = tl.load(t + row, mask=real, other=0).to(tl.int64)
    total = tl.zeros((COLUMNS,), tl.float32)
    for first in range(0, STRIDE, COLUMNS):
        columns = first + tl.arange(0, COLUMNS)
        inside = columns < WIDTH
        value = tl.load(q + row.to(tl.int64) * WIDTH + columns, mask=inside & real, other=0.0)
        value = value.to(operand.dtype.element_ty)
        tl.store(operand + row.to(tl.int64) * STRIDE + columns, value, mask=columns < STRIDE)
        truth = tl.load(table + answer * TABLE_STRIDE + columns, mask=inside & real, other=0.0)
        total += value.to(tl.float32) * truth.to(tl.float32)
    tl.store(score + row, tl.where(real, tl.sum(total, axis=0), float("inf")))


@triton.jit
def exponentials(
    q, table, score, p, sums, first_entity, entities, p_stride, sums_stride, question_tiles,
    WIDTH: tl.constexpr, Q_STRIDE: tl.constexpr, TABLE_STRIDE: tl.constexpr, PRODUCT: tl.constexpr, STORE: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    """exp(q · E - s_t) of one tile, written once and never read back for a softmax, and the sum of each of its rows.

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
    value = tl.exp(total - tl.load(score + rows)[:, None])
    value = tl.where((first_entity + columns < entities)[None, :], value, 0.0)
    tl.store(sums + rows * sums_stride + first_entity // COLUMNS + column_tile, tl.sum(value, axis=1))
    if STORE:
        tl.store(place, value.to(p.dtype.element_ty))


@triton.jit
def shares(
    q, sums, weight, share, nll, factor,
    questions, WIDTH: tl.constexpr, TILES: tl.constexpr, STRIDE: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Z = the sum of the exponentials, nll = log Z, factor = weight / Z, and the query times factor as an operand."""
    row = tl.program_id(0)
    real = row < questions
    total = tl.zeros((COLUMNS,), tl.float32)
    for first in range(0, TILES, COLUMNS):
        at = first + tl.arange(0, COLUMNS)
        total += tl.load(sums + row * TILES + at, mask=at < TILES, other=0.0)
    z = tl.where(real, tl.sum(total, axis=0), 1.0)
    part = tl.load(weight + row, mask=real, other=0.0) / z
    tl.store(nll + row, tl.log(z), mask=real)
    tl.store(factor + row, part, mask=real)
    for first in range(0, STRIDE, COLUMNS):
        columns = first + tl.arange(0, COLUMNS)
        value = tl.load(q + row.to(tl.int64) * WIDTH + columns, mask=(columns < WIDTH) & real, other=0.0) * part
        at = share + row.to(tl.int64) * STRIDE + columns
        tl.store(at, value.to(share.dtype.element_ty), mask=columns < STRIDE)


@triton.jit
def _optimise(
    gradient, table, first, second, shadow, at, shadow_at, mask, lr, clock, RULE: tl.constexpr, SHADOW: tl.constexpr,
):  # fmt: skip
    """One optimiser's rule on a block: torch.optim's formulas with their defaults, no weight decay."""
    value = tl.load(table + at, mask=mask, other=0.0)
    if RULE == ADAGRAD:
        squares = tl.load(first + at, mask=mask, other=0.0) + gradient * gradient
        tl.store(first + at, squares, mask=mask)
        value -= lr * gradient / (tl.sqrt(squares) + 1e-10)
    elif RULE == ADAM:
        steps = tl.load(clock)
        mean = tl.load(first + at, mask=mask, other=0.0)
        mean += (gradient - mean) * (1 - 0.9)
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
    p, share, gradient, table, first, second, shadow, slot, stash, clock, lr,
    first_entity, entities, p_stride,
    WIDTH: tl.constexpr, SHADOW_STRIDE: tl.constexpr, SHARE_STRIDE: tl.constexpr, QUESTIONS: tl.constexpr,
    PRECISION: tl.constexpr, PRODUCT: tl.constexpr, RULE: tl.constexpr, SHADOW: tl.constexpr, STASH: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    """Gradient of one tile of the table and the optimiser's step on it, before it leaves the chip.

    With PRODUCT the gradient is pᵀ · share, else it is read. Rows that the batch also looks up (slot ≥ 0) are not
    finished: their gradient goes to the stash, and `rows` completes it.
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
    if PRODUCT:
        k = tl.arange(0, DEPTH)
        p_at = p + top + k.to(tl.int64)[:, None] * p_stride + local[None, :]
        share_at = share + k[:, None] * SHARE_STRIDE + columns[None, :]
        total = tl.zeros((ROWS, COLUMNS), tl.float32)
        for _ in range(0, QUESTIONS, DEPTH):
            total = tl.dot(tl.trans(tl.load(p_at)), tl.load(share_at), total, input_precision=PRECISION)
            p_at += DEPTH * p_stride
            share_at += DEPTH * SHARE_STRIDE
    else:
        total = tl.load(gradient + top.to(tl.int64) * WIDTH + at, mask=mask, other=0.0)
    if STASH:
        place = tl.load(slot + base + local, mask=real, other=-1)
        looked_up = (place >= 0)[:, None]
        tl.store(stash + place[:, None] * WIDTH + columns[None, :], total, mask=mask & looked_up)
        mask = mask & (place < 0)[:, None]
    start = base * WIDTH
    shadow_at = local[:, None] * SHADOW_STRIDE + columns[None, :]
    _optimise(
        total, table + start, first + start, second + start, shadow + base * SHADOW_STRIDE, at, shadow_at, mask,
        lr, clock, RULE, SHADOW,
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
    ids, order, source, table, first, second, shadow, slot, stash, gradient, clock, lr, count,
    WIDTH: tl.constexpr, SHADOW_STRIDE: tl.constexpr,
    STASH: tl.constexpr, RULE: tl.constexpr, SHADOW: tl.constexpr, COLLECT: tl.constexpr,
    GROUP: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Sum the gradients of one looked-up row in the order of the sorted list, add the stash, and optimise the row.

    One program serves one distinct id. With COLLECT the sum is only written down, in `gradient`.
    """
    start = tl.program_id(0)
    here = tl.load(ids + start)
    before = tl.load(ids + start - 1, mask=start > 0, other=-1)
    if here != before:
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
            _optimise(
                total, table + base, first + base, second + base, shadow + here.to(tl.int64) * SHADOW_STRIDE,
                columns, columns, inside, lr, clock, RULE, SHADOW,
            )  # fmt: skip
