"""Optimisers: Adagrad, Adam and SGD for whole parameters and for some rows of one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.optim.adagrad import adagrad
from torch.optim.adam import adam
from torch.optim.sgd import sgd

from conjoin.model.padding import add_rows
from conjoin.training.recipe import OptimizerName as Rule

SLOTS: dict[Rule, tuple[str, ...]] = {"adagrad": ("sum",), "adam": ("exp_avg", "exp_avg_sq"), "sgd": ()}
"""State tensors per rule, each with the shape of the parameter. All rules except SGD also have a scalar `step`."""
EPS: dict[Rule, float] = {"adagrad": 1e-10, "adam": 1e-8}
BETAS = (0.9, 0.999)


class Optimizer:
    """Updates parameters by a rule (adagrad, adam or sgd) and holds the state of each parameter."""

    def __init__(self, parameters: Iterable[Parameter], *, rule: Rule, lr: float) -> None:
        self.parameters, self.rule, self.lr = list(parameters), rule, lr
        self.state: dict[Parameter, dict[str, Tensor]] = defaultdict(dict)
        for parameter in self.parameters:
            self.of(parameter)

    def of(self, parameter: Parameter) -> dict[str, Tensor]:
        """The state of a parameter: `step` and the tensors of SLOTS. Created as zeros at first use."""
        state = self.state[parameter]
        if not state and SLOTS[self.rule]:
            state["step"] = torch.zeros((), dtype=torch.float32, device=self._clock(parameter))
            state |= {name: torch.zeros_like(parameter) for name in SLOTS[self.rule]}
        return state

    @torch.no_grad()
    def step(self) -> None:
        """Update every parameter that has a gradient."""
        changed = [parameter for parameter in self.parameters if parameter.grad is not None]
        if not changed:
            return
        states = [self.of(parameter) for parameter in changed]
        weights: list[Tensor] = [*changed]
        gradients = [parameter.grad for parameter in changed if parameter.grad is not None]
        names = ("step", *SLOTS[self.rule], "", "")[:3]
        steps, first, second = ([state[name] for state in states if name in state] for name in names)
        on_gpu = any(weight.is_cuda for weight in weights)
        if self.rule == "adagrad" and on_gpu:
            adagrad(
                weights, gradients, first, steps,
                lr=self.lr, weight_decay=0.0, lr_decay=0.0, eps=EPS["adagrad"], maximize=False,
            )  # fmt: skip
        elif self.rule == "adagrad":
            self._adagrad_on_cpu(weights, gradients, first, steps)
        elif self.rule == "adam":
            adam(
                weights, gradients, first, second, [], steps, fused=True, capturable=on_gpu,
                amsgrad=False, beta1=BETAS[0], beta2=BETAS[1], lr=self.lr, weight_decay=0.0, eps=EPS["adam"],
                maximize=False,
            )  # fmt: skip
        else:
            sgd(
                weights, gradients, [None] * len(weights), fused=True,
                weight_decay=0.0, momentum=0.0, lr=self.lr, dampening=0.0, nesterov=False, maximize=False,
            )  # fmt: skip

    def _adagrad_on_cpu(
        self, weights: list[Tensor], gradients: list[Tensor], sums: list[Tensor], steps: list[Tensor]
    ) -> None:
        """Call torch's kernel directly: on a small table the checks of its wrapper take three times as long."""
        for step in steps:
            step.add_(1)
        torch._fused_adagrad_(
            weights, gradients, sums, steps,
            lr=self.lr, lr_decay=0.0, weight_decay=0.0, eps=EPS["adagrad"], maximize=False,
        )  # fmt: skip

    def remembered(self) -> Iterator[tuple[str, Tensor]]:
        """The state as (name, tensor) for a checkpoint. "0.sum" is the slot `sum` of the first parameter."""
        for number, parameter in enumerate(self.parameters):
            for name, tensor in self.state.get(parameter, {}).items():
                yield f"{number}.{name}", tensor

    def remember(self, tensors: Mapping[str, Tensor]) -> None:
        """Replace the state by copies of `tensors`, named as by `remembered`.

        The old state is freed first, because both may not fit into memory.
        """
        self.state.clear()
        for key, tensor in tensors.items():
            number, _, name = key.partition(".")
            parameter = self.parameters[int(number)]
            if name == "step":
                copied = tensor.to(self._clock(parameter), torch.float32, copy=True)
            else:
                copied = tensor.to(parameter.device, parameter.dtype, copy=True)
            self.state[parameter][name] = copied

    def _clock(self, parameter: Parameter) -> torch.device:
        """The device of the step counter. A recorded step of Adam reads it on the GPU."""
        return parameter.device if self.rule == "adam" else torch.device("cpu")


