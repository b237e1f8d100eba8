"""The fused step against a float64 step, on a GPU: python bench/fused_check.py

Random shapes, ragged and with repeated heads and answers, every optimiser, several forms; prints the relative errors of
loss and updated tables after several steps and fails where one is larger than its precision explains.
"""

from __future__ import annotations

import sys
from dataclasses import replace

import torch

from conjoin.device import matmul_precision
from conjoin.learn.recipe import Recipe
from conjoin.learn.fused import FusedStep
from conjoin.learn.step import Step, optimizer_for, why_not
from conjoin.model.model import Model

LIMITS = {"tf32": 2e-3, "bf16": 1e-2}


def main() -> None:
    """All of it."""
    wrong, worst, source = 0, 0.0, torch.Generator().manual_seed(0)
    cases = [("5star-conj", 500, 40_943, 11, 1000, None), ("complex", 50, 777, 3, 100, None), ("quate", 34, 1300, 7, 130, None),
             ("5star", 33, 5000, 5, 257, 1 << 20), ("complex-conj", 2000, 3001, 9, 100, None), ("mobius", 16, 99, 2, 33, None), ("5star-halfreg", 20, 301, 4, 64, None),
             ("FiveStar(c=conj(b), d=conj(a), quotient=aligned)", 20, 301, 4, 64, None), ("ComplEx(a2=conj(a1), layout=published)", 20, 301, 4, 64, None), ("Pair(c=-conj(b), d=conj(a), unit=true)", 20, 301, 4, 64, None)]  # fmt: skip
    for name, rank, entities, relations, batch, budget in cases:
        form = "FiveStar(quotient=mobius)" if name == "mobius" else name
        for optimizer, precision in [
            (o, p)
            for o in ("adagrad", "adam", "sgd")
            for p in LIMITS
            if o == "adagrad" or (p == "bf16" and rank in {50, 33})
        ]:
            exact = Recipe(batch=batch, lr=0.02, n3=0.05, f2=0.01, optimizer=optimizer)  # type: ignore[arg-type]
            models = [Model(form, entities, relations, rank=rank, scale=s, dtype=d, device="cuda", budget=budget)
                      for s, d in ((0.3, torch.float64), (0.3, torch.float32))]  # fmt: skip
            rough = replace(exact, precision=precision)  # type: ignore[arg-type]
            assert why_not(models[1], rough) is None
            optimizer_there = optimizer_for(models[1], rough)
            fused = FusedStep(models[1], rough, optimizer_there)
            steps = Step(models[0], exact), fused
            queries = torch.stack([torch.randint(n, (5 * batch - batch // 3,), generator=source)
                                   for n in (entities // 3, 2 * relations, entities)], dim=1).cuda()  # fmt: skip
            before = [m.entities.weight.detach().clone() for m in models]
            with matmul_precision(precision):
                costs = [[step(b) for b in step.batches(queries)] for step in steps]
            off = max(float(((a - b) / a).abs().max()) for a, b in zip(*costs, strict=True))
            moved = [m.entities.weight.detach() - b for m, b in zip(models, before, strict=True)]
            far = [float((moved[1] - moved[0]).norm() / moved[0].norm()),
                   float((models[1].relations - models[0].relations).norm() / models[0].relations.norm())]  # fmt: skip
            bad = off > LIMITS[precision] or not max(far) < 10 * LIMITS[precision]
            worst = max(worst, off)
            print(f"{name} {rank} {entities} {batch} {optimizer} {precision}: loss {off:.1e}, moves of entities {far[0]:.1e}, "
                  f"relations {far[1]:.1e}{'  <-- WRONG' if bad else ''}", flush=True)  # fmt: skip
            wrong += bad
    print(f"worst relative error of a loss: {worst:.1e}; {wrong} wrong")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
