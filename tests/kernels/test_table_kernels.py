"""Every kernel compiles for compute capability 9.0, without a GPU."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytest.importorskip("triton", reason="triton is not installed: it is for Linux only")

COMPILE = """
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, compile

from conjoin.forms.notation import form
from conjoin.kernels import query_kernels, table_kernels
from conjoin.model import rank_count
from conjoin.kernels.fused_queries import constants

HALF = {"operand", "operand_table", "shadow", "share", "gradient_half"}
NUMBERS = {"lr", "n3", "f2"}
WHOLE = {"h", "r", "t", "ids", "order", "starts", "slot", "better", "tied", "candidates", "bad", "question", "entity"}
SIZES = {"entities_count", "first_entity", "p_stride", "sums_stride", "question_tiles", "count", "questions",
         "product_stride", "stride", "pairs"}


def check(kernel, sizes=(), half=(), **fixed):
    def kind(name):
        if name in fixed:
            return "constexpr"
        if name in SIZES or name in sizes:
            return "i32"
        if name in NUMBERS:
            return "fp32"
        return "*i32" if name in WHOLE else "*bf16" if name in half else "*fp32"

    source = ASTSource(kernel, {name: kind(name) for name in kernel.arg_names}, fixed)
    found = compile(source, target=GPUTarget("cuda", 90, 32))
    return found.asm["ptx"]


ptx = check(table_kernels.exponentials, ["entities"], ["q", "table", "p"], WIDTH=64, Q_STRIDE=64, TABLE_STRIDE=64,
            PRODUCT=True, STORE=True, ROWS=64, COLUMNS=64, DEPTH=32)
assert "wgmma" in ptx, "the product does not use the matrix units"
check(table_kernels.exponentials, ["entities"], WIDTH=64, Q_STRIDE=64, TABLE_STRIDE=64, PRODUCT=False, STORE=True,
      ROWS=32, COLUMNS=32, DEPTH=32)
check(table_kernels.shares, (), ["share"], WIDTH=50, TILES=9, STRIDE=64, COLUMNS=64)
for rule in (table_kernels.ADAGRAD, table_kernels.ADAM, table_kernels.SGD):
    check(table_kernels.update, ["entities"], ["gradient", "shadow"], WIDTH=50, SHADOW_STRIDE=64, RULE=rule,
          SHADOW=True,
          STASH=True, ROWS=4, COLUMNS=64)
check(table_kernels.mark, BLOCK=64)
for stash, collect in ((True, False), (False, True)):
    check(table_kernels.rows, (), ["shadow"], WIDTH=50, SHADOW_STRIDE=64, STASH=stash,
          RULE=table_kernels.ADAGRAD, SHADOW=stash,
          COLLECT=collect, GROUP=4, COLUMNS=64)
for name in ("5star-conj", "quate", "FiveStar(quotient=mobius)"):
    shared = constants(form(name), 24)
    check(query_kernels.forward, (), ["operand", "operand_table"], **shared, STRIDE=64, TABLE_STRIDE=64, BLOCK=32)
    check(query_kernels.backward, **shared, BLOCK=32)
check(rank_count._count, ["entities"], SPAN=64, BLOCK=32)
check(rank_count._uncount, BLOCK=32)
print("all compiled")
"""


@pytest.mark.slow
def test_kernels_compile_without_a_gpu() -> None:
    environment = {**os.environ, "TRITON_INTERPRET": "0"}
    done = subprocess.run(
        [sys.executable, "-c", COMPILE], env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.stdout.endswith("all compiled\n"), done.stderr[-2000:]