class RowOptimizer:
    """Updates rows of one parameter (n, w) in place, by the rule and with the state of its optimiser."""

    def __init__(self, optimizer: Optimizer, weight: torch.nn.Parameter) -> None:
        self.optimizer, self.weight = optimizer, weight
        self._waiting = torch.empty(0, dtype=torch.long)
        self._before: list[Tensor] = []
        self._gradient = torch.empty(0)

    def begin(self, looked_up: Tensor) -> None:
        """Begin a step. The rows `looked_up` get more gradient after all tiles, so `finish` updates them."""
        self._count()
        self._waiting = torch.unique(looked_up)
        self._before = [table[self._waiting] for table in self._tables()]
        self._gradient = torch.zeros_like(self._before[0])

    def tile(self, start: int, gradient: Tensor) -> None:
        """Update the rows from `start` on by their gradient (m, w)."""
        low, high = torch.searchsorted(self._waiting, self._waiting.new_tensor([start, start + len(gradient)]))
        self._gradient[low:high] = gradient[self._waiting[low:high] - start]
        self._change([table[start : start + len(gradient)] for table in self._tables()], gradient)

    def finish(self, ids: Tensor, gradients: Tensor) -> None:
        """Update the rows of `begin`. `gradients` (n, w) is added to the rows `ids` (n,) first; ids may repeat."""
        add_rows(self._gradient, torch.searchsorted(self._waiting, ids.contiguous()), gradients)
        self._change(self._before, self._gradient)
        self._put(self._waiting, self._before)

    def rows(self, ids: Tensor, gradients: Tensor) -> None:
        """Do a whole step on the rows `ids` (n,) only. The gradients (n, w) of repeated ids are added."""
        self._count()
        rows, index = torch.unique(ids, return_inverse=True)
        gradient = gradients.new_zeros(len(rows), gradients.shape[1])
        add_rows(gradient, index, gradients)
        changed = [table[rows] for table in self._tables()]
        self._change(changed, gradient)
        self._put(rows, changed)

    def _put(self, rows: Tensor, changed: list[Tensor]) -> None:
        for table, values in zip(self._tables(), changed, strict=True):
            table.index_copy_(0, rows, values)

    def _tables(self) -> list[Tensor]:
        """The parameter and its state tensors of the same shape."""
        remembered = self.optimizer.of(self.weight)
        return [self.weight.detach(), *(remembered[name] for name in SLOTS[self.optimizer.rule])]

    def _count(self) -> None:
        if SLOTS[self.optimizer.rule]:
            self.optimizer.of(self.weight)["step"] += 1

    def _change(self, tables: list[Tensor], gradient: Tensor) -> None:
        """Update tables of the same rows (weights, then state tensors) in place; the formulas are torch's."""
        rule, lr, rows, remembered = self.optimizer.rule, self.optimizer.lr, tables[0], tables[1:]
        if rule == "adagrad":
            remembered[0].addcmul_(gradient, gradient)
            rows.addcdiv_(gradient, remembered[0].sqrt().add_(EPS[rule]), value=-lr)
        elif rule == "adam":
            (fast, slow), (mean, square) = BETAS, remembered
            step = float(self.optimizer.state[self.weight]["step"])
            mean.lerp_(gradient, 1 - fast)
            square.mul_(slow).addcmul_(gradient, gradient, value=1 - slow)
            deviation = (square.sqrt() / (1 - slow**step) ** 0.5).add_(EPS[rule])
            rows.addcdiv_(mean, deviation, value=-lr / (1 - fast**step))
        else:
            rows.add_(gradient, alpha=-lr)
