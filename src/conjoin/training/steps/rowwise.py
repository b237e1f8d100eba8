"""The step without a gradient of the whole entity table: for tables that are large, sharded or sampled.

The objective computes loss and gradients as for other steps; only the order differs. Tiles of the table are updated as
soon as their gradient is known, and the heads and tails of the batch last.
"""

from __future__ import annotations

import torch
from torch import Tensor

from conjoin.model.model import Model
from conjoin.model.softmax import NegativeSample, averaged_sum
from conjoin.training.objective import Batch, Objective, gradient_of
from conjoin.training.optimizer import RowOptimizer


def rowwise_step(
    model: Model,
    h: Tensor,
    r: Tensor,
    t: Tensor,
    objective: Objective,
    *,
    update: RowOptimizer,
    sample: NegativeSample | None,
    weight: Tensor | None = None,
) -> Tensor:
    """Update the entities, leave the relations' gradient in .grad and return one number per term.

    `h`, `r` and `t` are (B,), `weight` is (B,) with the sum 1. Without a `sample` the softmax is over all entities.
    """
    entities, batch = model.entities, Batch.of(model, h, r, t)
    q = batch.query.detach()
    ids = torch.cat([h, t]) if objective.sees_tails else h
    places, own = entities.owned(ids)
    touched, gradients = [own], []
    if sample is None:
        update.begin(own)
        nll, dq = entities.softmax_by_tiles(q, t, take=update.tile, weight=weight)
    else:

        def keep(rows: Tensor, gradient: Tensor) -> None:
            touched.append(rows)
            gradients.append(gradient)

        nll, dq = entities.sampled_softmax(q, t, sample, take=keep, weight=weight)
    costs = objective.backward(batch, averaged_sum(nll, weight), dq)
    leaves = [batch.heads, batch.tails] if objective.sees_tails else [batch.heads]
    looked_up = torch.cat([gradient_of(leaf) for leaf in leaves])[places]
    if sample is None:
        update.finish(own, looked_up)
    else:
        update.rows(torch.cat(touched), torch.cat([looked_up, *gradients]))
    return costs
