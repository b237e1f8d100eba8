"""An optimiser's rule: on whole tables, and on some rows of one, so that a gradient of the whole need not exist.

The numbers that the optimiser remembers stay where torch keeps them: checkpoints do not see a difference. Adagrad and
SGD leave a row alone whose gradient is zero, so updating only the rows that a sample touches is exact. Adam does not:
its moments would fade at every step. Here they fade only when their row is touched ("lazy" Adam).
"""

from __future__ import annotations

import torch
from torch import Tensor

from conjoin.model.rows import add_rows


class RowUpdate:
    """Changes rows of one parameter in place, by the rule of its optimiser."""

    def __init__(self, optimizer: torch.optim.Optimizer, weight: torch.nn.Parameter) -> None:
        self.optimizer, self.weight = optimizer, weight
        self._waiting = torch.empty(0, dtype=torch.long)
        self._before: list[Tensor] = []
        self._gradient = torch.empty(0)

    def begin(self, looked_up: Tensor) -> None:
        """A step begins. These rows get more gradient after the tiles have passed, so they are changed last."""
        self._count()
        self._waiting = torch.unique(looked_up)
        self._before = [table[self._waiting] for table in self._tables()]
        self._gradient = torch.zeros_like(self._before[0])

    def tile(self, start: int, gradient: Tensor) -> None:
        """Change the rows from `start` on."""
        low, high = torch.searchsorted(self._waiting, torch.tensor([start, start + len(gradient)]).to(self._waiting))
        self._gradient[low:high] = gradient[self._waiting[low:high] - start]
        self._change([table[start : start + len(gradient)] for table in self._tables()], gradient)

    def finish(self, ids: Tensor, gradients: Tensor) -> None:
        """Change the rows that waited, with what is added to their gradients; ids may repeat."""
        add_rows(self._gradient, torch.searchsorted(self._waiting, ids.contiguous()), gradients)
        self._change(self._before, self._gradient)
        self._put(self._waiting, self._before)

    def rows(self, ids: Tensor, gradients: Tensor) -> None:
        """A whole step on these rows alone; gradients of repeated ids add up."""
        self._count()
        rows, place = torch.unique(ids, return_inverse=True)
        gradient = gradients.new_zeros(len(rows), gradients.shape[1])
        add_rows(gradient, place, gradients)
        changed = [table[rows] for table in self._tables()]
        self._change(changed, gradient)
        self._put(rows, changed)

    def _put(self, rows: Tensor, changed: list[Tensor]) -> None:
        for table, values in zip(self._tables(), changed, strict=True):
            table.index_copy_(0, rows, values)

    def _tables(self) -> list[Tensor]:
        """The parameter and what is remembered of each of its numbers."""
        remembered = self.optimizer.state[self.weight]
        if isinstance(self.optimizer, torch.optim.Adam) and "exp_avg" not in remembered:
            remembered |= {name: torch.zeros_like(self.weight) for name in ("exp_avg", "exp_avg_sq")}
        names = {torch.optim.Adagrad: ("sum",), torch.optim.Adam: ("exp_avg", "exp_avg_sq")}
        return [self.weight.detach(), *(remembered[name] for name in names.get(type(self.optimizer), ()))]

    def _count(self) -> None:
        remembered = self.optimizer.state[self.weight]
        if not isinstance(self.optimizer, torch.optim.SGD):
            remembered.setdefault("step", torch.zeros((), dtype=torch.float32))
            remembered["step"] += 1

    def _change(self, tables: list[Tensor], gradient: Tensor) -> None:
        """The rules as torch writes them."""
        settings = self.optimizer.param_groups[0]
        lr, rows, remembered = settings["lr"], tables[0], tables[1:]
        if isinstance(self.optimizer, torch.optim.Adagrad):
            remembered[0].addcmul_(gradient, gradient)
            rows.addcdiv_(gradient, remembered[0].sqrt().add_(settings["eps"]), value=-lr)
        elif isinstance(self.optimizer, torch.optim.Adam):
            (fast, slow), (mean, square) = settings["betas"], remembered
            step = float(self.optimizer.state[self.weight]["step"])
            mean.lerp_(gradient, 1 - fast)
            square.mul_(slow).addcmul_(gradient, gradient, value=1 - slow)
            deviation = (square.sqrt() / (1 - slow**step) ** 0.5).add_(settings["eps"])
            rows.addcdiv_(mean, deviation, value=-lr / (1 - fast**step))
        else:
            rows.add_(gradient, alpha=-lr)


@torch.no_grad()
def take_step(optimizer: torch.optim.Optimizer) -> None:
    """What `optimizer.step()` does. Adagrad's fused kernel is called directly on a CPU: on a small table the hooks and
    checks around it take three times as long as the kernel."""
    settings, state = optimizer.param_groups[0], optimizer.state
    weights = settings["params"]
    if not (isinstance(optimizer, torch.optim.Adagrad) and settings["fused"]):
        optimizer.step()
        return
    steps = [state[weight]["step"] for weight in weights]
    for step in steps:
        step.add_(1)
    torch._fused_adagrad_(
        weights,
        [weight.grad for weight in weights],
        [state[weight]["sum"] for weight in weights],
        steps,
        **{name: settings[name] for name in ("lr", "lr_decay", "weight_decay", "eps", "maximize")},
    )
