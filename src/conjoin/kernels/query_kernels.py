"""Triton kernels for the queries of a batch and their gradients, one pass each.

The formulas equal forms/, computed per coordinate with the slots in registers. A tied slot is the stored slot
read with other signs, so it needs no memory. ComplEx is the pair form whose block is diagonal.
"""

# ruff: noqa: PLR0915, PLR0917 (kernels take flat lists of pointers and cannot be split)

from __future__ import annotations

import triton
import triton.language as tl

FIVE_STAR, PAIR = tl.constexpr(0), tl.constexpr(1)
PHASE, ALIGNED, MOBIUS = (tl.constexpr(i) for i in range(3))
DENOMINATOR = tl.constexpr(1e-3)
TINY = tl.constexpr(1e-30)


@triton.jit
def _times(a_re, a_im, b_re, b_im):
    return a_re * b_re - a_im * b_im, a_re * b_im + a_im * b_re


@triton.jit
def _cost(squared, n3, f2):
    return n3 * squared * tl.sqrt(squared) + f2 * squared


@triton.jit
def _slope(squared, n3, f2):
    """The derivative of the cost of |z|², doubled: what to multiply z with."""
    return 3 * n3 * tl.sqrt(squared) + 2 * f2


@triton.jit
def _slot(row, at, mask, CODE: tl.constexpr, UNIT: tl.constexpr, STORED: tl.constexpr, SHIFTED: tl.constexpr):
    """A slot from the stored numbers. CODE = 4 · stored slot + 2 if conjugated + 1 if negated; negative for zero."""
    if CODE < 0:
        re = tl.zeros_like(at).to(tl.float32)
        im = re
    else:
        re = tl.load(row + (CODE // 4) * UNIT + at, mask=mask, other=0.0)
        im = tl.load(row + (STORED + CODE // 4) * UNIT + at, mask=mask, other=0.0)
        if (SHIFTED >> (CODE // 4)) % 2 == 1:
            re += 1.0
        if CODE % 2 == 1:
            re = -re
        if (CODE // 2 + CODE) % 2 == 1:
            im = -im
    return re, im


@triton.jit
def _collect(re, im, d_re, d_im, STORED_SLOT: tl.constexpr, CODE: tl.constexpr):
    """The gradient of a stored slot, with the part that one derived slot hands down."""
    if CODE >= 0 and CODE // 4 == STORED_SLOT:
        re += -d_re if CODE % 2 == 1 else d_re
        im += -d_im if (CODE // 2 + CODE) % 2 == 1 else d_im
    return re, im


@triton.jit
def _norm(a_re, a_im, b_re, b_im, c_re, c_im, d_re, d_im):
    total = a_re * a_re + a_im * a_im + b_re * b_re + b_im * b_im
    return tl.sqrt(total + c_re * c_re + c_im * c_im + d_re * d_re + d_im * d_im + TINY)


@triton.jit
def _quotient(top_re, top_im, down_re, down_im, QUOTIENT: tl.constexpr):
    squared = down_re * down_re + down_im * down_im
    if QUOTIENT == PHASE:
        re, im = _times(top_re, -top_im, down_re, down_im)
    else:
        re, im = _times(top_re, top_im, down_re, -down_im)
    factor = 1 / (squared + DENOMINATOR) if QUOTIENT == MOBIUS else 1 / tl.sqrt(squared + TINY)
    return re * factor, im * factor


@triton.jit
def _relation_squared(
    a_re, a_im, b_re, b_im, c_re, c_im, d_re, d_im,
    QUOTIENT: tl.constexpr, HALF: tl.constexpr, FREE: tl.constexpr,
):  # fmt: skip
    """m² of a five-star relation. FREE says for a mobius form which of b and c are stored: 1, 2 or both."""
    if HALF:
        return 4 * (a_re * a_re + b_re * b_re + c_re * c_re + d_re * d_re)
    b_squared = b_re * b_re + b_im * b_im
    c_squared = c_re * c_re + c_im * c_im
    if QUOTIENT == MOBIUS:
        return b_squared * (FREE % 2) + c_squared * (FREE // 2)
    return a_re * a_re + a_im * a_im + b_squared + c_squared + d_re * d_re + d_im * d_im


@triton.jit
def forward(
    entities, relations, operand_table, h, r, t, q, operand, score, penalty, n3, f2,
    RANK: tl.constexpr, UNIT: tl.constexpr, STORED: tl.constexpr,
    A: tl.constexpr, B: tl.constexpr, C: tl.constexpr, D: tl.constexpr, SHIFTED: tl.constexpr,
    FAMILY: tl.constexpr, QUOTIENT: tl.constexpr, HALF: tl.constexpr, FREE: tl.constexpr, NORMED: tl.constexpr,
    HEAD_IM: tl.constexpr, HEAD_SECOND: tl.constexpr, STRIDE: tl.constexpr, TABLE_STRIDE: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Queries (B, w), the same as operands of products, the answers' scores s_t = q · E[t], and the penalties."""
    question = tl.program_id(0).to(tl.int64)
    head = entities + tl.load(h + question).to(tl.int64) * (2 * RANK)
    answer = tl.load(t + question).to(tl.int64)
    tail = entities + answer * (2 * RANK)
    tail_operand = operand_table + answer * TABLE_STRIDE
    relation = relations + tl.load(r + question).to(tl.int64) * (2 * STORED * UNIT)
    place, operand_place = q + question * (2 * RANK), operand + question * STRIDE
    scores = tl.zeros((BLOCK,), tl.float32)
    costs = tl.zeros((BLOCK,), tl.float32)
    for first in range(0, UNIT, BLOCK):
        at = first + tl.arange(0, BLOCK)
        mask = at < UNIT
        a_re, a_im = _slot(relation, at, mask, A, UNIT, STORED, SHIFTED)
        b_re, b_im = _slot(relation, at, mask, B, UNIT, STORED, SHIFTED)
        c_re, c_im = _slot(relation, at, mask, C, UNIT, STORED, SHIFTED)
        d_re, d_im = _slot(relation, at, mask, D, UNIT, STORED, SHIFTED)
        if NORMED:
            scale = 1.4142135623730951 / _norm(a_re, a_im, b_re, b_im, c_re, c_im, d_re, d_im)
            a_re, a_im, b_re, b_im = a_re * scale, a_im * scale, b_re * scale, b_im * scale
            c_re, c_im, d_re, d_im = c_re * scale, c_im * scale, d_re * scale, d_im * scale
        h_re = tl.load(head + at, mask=mask, other=0.0)
        h_im = tl.load(head + HEAD_IM + at, mask=mask, other=0.0)
        t_re = tl.load(tail + at, mask=mask, other=0.0)
        t_im = tl.load(tail + RANK + at, mask=mask, other=0.0)
        costs += tl.where(
            mask, _cost(h_re * h_re + h_im * h_im, n3, f2) + _cost(t_re * t_re + t_im * t_im, n3, f2), 0.0
        )
        ah_re, ah_im = _times(a_re, a_im, h_re, h_im)
        ch_re, ch_im = _times(c_re, c_im, h_re, h_im)
        if FAMILY == PAIR:
            g_re = tl.load(head + HEAD_SECOND + at, mask=mask, other=0.0)
            g_im = tl.load(head + HEAD_SECOND + HEAD_IM + at, mask=mask, other=0.0)
            u_re = tl.load(tail + UNIT + at, mask=mask, other=0.0)
            u_im = tl.load(tail + UNIT + RANK + at, mask=mask, other=0.0)
            more = _cost(g_re * g_re + g_im * g_im, n3, f2) + _cost(u_re * u_re + u_im * u_im, n3, f2)
            more += _cost(a_re * a_re + a_im * a_im + b_re * b_re + b_im * b_im, n3, f2)
            more += _cost(c_re * c_re + c_im * c_im + d_re * d_re + d_im * d_im, n3, f2)
            costs += tl.where(mask, more, 0.0)
            bg_re, bg_im = _times(b_re, b_im, g_re, g_im)
            dg_re, dg_im = _times(d_re, d_im, g_re, g_im)
            scores += _answer(place, operand_place, tail_operand, at, mask, ah_re + bg_re, ah_im + bg_im, RANK)
            scores += _answer(place, operand_place, tail_operand, UNIT + at, mask, ch_re + dg_re, ch_im + dg_im, RANK)
        else:
            squared = _relation_squared(a_re, a_im, b_re, b_im, c_re, c_im, d_re, d_im, QUOTIENT, HALF, FREE)
            costs += tl.where(mask, _cost(squared, n3, f2), 0.0)
            q_re, q_im = _quotient(ah_re + b_re, ah_im + b_im, ch_re + d_re, ch_im + d_im, QUOTIENT)
            scores += _answer(place, operand_place, tail_operand, at, mask, q_re, q_im, RANK)
    tl.store(score + question, tl.sum(scores, axis=0))
    tl.store(penalty + question, tl.sum(costs, axis=0))


@triton.jit
def _answer(place, operand, tail_operand, at, mask, re, im, RANK: tl.constexpr):
    """Write one block of a query, and return what it adds to the answer's score in the products' precision."""
    tl.store(place + at, re, mask=mask)
    tl.store(place + RANK + at, im, mask=mask)
    rounded_re, rounded_im = re.to(operand.dtype.element_ty), im.to(operand.dtype.element_ty)
    tl.store(operand + at, rounded_re, mask=mask)
    tl.store(operand + RANK + at, rounded_im, mask=mask)
    truth_re = tl.load(tail_operand + at, mask=mask, other=0.0).to(tl.float32)
    truth_im = tl.load(tail_operand + RANK + at, mask=mask, other=0.0).to(tl.float32)
    part = rounded_re.to(tl.float32) * truth_re + rounded_im.to(tl.float32) * truth_im
    return tl.where(mask, part, 0.0)


@triton.jit
def _query_gradient(product, tail, at, mask, factor, weight, RANK: tl.constexpr):
    """A block of an answer's row and of the gradient of the loss with respect to the query."""
    t_re = tl.load(tail + at, mask=mask, other=0.0)
    t_im = tl.load(tail + RANK + at, mask=mask, other=0.0)
    g_re = factor * tl.load(product + at, mask=mask, other=0.0) - weight * t_re
    g_im = factor * tl.load(product + RANK + at, mask=mask, other=0.0) - weight * t_im
    return t_re, t_im, g_re, g_im


@triton.jit
def _give_tail(place, at, mask, t_re, t_im, q_re, q_im, n3, f2, weight, RANK: tl.constexpr):
    slope = _slope(t_re * t_re + t_im * t_im, n3, f2)
    tl.store(place + at, weight * (slope * t_re - q_re), mask=mask)
    tl.store(place + RANK + at, weight * (slope * t_im - q_im), mask=mask)


@triton.jit
def _give_head(place, at, mask, re, im, d_re, d_im, n3, f2, weight, HEAD_IM: tl.constexpr):
    slope = weight * _slope(re * re + im * im, n3, f2)
    tl.store(place + at, d_re + slope * re, mask=mask)
    tl.store(place + HEAD_IM + at, d_im + slope * im, mask=mask)


@triton.jit
def backward(
    entities, relations, h, r, t, product, factor, weight, rows, relation_rows, questions, product_stride, n3, f2,
    RANK: tl.constexpr, UNIT: tl.constexpr, STORED: tl.constexpr,
    A: tl.constexpr, B: tl.constexpr, C: tl.constexpr, D: tl.constexpr, SHIFTED: tl.constexpr,
    FAMILY: tl.constexpr, QUOTIENT: tl.constexpr, HALF: tl.constexpr, FREE: tl.constexpr, NORMED: tl.constexpr,
    HEAD_IM: tl.constexpr, HEAD_SECOND: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Gradients of the rows that were looked up: heads, then answers (2B, w), and relations (B, reals).

    The loss is Σ weight · (nll + penalty). `product` holds the exponentials times the table, `factor` scales it to the
    softmax's part of the gradient.
    """
    question = tl.program_id(0).to(tl.int64)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = at < UNIT
    part, share = tl.load(factor + question), tl.load(weight + question)
    head = entities + tl.load(h + question).to(tl.int64) * (2 * RANK)
    tail = entities + tl.load(t + question).to(tl.int64) * (2 * RANK)
    relation = relations + tl.load(r + question).to(tl.int64) * (2 * STORED * UNIT)
    product += question * product_stride
    head_place = rows + question * (2 * RANK)
    tail_place = rows + (questions + question) * (2 * RANK)
    a_re, a_im = _slot(relation, at, mask, A, UNIT, STORED, SHIFTED)
    b_re, b_im = _slot(relation, at, mask, B, UNIT, STORED, SHIFTED)
    c_re, c_im = _slot(relation, at, mask, C, UNIT, STORED, SHIFTED)
    d_re, d_im = _slot(relation, at, mask, D, UNIT, STORED, SHIFTED)
    norm = _norm(a_re, a_im, b_re, b_im, c_re, c_im, d_re, d_im)
    scale = 1.4142135623730951 / norm
    if NORMED:
        a_re, a_im, b_re, b_im = a_re * scale, a_im * scale, b_re * scale, b_im * scale
        c_re, c_im, d_re, d_im = c_re * scale, c_im * scale, d_re * scale, d_im * scale
    h_re = tl.load(head + at, mask=mask, other=0.0)
    h_im = tl.load(head + HEAD_IM + at, mask=mask, other=0.0)
    t_re, t_im, x_re, x_im = _query_gradient(product, tail, at, mask, part, share, RANK)
    ah_re, ah_im = _times(a_re, a_im, h_re, h_im)
    ch_re, ch_im = _times(c_re, c_im, h_re, h_im)
    if FAMILY == PAIR:
        g_re = tl.load(head + HEAD_SECOND + at, mask=mask, other=0.0)
        g_im = tl.load(head + HEAD_SECOND + HEAD_IM + at, mask=mask, other=0.0)
        u_re, u_im, y_re, y_im = _query_gradient(product, tail, UNIT + at, mask, part, share, RANK)
        bg_re, bg_im = _times(b_re, b_im, g_re, g_im)
        dg_re, dg_im = _times(d_re, d_im, g_re, g_im)
        _give_tail(tail_place, at, mask, t_re, t_im, ah_re + bg_re, ah_im + bg_im, n3, f2, share, RANK)
        _give_tail(tail_place, UNIT + at, mask, u_re, u_im, ch_re + dg_re, ch_im + dg_im, n3, f2, share, RANK)
        first_slope = share * _slope(a_re * a_re + a_im * a_im + b_re * b_re + b_im * b_im, n3, f2)
        second_slope = share * _slope(c_re * c_re + c_im * c_im + d_re * d_re + d_im * d_im, n3, f2)
        da_re, da_im = _times(x_re, x_im, h_re, -h_im)
        db_re, db_im = _times(x_re, x_im, g_re, -g_im)
        dc_re, dc_im = _times(y_re, y_im, h_re, -h_im)
        dd_re, dd_im = _times(y_re, y_im, g_re, -g_im)
        da_re, da_im = da_re + first_slope * a_re, da_im + first_slope * a_im
        db_re, db_im = db_re + first_slope * b_re, db_im + first_slope * b_im
        dc_re, dc_im = dc_re + second_slope * c_re, dc_im + second_slope * c_im
        dd_re, dd_im = dd_re + second_slope * d_re, dd_im + second_slope * d_im
        xa_re, xa_im = _times(x_re, x_im, a_re, -a_im)
        yc_re, yc_im = _times(y_re, y_im, c_re, -c_im)
        xb_re, xb_im = _times(x_re, x_im, b_re, -b_im)
        yd_re, yd_im = _times(y_re, y_im, d_re, -d_im)
        _give_head(head_place, at, mask, h_re, h_im, xa_re + yc_re, xa_im + yc_im, n3, f2, share, HEAD_IM)
        second_place = head_place + HEAD_SECOND
        _give_head(second_place, at, mask, g_re, g_im, xb_re + yd_re, xb_im + yd_im, n3, f2, share, HEAD_IM)
    else:
        top_re, top_im, down_re, down_im = ah_re + b_re, ah_im + b_im, ch_re + d_re, ch_im + d_im
        q_re, q_im = _quotient(top_re, top_im, down_re, down_im, QUOTIENT)
        _give_tail(tail_place, at, mask, t_re, t_im, q_re, q_im, n3, f2, share, RANK)
        squared = down_re * down_re + down_im * down_im
        if QUOTIENT == MOBIUS:
            inverse = 1 / (squared + DENOMINATOR)
            db_re, db_im = _times(x_re * inverse, x_im * inverse, down_re, down_im)
            dd_re, dd_im = _times(x_re * inverse, -x_im * inverse, top_re, top_im)
            pull = 2 * inverse * (x_re * q_re + x_im * q_im)
        else:
            inverse = 1 / tl.sqrt(squared + TINY)
            if QUOTIENT == PHASE:
                db_re, db_im = _times(x_re * inverse, -x_im * inverse, down_re, down_im)
                dd_re, dd_im = _times(x_re * inverse, x_im * inverse, top_re, top_im)
            else:
                db_re, db_im = _times(x_re * inverse, x_im * inverse, down_re, down_im)
                dd_re, dd_im = _times(x_re * inverse, -x_im * inverse, top_re, top_im)
            pull = inverse * inverse * (dd_re * down_re + dd_im * down_im)
        dd_re, dd_im = dd_re - pull * down_re, dd_im - pull * down_im
        da_re, da_im = _times(db_re, db_im, h_re, -h_im)
        dc_re, dc_im = _times(dd_re, dd_im, h_re, -h_im)
        ba_re, ba_im = _times(db_re, db_im, a_re, -a_im)
        dc2_re, dc2_im = _times(dd_re, dd_im, c_re, -c_im)
        _give_head(head_place, at, mask, h_re, h_im, ba_re + dc2_re, ba_im + dc2_im, n3, f2, share, HEAD_IM)
        relation_squared = _relation_squared(a_re, a_im, b_re, b_im, c_re, c_im, d_re, d_im, QUOTIENT, HALF, FREE)
        slope = share * _slope(relation_squared, n3, f2)
        if HALF:
            da_re, db_re = da_re + 4 * slope * a_re, db_re + 4 * slope * b_re
            dc_re, dd_re = dc_re + 4 * slope * c_re, dd_re + 4 * slope * d_re
        elif QUOTIENT == MOBIUS:
            db_re, db_im = db_re + slope * b_re * (FREE % 2), db_im + slope * b_im * (FREE % 2)
            dc_re, dc_im = dc_re + slope * c_re * (FREE // 2), dc_im + slope * c_im * (FREE // 2)
        else:
            da_re, da_im, db_re, db_im = (
                da_re + slope * a_re,
                da_im + slope * a_im,
                db_re + slope * b_re,
                db_im + slope * b_im,
            )
            dc_re, dc_im, dd_re, dd_im = (
                dc_re + slope * c_re,
                dc_im + slope * c_im,
                dd_re + slope * d_re,
                dd_im + slope * d_im,
            )
    if NORMED:
        along = da_re * a_re + da_im * a_im + db_re * b_re + db_im * b_im
        along = (along + dc_re * c_re + dc_im * c_im + dd_re * d_re + dd_im * d_im) / 2
        da_re, da_im = scale * (da_re - along * a_re), scale * (da_im - along * a_im)
        db_re, db_im = scale * (db_re - along * b_re), scale * (db_im - along * b_im)
        dc_re, dc_im = scale * (dc_re - along * c_re), scale * (dc_im - along * c_im)
        dd_re, dd_im = scale * (dd_re - along * d_re), scale * (dd_im - along * d_im)
    place = relation_rows + question * (2 * STORED * UNIT)
    for stored in tl.static_range(STORED):
        re = tl.zeros((BLOCK,), tl.float32)
        im = tl.zeros((BLOCK,), tl.float32)
        re, im = _collect(re, im, da_re, da_im, stored, A)
        re, im = _collect(re, im, db_re, db_im, stored, B)
        re, im = _collect(re, im, dc_re, dc_im, stored, C)
        re, im = _collect(re, im, dd_re, dd_im, stored, D)
        tl.store(place + stored * UNIT + at, re, mask=mask)
        tl.store(place + (STORED + stored) * UNIT + at, im, mask=mask)
