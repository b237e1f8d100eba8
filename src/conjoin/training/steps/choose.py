"""The training step: chooses the implementation that suits the device, the form and the recipe."""

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
WARM_UP_STEPS = 3
"""Steps before recording: they create gradient buffers, optimiser state and library handles."""


class TrainingStep:
    """Takes a batch, updates the weights and returns one number per term of the objective.

    A step has about eighty small kernels beside three large products, and on a GPU launching them takes longer than
    running them. There the step of a full batch is recorded once and replayed. If form and recipe allow it, the step
    uses a few fused kernels instead (training/steps/fused.py); `fused=False` switches these off.
    """

    def __init__(self, model: Model, recipe: Recipe, *, fused: bool = True, weighted: bool = False) -> None:
        self.model, self.recipe, self.objective = model, recipe, Objective.of(recipe)
        self.objective.check(model.form, model.rank)
        self.optimizer = optimizer_for(model, recipe)
        self.obstacle = why_not(model, recipe, weighted=weighted) if fused else "fused=False"
        if self.obstacle and recipe.precision == "bf16" and model.device.type == "cuda":
            raise UsageError(
                f"precision = bf16 is not possible here ({self.obstacle}). Use tf32 or fp32; a run that was started in "
                "bf16 needs a new folder."
            )
        self._fused = None if self.obstacle else _fused(model, recipe, self.optimizer)
        self._update: RowOptimizer | None = None
        if self._fused is None and (recipe.negatives or model.entities.in_tiles(recipe.batch)):
            self._update = RowOptimizer(self.optimizer, model.entities.weight)
        self._full = why_full(model, recipe)
        self._warmed_up = 0
        self._replay: Callable[..., Tensor] | None = None

    @property
    def path(self) -> str:
        """The implementation that runs and the reason, as text."""
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
        """Queries with targets (M, 3) in order, as inputs of steps: batches (B, 3), or numbers of fused steps."""
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
        if self._warmed_up < WARM_UP_STEPS:
            self._warmed_up += 1
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
    """The reason why fused kernels cannot train a model; None if they can."""
    if model.device.type != "cuda":
        return "fused kernels need a CUDA device"
    if recipe.negatives:
        return "the softmax is sampled"
    if recipe.terms:
        return f"fused kernels do not support the term {', '.join(recipe.terms)}"
    if weighted or recipe.target_weights != "none":
        return "examples have weights"
    if not model.entities.whole:
        return "several processes share the table"
    if recipe.precision == "fp32":
        return "precision is fp32"
    if model.relations.dtype != torch.float32:
        return "weights are not float32"
    if type(model.form) not in WITH_KERNELS:
        return f"fused kernels do not support the form {model.form.family}"
    return _lacking(model.device)


def why_full(model: Model, recipe: Recipe) -> str | None:
    """The reason why a CPU does not compute gradients by bf16 products; None if it does."""
    if recipe.precision != "bf16":
        return f"{recipe.precision} is for GPUs" if recipe.precision == "tf32" else "precision is fp32"
    if recipe.negatives:
        return "the softmax is sampled"
    if model.entities.in_tiles(recipe.batch):
        return "the gradient is computed by tiles"
    if not model.form.heads_as_tails:
        return "the form reads heads and tails in different layouts"
    if model.relations.dtype != torch.float32:
        return "weights are not float32"
    return None if has_bf16_products() else "this processor does not support bf16 products"


def _lacking(device: torch.device) -> str | None:
    """The reason why a machine with a CUDA device cannot run fused kernels; None if it can."""
    if too_old(device):
        return "fused kernels need compute capability 8.0 (Ampere) or newer"
    if find_spec("triton") is None:
        return "triton is not installed"
    if not any(map(which, ("cc", "gcc", "clang"))):
        return "triton needs a C compiler (cc, gcc or clang), and none is on PATH"
    return None


def usual_precision(
    device: torch.device, form: Form, *, settings: Mapping[str, Any] = NOTHING, processes: int = 1
) -> Precision:
    """The fastest precision that did not lower MRR in studies/precision.toml, for this device, form and settings of the
    recipe.

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
    """The recipe's optimiser over all parameters of the model."""
    return Optimizer(model.parameters(), rule=recipe.optimizer, lr=recipe.lr)
