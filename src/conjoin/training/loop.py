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
    """The progress of a training. Resuming needs this, the weights, the optimiser's state and the costs of the finished
    steps of an interrupted epoch. `stale` counts validations without a better MRR. `seconds` is the time of those
    steps."""

    epoch: int = 0
    best_epoch: int = 0
    best_mrr: float = -1.0
    stale: int = 0
    seconds: float = 0.0

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> Progress:
        """Progress from the values of a checkpoint. ValueError for values that no training can have, because a
        checkpoint may come from anywhere."""
        progress = cls(**stored)
        for name, usual in asdict(cls()).items():
            value = getattr(progress, name)
            if type(value) is not type(usual) or not math.isfinite(value) or (type(usual) is int and value < 0):
                allowed = "finite" if type(usual) is float else "an integer that is not negative"
                raise ValueError(f"{name} must be {allowed}, got {value!r}")
        return progress


class Training(Iterator[Epoch]):
    """Trains a model; each iteration is one epoch.

    The order of the examples depends only on seed and epoch, so a checkpoint needs no state of a random generator.
    If `track` interrupts an epoch between two steps, `costs` holds the costs of the finished steps (one number per term
    each), and the next iteration does the rest of the epoch. Pass `step` to continue with the optimiser of another
    training. `fact_weights` (n_train,) weighs the loss of each training fact (`conjoin.training.weights`).
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
            raise UsageError(f"{graph.name} has no training triples. Training needs at least one.")
        model.check_graph(graph.name, n_entities=graph.n_entities, n_relations=graph.n_relations)
        _check_trainable(model)
        check_recipe(recipe)
        if recipe.validate_every and not len(graph.valid):
            raise UsageError(
                f"validate_every = {recipe.validate_every}, but {graph.name} has no validation triples. Leave out "
                f"validate_every, or {HOLD_MORE_OUT}."
            )
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
        return f"Training({self.model.form} on {self.graph.name}, {done} done; each iteration trains one epoch)"

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
        """A context with the number of threads that suits the size of a step's products."""
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
        """Train one epoch; return the mean of each term of the objective."""
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
        """The inputs (batch, negatives, weights) of the steps of an epoch that are not finished yet.

        The negatives of finished steps are drawn again, so that later steps get the same negatives as in an epoch
        without interruption.
        """
        done, size, negatives = len(self.costs), self.recipe.batch, self._negatives
        source = generator(self.seed, "negatives", number)
        for _ in range(done if negatives else 0):
            negatives.draw(order[:0].to(self.model.device), source)  # type: ignore[union-attr]
        copied = 0
        for start, questions in self._questions.spans(order, done * size):
            if fresh := self.costs[
                copied:
            ]:  # Copied, because steps of the next span may reuse the memory of their costs.
                self.costs[copied:] = torch.stack(fresh).unbind()
            copied = len(self.costs)
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
                if name in self.best_weights:  # in place, so that memory never holds a third table
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
            raise UsageError(
                "The model was converted under torch.inference_mode and cannot be trained. Convert it outside."
            )
    if tables[0].requires_grad != tables[1].requires_grad:
        raise UsageError(
            "Only one of entities and relations has requires_grad. Training needs both; call model.requires_grad_()."
        )


def divergence(recipe: Recipe, epoch: int, step: int, *, nll: float, penalty: float) -> str:
    """The message of Diverged: the step and the likely cause, judged by the term that is not finite and by the step."""
    if (epoch, step) == (1, 1):
        cause = f"the initial weights are too large (initial_scale = {recipe.initial_scale}). Try 0.001."
    elif math.isfinite(nll) and not math.isfinite(penalty):
        cause = f"the penalty overflowed because lr = {recipe.lr} is too large. Try a tenth of it."
    else:
        cause = f"lr = {recipe.lr} is too large for this data. Try a tenth of it, or a larger n3."
    return f"The loss is not finite at step {step} of epoch {epoch}. Likely cause: {cause}"


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

    Without a recipe `conjoin.training.presets.settings_for` chooses the settings for the graph and the form, as
    `conjoin train` does; products are float32. The model ends with the weights of the last epoch. If the recipe has
    `validate_every`, the weights with the best MRR on valid are in `best_weights` of the returned Training.

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
