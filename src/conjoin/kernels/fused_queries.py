"""The constants of a form for the kernels, and the forward and backward pass between rows and queries."""

from __future__ import annotations

import torch
from torch import Tensor

from conjoin.forms.complex import ComplEx
from conjoin.forms.five_star import FiveStar
from conjoin.forms.pair import Pair
from conjoin.forms.tied import TiedForm
from conjoin.kernels import query_kernels
from conjoin.kernels.fused_table import FusedTable, block

QUOTIENTS = {"phase": query_kernels.PHASE, "aligned": query_kernels.ALIGNED, "mobius": query_kernels.MOBIUS}
BLOCK = 256


def constants(form: TiedForm, rank: int) -> dict[str, object]:
    """The constants that the kernels of query_kernels.py are compiled with."""
    unit = form.slot_width(rank)
    published = isinstance(form, ComplEx) and form.layout == "published"
    slots = {"A": "a1", "D": "a2"} if isinstance(form, ComplEx) else {name: name.lower() for name in "ABCD"}
    mobius = isinstance(form, FiveStar) and form.quotient == "mobius"
    return {
        "RANK": rank,
        "UNIT": unit,
        "STORED": len(form.stored),
        **{name: _code(form, slots[name]) if name in slots else -1 for name in "ABCD"},
        "SHIFTED": sum(1 << i for i, slot in enumerate(form.stored) if slot in ("a", "d")) if mobius else 0,
        "FAMILY": query_kernels.FIVE_STAR if isinstance(form, FiveStar) else query_kernels.PAIR,
        "QUOTIENT": QUOTIENTS[form.quotient] if isinstance(form, FiveStar) else query_kernels.PHASE,
        "HALF": isinstance(form, FiveStar) and form.penalty == "half",
        "FREE": sum(bit for bit, slot in ((1, "b"), (2, "c")) if slot in form.stored),
        "NORMED": mobius or (isinstance(form, Pair) and form.unit == "true"),
        "HEAD_IM": unit if published else rank,
        "HEAD_SECOND": rank if published else unit,
    }


def _code(form: TiedForm, slot: str) -> int:
    """4 · stored slot + 2 if conjugated + 1 if negated; negative for zero."""
    tie = form.ties.get(slot)
    if tie is None:
        return 4 * form.stored.index(slot)
    return -1 if tie.slot is None else 4 * form.stored.index(tie.slot) + 2 * tie.conjugated + tie.negated


class FusedQueries:
    """Forward and backward pass of a form for batches of a given size. The buffers keep their memory for replays."""

    def __init__(self, form: TiedForm, table: FusedTable, relations: Tensor, *, n3: float, f2: float) -> None:
        self.table, self.relations, self.n3, self.f2 = table, relations, n3, f2
        self.constants = constants(form, table.width // 2)
        self.unit = form.slot_width(table.width // 2)
        self.rows = relations.new_zeros(2 * table.questions, table.width)
        self.relation_rows = relations.new_zeros(table.questions, relations.shape[1])

    def forward(self, h: Tensor, r: Tensor, t: Tensor) -> None:
        """Fill the table's queries, targets and penalties."""
        table = self.table
        query_kernels.forward[(table.questions,)](
            table.weights.table, self.relations, table.operand, h, r, t,
            table.queries, table.q, table.target, table.penalty, self.n3, self.f2,
            **self.constants, STRIDE=table.columns, TABLE_STRIDE=table.operand.stride(0), BLOCK=block(self.unit),
        )  # fmt: skip

    def backward(self, h: Tensor, r: Tensor, t: Tensor, product: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Gradients of Σ weight·(nll + penalty) with respect to heads and answers (2B, w) and relations (B, reals)."""
        table = self.table
        size = min(BLOCK, block(self.unit))
        query_kernels.backward[(table.questions, -(-self.unit // size))](
            table.weights.table, self.relations, h, r, t, product, table.factor, weight,
            self.rows, self.relation_rows, table.questions, product.stride(0), self.n3, self.f2,
            **self.constants, BLOCK=size,
        )  # fmt: skip
        return self.rows, self.relation_rows


def precision_of(name: str) -> torch.dtype:
    """The dtype of factors of products for a recipe's precision; the matrix units round float32 to TF32."""
    return {"bf16": torch.bfloat16, "tf32": torch.float32}[name]
