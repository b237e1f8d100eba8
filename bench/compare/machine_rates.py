"""Measure the highest rates of the machine, and compute the least time of a step from them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from conjoin.runtime.device import has_bf16_products, matmul_precision, seconds_of

TABLE_PASSES = 6
"""Passes over the table: read E for the scores and for dq, then read and write E and the Adagrad state."""
PRODUCTS = 6
"""Floating-point operations per score and column of a step: each of scores, dq and dE multiplies and adds."""


@dataclass(frozen=True)
class Rates:
    """Bytes per second of a copy (read and written), floating-point operations per second of large products."""

    bytes_per_second: float
    flops_per_second: float
    flops_of: str
    exact_flops_per_second: float

    def best(self, other: Rates) -> Rates:
        """The higher value of each rate."""
        return Rates(
            bytes_per_second=max(self.bytes_per_second, other.bytes_per_second),
            flops_per_second=max(self.flops_per_second, other.flops_per_second),
            flops_of=self.flops_of,
            exact_flops_per_second=max(self.exact_flops_per_second, other.exact_flops_per_second),
        )

    def training_floor(self, *, entities: int, rank: int, batch: int, examples: int, fast_part: float = 1.0) -> float:
        """The least seconds of an epoch for any implementation of full softmax with Adagrad.

        `fast_part` is the share of the products that may use the fast precision."""
        numbers = entities * 2 * rank
        steps = examples / batch
        each = fast_part / self.flops_per_second + (1 - fast_part) / self.exact_flops_per_second
        products = PRODUCTS * examples * numbers * each
        traffic = steps * TABLE_PASSES * 4 * numbers / self.bytes_per_second
        return max(products, traffic)

    def ranking_floor(self, *, entities: int, rank: int, questions: int) -> float:
        """Seconds of scoring every entity for every question once, in float32."""
        numbers = entities * 2 * rank
        return max(2 * questions * numbers / self.exact_flops_per_second, 4 * numbers / self.bytes_per_second)


def measured_rates(device: torch.device) -> Rates:
    """Measure the bandwidth of a copy, and the rates of products in float32 and in the fastest training precision."""
    on_gpu = device.type == "cuda"
    source = torch.ones((1 << 30 if on_gpu else 1 << 27) // 4, device=device)
    target = torch.empty_like(source)
    copying = seconds_of(lambda: target.copy_(source), device)
    size, exact_size = (8192, 4096) if on_gpu else (2048, 2048)
    with matmul_precision("fp32"):
        exact = 2 * exact_size**3 / seconds_of(_product(exact_size, torch.float32, device), device)
        short = on_gpu or has_bf16_products()
        fast = 2 * size**3 / seconds_of(_product(size, torch.bfloat16, device), device) if short else exact
    return Rates(
        bytes_per_second=2 * 4 * len(source) / copying,
        flops_per_second=fast,
        flops_of="bf16" if short else "fp32",
        exact_flops_per_second=exact,
    )


def _product(size: int, dtype: torch.dtype, device: torch.device) -> Callable[[], object]:
    left, right = (torch.randn(size, size, device=device, dtype=dtype) for _ in range(2))
    out = torch.empty_like(left)
    return lambda: torch.mm(left, right, out=out)
