"""An optimiser's rule on some rows of a table, so that a gradient of the whole need not exist.

The numbers that the optimiser remembers stay where it keeps them: checkpoints do not see a difference. Adagrad and
SGD leave a row alone whose gradient is zero, so updating only the rows that a sample touches is exact. Adam does not:
its moments would fade at every step. Here they fade only when their row is touched ("lazy" Adam).
"""

from __future__ import annotations

import torch
from torch import Tensor

from conjoin.learn.optimizer import BETAS, EPS, SLOTS, Optimizer
from conjoin.model.rows import add_rows


class RowUpdate:
    """Changes rows of one parameter in place, by the rule of its optimiser."""

    def __init__(self, optimizer: Optimizer, weight: torch.nn.Parameter) -> None:
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
        low, high = torch.searchsorted(self._waiting, self._waiting.new_tensor([start, start + len(gradient)]))
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
        remembered = self.optimizer.of(self.weight)
        return [self.weight.detach(), *(remembered[name] for name in SLOTS[self.optimizer.rule])]

    def _count(self) -> None:
        if SLOTS[self.optimizer.rule]:
            self.optimizer.of(self.weight)["step"] += 1

    def _change(self, tables: list[Tensor], gradient: Tensor) -> None:
        """The rules as torch writes them."""
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
