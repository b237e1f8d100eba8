"""Training is an iterator of epochs: `for epoch in train(model, graph, recipe): ...`"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from conjoin.errors import Diverged, UsageError
from conjoin.evaluation.rank import rank
from conjoin.graph.graph import Graph
from conjoin.graph.split import HOLD_MORE_OUT
from conjoin.model.init import generator
from conjoin.model.model import Model, check_dtype
from conjoin.model.softmax import NegativeSample
from conjoin.runtime.device import matmul_precision, synchronize, threads_for
from conjoin.runtime.progress import Track, silent
from conjoin.training.batches import EpochQueries
from conjoin.training.negatives import Negatives
from conjoin.training.presets import settings_for
from conjoin.training.recipe import Recipe, check_recipe
from conjoin.training.steps.choose import TrainingStep
from conjoin.training.weights import ExampleWeights


@dataclass(frozen=True)
class Epoch:
    """The result of one pass over both directions of the training facts. `valid` holds metrics where the epoch was
    validated.

    `loss` is the mean cross-entropy of the queries and `penalty` the sum of their mean penalties. `terms` holds each
    term of the objective by its name, multiplied by its weight; training lowers the sum of these.

    >>> Epoch(number=1, loss=6.09, penalty=0.2, seconds=0.3).valid is None
    True
    """

    number: int
    loss: float
    penalty: float
    seconds: float
    valid: Mapping[str, float] | None = None
    best: bool = False
    terms: Mapping[str, float] = field(default_factory=dict)


@dataclass
class Progress:
    """Where a training stands; with the weights, the optimiser's state and the costs of the steps done in the epoch
    under way this is all that resuming needs. `seconds` is the time that these steps took."""

    epoch: int = 0
    best_epoch: int = 0
    best_mrr: float = -1.0
    stale: int = 0
    seconds: float = 0.0

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> Progress:
        """From a checkpoint, which anyone may have written; a ValueError where no training can stand so."""
        found = cls(**stored)
        for name, usual in asdict(cls()).items():
            value = getattr(found, name)
            if type(value) is not type(usual) or not math.isfinite(value) or (type(usual) is int and value < 0):
                raise ValueError(f"{name} = {value!r} is not where a training can stand")
        return found


class Training(Iterator[Epoch]):
    """One model on its way. The order of the examples belongs to (seed, epoch), so there is no random state to keep.

    Where `track` breaks an epoch off between two steps, `costs` holds those of the steps done, each with one number per
    term, and the next epoch is the rest of this one. `step` goes on with the optimiser of another training.
    `fact_weights` (n_train,) weighs the loss of each training fact (`conjoin.training.weights`).
    """

    @torch.inference_mode(mode=False)
    def __init__(
        self,
        model: Model,
        graph: Graph,
        recipe: Recipe,
        *,
        seed: int = 0,
        track: Track = silent,
        step: TrainingStep | None = None,
        fact_weights: npt.ArrayLike | None = None,
    ) -> None:
        if not len(graph.train):
            raise UsageError(f"{graph.name} has no training triples")
        model.check_graph(graph.name, n_entities=graph.n_entities, n_relations=graph.n_relations)
        _check_trainable(model)
        check_recipe(recipe)
        if recipe.validate_every and not len(graph.valid):
            raise UsageError(f"{graph.name} has no validation triples: leave out validate_every, or {HOLD_MORE_OUT}")
        self.model, self.graph, self.recipe, self.seed, self.track = model, graph, recipe, seed, track
        weights = ExampleWeights(graph, recipe, fact_weights, device=model.device)
        self._weights = None if weights.uniform else weights
        self.step = step or TrainingStep(model, recipe, weighted=self._weights is not None)
        self.progress = Progress()
        self.best_weights: dict[str, Tensor] = {}
        self._negatives = Negatives(graph, recipe, device=model.device) if recipe.negatives else None
        self.costs: list[Tensor] = []
        self._questions = EpochQueries(graph.train, graph.n_relations, batch=recipe.batch, device=model.device)

    def __repr__(self) -> str:
        done = f"{self.progress.epoch} of {self.recipe.epochs} epochs"
        return f"Training({self.model.form} on {self.graph.name}, {done} done; every step of this iterator is one)"

    @property
    def finished(self) -> bool:
        done = self.progress.epoch >= self.recipe.epochs
        return done or bool(self.recipe.patience and self.progress.stale >= self.recipe.patience)

    @torch.inference_mode(mode=False)
    def __next__(self) -> Epoch:
        if self.finished:
            raise StopIteration
        number = self.progress.epoch + 1
        synchronize(self.model.device)
        self.model.train()
        try:
            with matmul_precision(self.recipe.precision), self.threads(), self._clock():
                costs = self._pass(number)
        finally:
            self.model.eval()
        objective = self.step.objective
        terms = objective.by_name(costs)
        epoch = Epoch(number, costs[0], objective.penalties(costs), self.progress.seconds, terms=terms)
        every = self.recipe.validate_every
        if every and (number % every == 0 or number == self.recipe.epochs):
            epoch = self._validated(epoch)
        self.progress.epoch, self.progress.seconds, self.costs = number, 0.0, []
        return epoch

    def threads(self) -> AbstractContextManager[None]:
        """As many threads as the products of a step keep busy."""
        width = self.model.entities.weight.shape[1]
        return threads_for(6 * self.recipe.batch * width * (self.recipe.negatives or len(self.model.entities.weight)))

    @contextmanager
    def _clock(self) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.progress.seconds += time.perf_counter() - start

    def _pass(self, number: int) -> list[float]:
        """One epoch; the mean of each of the objective's terms."""
        order = self._questions.in_order(self.recipe.group_queries, generator(self.seed, "order", number))
        count = -(-len(order) // self.recipe.batch)
        left = count - len(self.costs)
        for batch, sample, weights in self.track(self._steps(number, order), f"epoch {number}", left):
            self.costs.append(self.step(batch, sample, weights))
        per_step = torch.stack(self.costs).cpu().double().numpy()
        bad = np.flatnonzero(~np.isfinite(per_step).all(axis=1))
        if len(bad):
            nll, *others = map(float, per_step[bad[0]])
            raise Diverged(divergence(self.recipe, number, int(bad[0]) + 1, nll=nll, penalty=sum(others)))
        shares = np.diff(np.minimum(np.arange(count + 1) * self.recipe.batch, len(order))) / len(order)
        return [float(cost) for cost in shares @ per_step]

    def _steps(self, number: int, order: Tensor) -> Iterator[tuple[Tensor | int, NegativeSample | None, Tensor | None]]:
        """The inputs of the steps of an epoch that are not done yet (batch, negatives, weights), a span at a time.

        The samples of steps that were done before are drawn again, so that the others are those of an unbroken epoch.
        """
        done, size, negatives = len(self.costs), self.recipe.batch, self._negatives
        source = generator(self.seed, "negatives", number)
        for _ in range(done if negatives else 0):
            negatives.draw(order[:0].to(self.model.device), source)  # type: ignore[union-attr]
        kept = 0
        for start, questions in self._questions.spans(order, done * size):
            if fresh := self.costs[kept:]:  # A step may write its costs where those of the span before stand.
                self.costs[kept:] = torch.stack(fresh).unbind()
            kept = len(self.costs)
            skipped = max(0, done - start // size)
            targets = torch.split(questions[:, 2], size)[skipped:]
            weights: Sequence[Tensor | None] = [None] * len(targets)
            if self._weights is not None:
                of_span = self._weights.of(order[start : start + len(questions)], questions[:, 2])
                weights = torch.split(of_span, size)[skipped:]
            for batch, target, weight in zip(self.step.batches(questions)[skipped:], targets, weights, strict=True):
                yield batch, negatives.draw(target, source) if negatives else None, weight

    def _validated(self, epoch: Epoch) -> Epoch:
        valid = rank(self.model, self.graph, "valid", track=self.track).metrics()
        better = valid["mrr"] > self.progress.best_mrr
        if better:
            self.progress.best_epoch, self.progress.best_mrr, self.progress.stale = epoch.number, valid["mrr"], 0
            for name, tensor in self.model.state_dict().items():
                if name in self.best_weights:  # in place: there is never a third table
                    self.best_weights[name].copy_(tensor)
                else:
                    self.best_weights[name] = tensor.clone()
        else:
            self.progress.stale += 1
        return replace(epoch, valid=valid, best=better)


def _check_trainable(model: Model) -> None:
    tables = model.entities.weight, model.relations
    for table in tables:
        check_dtype(table.dtype, such_as=", such as model.float()")
        if table.is_inference():
            raise UsageError("a model converted under torch.inference_mode cannot be trained: convert it outside")
    if tables[0].requires_grad != tables[1].requires_grad:
        raise UsageError(
            "training changes entities and relations alike, and one of the two is frozen: model.requires_grad_()"
        )


def divergence(recipe: Recipe, epoch: int, step: int, *, nll: float, penalty: float) -> str:
    """Where it went wrong and the likely cause, by what was not finite, and when."""
    if (epoch, step) == (1, 1):
        cause = f"the start is too far out: initial_scale = {recipe.initial_scale} should be small, such as 0.001"
    elif math.isfinite(nll) and not math.isfinite(penalty):
        cause = f"factors grew until the penalty overflowed: lr = {recipe.lr} is too large; try a tenth of it"
    else:
        cause = f"lr = {recipe.lr} is too large for this data; try a tenth of it, or a larger n3"
    return f"the loss is not finite at step {step} of epoch {epoch}: the model has diverged. Likely cause: {cause}."


def train(
    model: Model,
    graph: Graph,
    recipe: Recipe | None = None,
    *,
    seed: int = 0,
    track: Track = silent,
    fact_weights: npt.ArrayLike | None = None,
) -> Training:
    """Train `model` in place; each step of the iterator is one epoch. `seed` draws the order of the examples.
    `fact_weights`, one positive number per training fact in the order of `graph.train`, weigh the loss of the facts.

    Without a recipe the settings are those of `conjoin train` for this graph (`conjoin.training.presets.settings_for`),
    in float32. The model ends with the weights of the last epoch; a recipe with `validate_every` leaves the best ones
    on valid in `best_weights` of what is returned.

    >>> graph = Graph.from_triples([("France", "borders", "Spain"), ("Spain", "borders", "Portugal")])
    >>> model = Model("complex-conj", graph.n_entities, graph.n_relations, rank=4)
    >>> [epoch.number for epoch in train(model, graph, Recipe(epochs=2))]
    [1, 2]
    >>> graph = Graph.from_triples([("a", "r", "b"), ("b", "r", "c")], [("a", "r", "c")])
    >>> model = Model("complex-conj", graph.n_entities, graph.n_relations, rank=4)
    >>> training = train(model, graph, Recipe(epochs=4, validate_every=1))
    >>> epochs = list(training)
    >>> model.load_state_dict(training.best_weights)
    <All keys matched successfully>
    """
    chosen = recipe or Recipe.from_mapping(settings_for(graph, model.form))
    return Training(model, graph, chosen, seed=seed, track=track, fact_weights=fact_weights)
