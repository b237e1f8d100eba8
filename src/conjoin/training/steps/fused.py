"""The fused training step of a GPU: about a dozen kernels (conjoin.kernels), recorded once and replayed."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from conjoin.forms.tied import TiedForm
from conjoin.kernels.fused_queries import FusedQueries, precision_of
from conjoin.kernels.fused_table import FusedTable, Optimised, RowGroups, Tile, optimise_rows, optimise_table
from conjoin.model.model import Model
from conjoin.runtime.device import recorded_work
from conjoin.training.optimizer import SLOTS, Optimizer
from conjoin.training.recipe import Recipe

WARM_UP_STEPS = 3
"""Steps before recording: they compile kernels and create library handles."""


class FusedStep:
    """Takes the number of a batch of `batches`, updates the weights and returns (mean nll, penalty).

    The result equals the plain step up to rounding. A short last batch is padded with queries of weight zero, so that
    one recording works for all batches of an epoch.
    """

    def __init__(self, model: Model, recipe: Recipe, optimizer: Optimizer, *, tile: Tile | None = None) -> None:
        self.model, self.recipe, self.optimizer, self.tile = model, recipe, optimizer, tile
        self._relations = self._optimised(model.relations)
        self._queries: FusedQueries | None = None
        self._inputs = torch.empty(0, 0, dtype=torch.int32, device=model.device)
        self._costs = torch.empty(0, 2, device=model.device)
        self._next, self._expected = torch.zeros(1, dtype=torch.long, device=model.device), 0
        self._warmed_up = 0
        self._replay: Callable[[], None] | None = None

    def batches(self, queries: Tensor) -> range:
        """Copy the queries with targets (M, 3) of an epoch or a span, in order, to the device; return the step numbers.

        All inputs of a step and the counter of steps stay on the device, so a step is only a replay. It takes half a
        millisecond, so waiting for the host between steps would be slow.
        The rows that each batch looks up are sorted here. Steps can then add the gradients of repeated rows in a fixed
        order without atomic operations.
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
        weights = weight.view(torch.int32).reshape(count, size)
        entities = grouped(torch.cat([h, t], dim=1), self.model.n_entities)
        relations = grouped(r, 2 * self.model.n_relations)
        self._take(torch.cat([h, r, t, weights, *entities, *relations], dim=1))
        return range(count)

    def _take(self, inputs: Tensor) -> None:
        """Copy the inputs (steps, n) to the memory that recorded steps read; a shorter span changes the first rows."""
        if inputs.shape[1] == self._inputs.shape[1] and len(inputs) <= len(self._inputs):
            self._inputs[: len(inputs)].copy_(inputs)
        else:
            self._inputs, self._costs, self._replay = inputs, torch.zeros(len(inputs), 2, device=inputs.device), None
        self._next.zero_()
        self._expected = 0

    def __call__(self, number: int) -> Tensor:
        """Do the step with this number, usually the next one."""
        if self.recipe.optimizer == "adagrad":
            for parameter in self.model.parameters():
                self.optimizer.state[parameter]["step"] += 1
        if number != self._expected:
            self._next.fill_(number)
        self._expected = number + 1
        if self.model.device.type != "cuda" or self._warmed_up < WARM_UP_STEPS:
            self._warmed_up += 1
            self._plain()
        else:
            self._replay = self._replay or recorded_work(self._plain)
            self._replay()
        return self._costs[number]

    def _plain(self) -> None:
        assert self._queries is not None
        queries, entities, relations, size = self._queries, self._queries.table, self._relations, self.recipe.batch
        batch = self._inputs.index_select(0, self._next)[0]
        h, r, t, bits, *groups = torch.split(batch, [size] * 4 + self._lengths())
        looked_up, looked_up_relations = RowGroups(*groups[:3]), RowGroups(*groups[3:])
        weight = bits.view(torch.float32)
        if entities.weights.ticks:
            entities.weights.clock.add_(1)
            relations.clock.add_(1)
        queries.forward(h, r, t)
        product = entities.step(weight, looked_up)
        rows, relation_rows = queries.backward(h, r, t, product, weight)
        entities.finish(looked_up, rows)
        self._optimise_relations(relations, looked_up_relations, relation_rows)
        self._costs.index_copy_(0, self._next, (entities.costs @ weight)[None])
        self._next.add_(1)

    def _lengths(self) -> list[int]:
        """The lengths of the six parts of the two row groups in a step's input."""
        size = self.recipe.batch
        entities, relations = self.model.n_entities, 2 * self.model.n_relations
        return [2 * size, 2 * size, min(2 * size, entities), size, size, min(size, relations)]

    def _optimise_relations(self, relations: Optimised, looked_up: RowGroups, gradients: Tensor) -> None:
        if relations.rule != "adam":
            optimise_rows(relations, looked_up, gradients)
            return
        dense = torch.zeros_like(relations.table)
        optimise_rows(relations, looked_up, gradients, collect=dense)
        optimise_table(relations, dense)

    def _bind(self) -> None:
        """Create buffers for the tables and optimiser state, again if a checkpoint has replaced their memory."""
        entities, relations = (self._optimised(p) for p in (self.model.entities.weight, self.model.relations))
        bound = self._queries
        if bound is None or not (bound.table.weights.same_memory(entities) and self._relations.same_memory(relations)):
            self._relations, self._warmed_up, self._replay, self._queries = relations, 0, None, None
            table = FusedTable(
                entities,
                questions=self.recipe.batch,
                dtype=precision_of(self.recipe.precision),
                budget=self.model.entities.bytes_allowed,
                tile=self.tile,
            )
            form, recipe = self.model.form, self.recipe
            assert isinstance(form, TiedForm), "why_not allows only tied forms"
            self._queries = bound = FusedQueries(form, table, relations.table, n3=recipe.n3, f2=recipe.f2)
        bound.table.refresh()

    def _optimised(self, parameter: torch.nn.Parameter) -> Optimised:
        rule, state = self.optimizer.rule, self.optimizer.of(parameter)
        memories = tuple(state[name] for name in SLOTS[rule])
        return Optimised(parameter.detach(), rule, self.optimizer.lr, memories, state.get("step"))


def grouped(ids: Tensor, of: int) -> RowGroups:
    """Sort the looked-up ids (batches, n) of each batch; at most `of` ids are distinct."""
    sorted_ids, order = torch.sort(ids, dim=1, stable=True)
    count = ids.shape[1]
    place = torch.arange(count, device=ids.device, dtype=torch.int32).expand_as(ids)
    fresh = torch.ones_like(sorted_ids, dtype=torch.bool)
    fresh[:, 1:] = sorted_ids[:, 1:] != sorted_ids[:, :-1]
    starts = torch.where(fresh, place, count).sort(dim=1).values[:, : min(count, of)]
    return RowGroups(sorted_ids, order.int(), starts)
