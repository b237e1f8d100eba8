"""One optimiser step, in the way that suits the device."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from shutil import which
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from conjoin.errors import UsageError
from conjoin.forms.base import Form
from conjoin.forms.complex import ComplEx
from conjoin.forms.five_star import FiveStar
from conjoin.forms.pair import Pair
from conjoin.model.model import Model
from conjoin.model.softmax import NegativeSample
from conjoin.runtime.device import has_bf16_products, recorded, too_old
from conjoin.training.objective import Objective
from conjoin.training.optimizer import Optimizer, RowOptimizer
from conjoin.training.recipe import Precision, Recipe
from conjoin.training.steps.dense import gradients, gradients_on_cpu
from conjoin.training.steps.rowwise import rowwise_step
from conjoin.training.weights import parts_of

if TYPE_CHECKING:
    from conjoin.training.steps.fused import FusedStep

NOTHING: Mapping[str, Any] = MappingProxyType({})
WITH_KERNELS = (ComplEx, FiveStar, Pair)
REHEARSALS = 3
"""Plain steps before recording: they create gradient buffers, optimiser state and library handles."""


class TrainingStep:
    """Prepared batches in, (mean nll, penalty) out, weights changed.

    A step is some eighty small kernels beside three large products; on a GPU, launching them takes longer than running
    them. There the step of a full batch is recorded once and replayed, and where it can be, it is made of few kernels
    (training/steps/fused.py). `fused=False` refuses those.
    """

    def __init__(self, model: Model, recipe: Recipe, *, fused: bool = True, weighted: bool = False) -> None:
        self.model, self.recipe, self.objective = model, recipe, Objective.of(recipe)
        self.objective.check(model.form, model.rank)
        self.optimizer = optimizer_for(model, recipe)
        self.obstacle = why_not(model, recipe, weighted=weighted) if fused else "plain kernels were asked for"
        if self.obstacle and recipe.precision == "bf16" and model.device.type == "cuda":
            raise UsageError(
                f"precision bf16 is not possible here ({self.obstacle}): use tf32 or fp32, in a new folder if this one "
                "was begun in bf16"
            )
        self._fused = None if self.obstacle else _fused(model, recipe, self.optimizer)
        self._update: RowOptimizer | None = None
        if self._fused is None and (recipe.negatives or model.entities.in_tiles(recipe.batch)):
            self._update = RowOptimizer(self.optimizer, model.entities.weight)
        self._full = why_full(model, recipe)
        self._rehearsed = 0
        self._replay: Callable[..., Tensor] | None = None

    @property
    def path(self) -> str:
        """Which implementation runs, and why, in words."""
        if self.obstacle is None:
            return f"fused {self.recipe.precision} kernels"
        sampled = self.recipe.negatives
        plain = f"sampled by {sampled} entities" if sampled else self.model.entities.path(self.recipe.batch)
        if self.model.device.type == "cuda":
            return f"{plain}; not fused: {self.obstacle}"
        if self.recipe.precision == "fp32":
            return plain
        return f"{plain}; fp32: {self._full}" if self._full else f"{plain}; gradients by bf16 products"

    def batches(self, queries: Tensor) -> Sequence[Tensor | int]:
        """Questions (M, 3), in their order, as inputs of steps: for fused steps, their numbers."""
        return self._fused.batches(queries) if self._fused else torch.split(queries, self.recipe.batch)

    def __call__(
        self, batch: Tensor | int, sample: NegativeSample | None = None, weights: Tensor | None = None
    ) -> Tensor:
        """Do one step on a batch of `batches`. `weights` (B,) weighs the cross-entropy of its examples."""
        if self._fused:
            assert isinstance(batch, int)
            return self._fused(batch)
        assert isinstance(batch, Tensor)
        if self._update is not None:
            h, r, t = batch.unbind(dim=1)
            costs = rowwise_step(
                self.model, h, r, t, self.objective, update=self._update, sample=sample, weight=self._parts(weights)
            )
            self.optimizer.step()
            return costs
        if self.model.device.type != "cuda" or len(batch) != self.recipe.batch:
            return self._plain(batch, weights)
        if self._rehearsed < REHEARSALS:
            self._rehearsed += 1
            return self._plain(batch, weights)
        inputs = (batch,) if weights is None else (batch, weights)
        if self._replay is None:
            self._replay = recorded(self._plain, *inputs)
        return self._replay(*inputs)

    def _parts(self, weights: Tensor | None) -> Tensor | None:
        return None if weights is None else parts_of(weights, self.model.relations.dtype)

    def _plain(self, examples: Tensor, weights: Tensor | None = None) -> Tensor:
        h, r, t = examples.unbind(dim=1)
        weight = self._parts(weights)
        if examples.is_cuda or not self.model.entities.whole:
            costs = gradients(self.model, h, r, t, self.objective, weight=weight)
        else:
            factors = None if self._full else torch.bfloat16
            costs = gradients_on_cpu(
                self.model, h, r, t, self.objective, group=self.recipe.group_queries > 1, factors=factors, weight=weight
            )
        self.optimizer.step()
        return costs


def _fused(model: Model, recipe: Recipe, optimizer: Optimizer) -> FusedStep:
    from conjoin.training.steps.fused import FusedStep

    return FusedStep(model, recipe, optimizer)


def why_not(model: Model, recipe: Recipe, *, weighted: bool = False) -> str | None:
    """The reason why fused kernels cannot train a model; None where they can."""
    if model.device.type != "cuda":
        return "fused kernels need a CUDA device"
    if recipe.negatives:
        return "the softmax is sampled"
    if recipe.terms:
        return f"there are no fused kernels for the term {', '.join(recipe.terms)}"
    if weighted or recipe.target_weights != "none":
        return "examples have weights"
    if not model.entities.whole:
        return "several processes share the table"
    if recipe.precision == "fp32":
        return "precision fp32 asks for plain float32 products"
    if model.relations.dtype != torch.float32:
        return "fused kernels keep float32 weights"
    if type(model.form) not in WITH_KERNELS:
        return f"there are no kernels for the form {model.form.family}"
    return _lacking(model.device)


def why_full(model: Model, recipe: Recipe) -> str | None:
    """What keeps a CPU from making gradients by bf16 products, in words; None where nothing does."""
    if recipe.precision != "bf16":
        return f"{recipe.precision} is for GPUs" if recipe.precision == "tf32" else "it was asked for"
    if recipe.negatives:
        return "the softmax is sampled"
    if model.entities.in_tiles(recipe.batch):
        return "the gradient is made tile by tile"
    if not model.form.heads_as_tails:
        return "heads and tails are read in different layouts"
    if model.relations.dtype != torch.float32:
        return "weights are not float32"
    return None if has_bf16_products() else "this processor has no bf16 products"


def _lacking(device: torch.device) -> str | None:
    """What a machine with a CUDA device lacks for fused kernels, in words."""
    if too_old(device):
        return "fused kernels need compute capability 8.0 (Ampere) or newer"
    if find_spec("triton") is None:
        return "triton is not installed"
    if not any(map(which, ("cc", "gcc", "clang"))):
        return "triton needs a C compiler, and none was found"
    return None


def usual_precision(
    device: torch.device, form: Form, *, settings: Mapping[str, Any] = NOTHING, processes: int = 1
) -> Precision:
    """The fastest products that were measured to cost no quality (studies/precision.toml), for this machine, form and
    the recipe's `settings` so far.

    >>> usual_precision(torch.device("cpu"), FiveStar())
    'fp32'
    """
    if device.type != "cuda":
        return "fp32"
    weighted = settings.get("target_weights", "none") != "none"
    plain = settings.get("negatives") or settings.get("terms") or weighted
    plain = plain or processes > 1 or type(form) not in WITH_KERNELS
    return "tf32" if plain or _lacking(device) else "bf16"


def optimizer_for(model: Model, recipe: Recipe) -> Optimizer:
    """The recipe's optimiser over both tables."""
    return Optimizer(model.parameters(), rule=recipe.optimizer, lr=recipe.lr)
