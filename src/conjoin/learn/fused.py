"""The training step of a GPU: a form's own formulas compiled, and the table's work fused (model/fused)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from conjoin.algebra.forms import Form
from conjoin.device import recorded
from conjoin.learn.objective import penalties
from conjoin.learn.recipe import Recipe
from conjoin.model.fused.engine import STATES, FusedTable, Optimised, Tiles, optimise_rows, optimise_table
from conjoin.model.model import Model

REHEARSALS = 3
"""Plain steps before recording: they compile the formulas and create what libraries keep."""
DTYPES = {"bf16": torch.bfloat16, "tf32": torch.float32}

Formula = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor, Tensor]]


class FusedStep:
    """Prepared batches in, (mean nll, penalty) out, weights changed: equal to the plain step up to rounding.

    A short last batch is padded by questions of weight zero, so that one recording serves all of an epoch.
    """

    def __init__(
        self,
        model: Model,
        recipe: Recipe,
        optimizer: torch.optim.Optimizer,
        *,
        tiles: Tiles | None = None,
        compiled: bool = True,
    ) -> None:
        self.model, self.recipe, self.optimizer, self.tiles = model, recipe, optimizer, tiles
        self.formula = formula(model.form, recipe)
        if compiled and model.device.type == "cuda":
            self.formula = torch.compile(self.formula, fullgraph=True, dynamic=False)
        self._entities: FusedTable | None = None
        self._relations: Optimised | None = None
        self._rehearsed = 0
        self._replay: Callable[[Tensor], Tensor] | None = None

    def batches(self, queries: Tensor) -> Sequence[Tensor]:
        """An epoch's questions (M, 3), already in order, cut into inputs of a step.

        An input holds, per question: head and answer; both again, sorted; where the sorted ones came from; relation,
        sorted relation, its origin; and the weight in the mean. Sorting here, once per epoch, is what lets gradients
        of repeated rows be added in a fixed order without atomic operations.
        """
        self._bind()
        size = self.recipe.batch
        count = -(-len(queries) // size)
        padded = queries.new_zeros(count * size, 3)
        padded[: len(queries)] = queries
        weight = torch.zeros(count * size, device=queries.device)
        weight[: len(queries)] = 1 / size
        weight[(count - 1) * size : len(queries)] = 1 / (len(queries) - (count - 1) * size)
        h, r, t = padded.int().reshape(count, size, 3).unbind(dim=2)
        lookups = torch.cat([h, t], dim=1)
        ids, order = torch.sort(lookups, dim=1, stable=True)
        relation_ids, relation_order = torch.sort(r, dim=1, stable=True)
        weights = weight.view(torch.int32).reshape(count, size)
        parts = [lookups, ids, order.int(), r, relation_ids, relation_order.int(), weights]
        return torch.cat(parts, dim=1).unbind(dim=0)

    def __call__(self, batch: Tensor) -> Tensor:
        if self.recipe.optimizer == "adagrad":
            for parameter in self.model.parameters():
                self.optimizer.state[parameter]["step"] += 1
        if self.model.device.type != "cuda":
            return self._plain(batch)
        if self._rehearsed < REHEARSALS:
            self._rehearsed += 1
            return self._plain(batch)
        if self._replay is None:
            self._replay = recorded(self._plain, batch)
        return self._replay(batch)

    def _plain(self, batch: Tensor) -> Tensor:
        entities, relations, size = self._entities, self._relations, self.recipe.batch
        assert entities is not None
        assert relations is not None
        lookups, ids, order = batch[: 2 * size], batch[2 * size : 4 * size], batch[4 * size : 6 * size]
        r, relation_ids, relation_order, bits = batch[6 * size :].chunk(4)
        weight = bits.view(torch.float32)
        if relations.ticks:
            entities.weights.clock.add_(1)
            relations.clock.add_(1)
        rows = self.model.entities.weight.detach().index_select(0, lookups).requires_grad_()
        relation_rows = self.model.relations.detach().index_select(0, r).requires_grad_()
        with torch.enable_grad():
            q, rest, penalty = self.formula(rows, relation_rows, weight)
        nll, dq = entities.step(q.detach(), lookups[size:], weight, ids)
        torch.autograd.backward((q, rest), (dq, torch.ones_like(rest)))
        assert rows.grad is not None
        assert relation_rows.grad is not None
        entities.finish(ids, order, rows.grad)
        self._optimise_relations(relations, relation_ids, relation_order, relation_rows.grad)
        return torch.stack([weight @ nll, penalty])

    def _optimise_relations(self, relations: Optimised, ids: Tensor, order: Tensor, gradients: Tensor) -> None:
        if relations.rule != "adam":
            optimise_rows(relations, ids, order, gradients)
            return
        dense = torch.zeros_like(relations.table)
        optimise_rows(relations, ids, order, gradients, collect=dense)
        optimise_table(relations, dense)

    def _bind(self) -> None:
        """Take hold of the tables and the optimiser's state, again where loading a checkpoint has replaced them."""
        entities, relations = (self._optimised(p) for p in (self.model.entities.weight, self.model.relations))
        if self._entities is None or not self._entities.weights.same_memory(entities):
            self._relations, self._rehearsed, self._replay = relations, 0, None
            self._entities = None
            self._entities = FusedTable(
                entities,
                questions=self.recipe.batch,
                dtype=DTYPES[self.recipe.precision],
                budget=self.model.entities.bytes_allowed,
                tiles=self.tiles,
            )
        self._entities.refresh()

    def _optimised(self, parameter: torch.nn.Parameter) -> Optimised:
        state = self.optimizer.state[parameter]
        for name in STATES[self.recipe.optimizer]:
            state.setdefault(name, torch.zeros_like(parameter))
        if self.recipe.optimizer == "adam":
            state.setdefault("step", torch.zeros((), device=parameter.device))
        return Optimised(parameter.detach(), self.recipe.optimizer, self.recipe.lr, dict(state))


def formula(form: Form, recipe: Recipe) -> Formula:
    """What a step computes outside the table, for heads and answers (2B, w), relation rows (B, reals), weights (B,).

    Returns the queries, a scalar whose gradient is everything but the softmax's (penalty and answers' scores), and the
    penalty.
    """

    def compute(rows: Tensor, relation_rows: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        heads, tails = rows[: len(weight)], rows[len(weight) :]
        slots = form.unfold(relation_rows)
        q = form.query(heads, slots)
        penalty = (weight * penalties(form.squared_moduli(heads, slots, tails), recipe)).sum()
        return q, penalty - (weight * (q * tails).sum(dim=1)).sum(), penalty.detach()

    return compute
