"""The optimiser against torch's own classes."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from conjoin.model.model import Model
from conjoin.training.optimizer import Optimizer
from conjoin.training.recipe import OptimizerName as Rule

TORCH = {"adagrad": torch.optim.Adagrad, "adam": torch.optim.Adam, "sgd": torch.optim.SGD}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("rule", ["adagrad", "adam", "sgd"])
def test_a_step_is_torchs_own(rule: Rule, dtype: torch.dtype) -> None:
    models = [Model("complex", 20, 3, rank=4, dtype=dtype) for _ in range(2)]
    ours = Optimizer(models[0].parameters(), rule=rule, lr=0.3)
    theirs = TORCH[rule](models[1].parameters(), lr=0.3, fused=True)
    source = torch.Generator().manual_seed(0)
    ours.step()  # nothing has a gradient yet
    for number in range(4):
        for pair in zip(*(model.parameters() for model in models), strict=True):
            gradient = torch.randn(pair[0].shape, generator=source, dtype=dtype)
            for weight in pair:
                weight.grad = None if number == 2 and len(weight) == 20 else gradient.clone()
        ours.step()
        theirs.step()
        ours.remember(dict(ours.remembered()))
    assert all(torch.equal(*pair) for pair in zip(*(model.parameters() for model in models), strict=True))
    states = theirs.state_dict()["state"]
    wanted = {f"{number}.{name}": state for number, named in states.items() for name, state in named.items()}
    found = dict(ours.remembered())
    assert wanted.keys() - {"0.momentum_buffer", "1.momentum_buffer"} == found.keys()
    assert all(torch.equal(found[name], wanted[name]) for name in found)
    assert found or rule == "sgd"


def test_loaded_state_is_copied_per_parameter() -> None:
    optimizer = Optimizer(Model("complex", 5, 2, rank=2).parameters(), rule="adagrad", lr=0.1)
    given = {"0.step": torch.tensor(3.0), "0.sum": torch.ones(5, 4)}
    optimizer.remember(given)
    given["0.sum"].zero_()
    assert optimizer.of(optimizer.parameters[0])["sum"].eq(1).all()
    assert optimizer.of(optimizer.parameters[1])["sum"].eq(0).all()
    with pytest.raises(IndexError):
        optimizer.remember({"7.sum": torch.ones(5, 4)})


@pytest.mark.slow
def test_training_does_not_load_torchs_compiler() -> None:
    """It takes longer than an epoch on a small graph."""
    code = """
import sys, tempfile
from pathlib import Path
import conjoin
from conjoin.runs.execute import execute
from conjoin.runs.run import Run
graph = conjoin.load("atlas")
run = Run.of(graph, "complex", rank=4, recipe=conjoin.Recipe(epochs=1, batch=2000))
execute(run, graph, Path(tempfile.mkdtemp()) / "run")
print(sorted({"torch._dynamo", "torch.distributed.checkpoint"} & sys.modules.keys()))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120)
    assert done.stdout == "[]\n", done.stderr[-1000:]
