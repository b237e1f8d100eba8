"""Compare the fused step with a float64 step on a GPU: python -m bench.fused_check

Covers real and uneven sizes, repeated heads and answers, every optimiser, and forms of every family. Prints relative
errors of losses and of the changes of the tables after several steps. Fails if an error exceeds the precision.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import NamedTuple

import torch

from conjoin.model.model import Model
from conjoin.runtime.device import matmul_precision
from conjoin.training.recipe import OptimizerName, Precision, Recipe
from conjoin.training.steps.choose import TrainingStep

LIMITS: dict[Precision, float] = {"tf32": 2e-3, "bf16": 1e-2}


class Case(NamedTuple):
    """A shape."""

    form: str
    rank: int
    entities: int
    relations: int
    batch: int
    budget: int | None = None


CASES = [
    Case("5star-conj", 500, 40_943, 11, 1000),
    Case("complex", 50, 777, 3, 100),
    Case("quate", 34, 1300, 7, 130),
    Case("5star", 33, 5000, 5, 257, 1 << 20),
    Case("complex-conj", 2000, 3001, 9, 100),
    Case("FiveStar(quotient=mobius)", 16, 99, 2, 33),
    Case("5star-halfreg", 20, 301, 4, 64),
    Case("FiveStar(c=conj(b), d=conj(a), quotient=aligned)", 20, 301, 4, 64),
    Case("ComplEx(a2=conj(a1), layout=published)", 20, 301, 4, 64),
    Case("Pair(c=-conj(b), d=conj(a), unit=true)", 20, 301, 4, 64),
]


def errors(case: Case, optimizer: OptimizerName, precision: Precision, source: torch.Generator) -> tuple[float, ...]:
    """Relative errors: the largest of the losses, of the change of the entities, and of the change of the relations."""
    recipe = Recipe(batch=case.batch, lr=0.02, n3=0.05, f2=0.01, optimizer=optimizer)
    exact, ours = (
        Model(case.form, case.entities, case.relations, rank=case.rank, scale=0.3, dtype=dtype, device="cuda",
              budget=case.budget)
        for dtype in (torch.float64, torch.float32)
    )  # fmt: skip
    steps = TrainingStep(exact, recipe), TrainingStep(ours, replace(recipe, precision=precision))
    assert steps[1].obstacle is None, steps[1].path
    highs = (case.entities // 3, 2 * case.relations, case.entities)
    count = 5 * case.batch - case.batch // 3
    asked = torch.stack([torch.randint(high, (count,), generator=source) for high in highs], dim=1).cuda()
    before = [model.entities.weight.detach().clone() for model in (exact, ours)]
    with matmul_precision(precision):
        wanted, found = (torch.stack([step(batch) for batch in step.batches(asked)]) for step in steps)
    moved = [model.entities.weight.detach() - old for model, old in zip((exact, ours), before, strict=True)]
    relations = [model.relations.detach() for model in (exact, ours)]
    return (
        float(((found - wanted) / wanted).abs().max()),
        float((moved[1] - moved[0]).norm() / moved[0].norm()),
        float((relations[1] - relations[0]).norm() / relations[0].norm()),
    )


def main() -> None:
    """All of it."""
    source, wrong = torch.Generator().manual_seed(0), 0
    optimizers: tuple[OptimizerName, ...] = ("adagrad", "adam", "sgd")
    for case in CASES:
        for optimizer in optimizers if case.rank in {50, 33} else optimizers[:1]:
            for precision, limit in LIMITS.items():
                loss, entities, relations = errors(case, optimizer, precision, source)
                bad = not (loss < limit and max(entities, relations) < 10 * limit)
                wrong += bad
                told = f"loss {loss:.1e}, moves of entities {entities:.1e}, relations {relations:.1e}"
                print(f"{case} {optimizer} {precision}: {told}{'  <-- WRONG' if bad else ''}", flush=True)
    print(f"{wrong} wrong")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
