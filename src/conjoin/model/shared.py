"""The softmax loss of a table that is gone through tile by tile, whole or one shard of several, and of a sample of it.

Neither needs a gradient as large as the table: what a tile's gradient is for is decided by whoever takes it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from conjoin.model.rows import add_rows
from conjoin.processes import ALONE, Mesh


@dataclass(frozen=True)
class Sample:
    """Entities that stand for all of them: ids (K,), sorted, repeated ones allowed.

    Softmax over a sample learns scores minus log Q, where Q is how often an entity is drawn; `log_q` (K,) and
    `log_q_of_targets` (B,), up to one constant for both, are taken off, so that the model learns the scores.
    """

    ids: Tensor
    log_q: Tensor
    log_q_of_targets: Tensor


def shared_softmax(
    q: Tensor,
    rows: Tensor,
    t: Tensor,
    *,
    chunk: int,
    take: Callable[[int, Tensor], None],
    first: int = 0,
    mesh: Mesh = ALONE,
) -> tuple[Tensor, Tensor]:
    """Negative log-likelihoods (B,) and the gradient of their mean in q, of a table that holds `rows` from `first` on.

    All processes of the mesh hold the same q (B, w) and t (B,). Tiles' gradients go to `take`, which may change those
    rows: nothing reads them afterwards.
    """
    part = mesh.part(len(q))
    ours, truth = q[part], t[part]
    places, own = inside(truth, first, len(rows))
    starts = range(0, len(rows), chunk)
    largest = torch.full_like(ours[:, 0], -torch.inf)
    total = torch.zeros_like(largest)
    for start in starts:
        scores = ours @ rows[start : start + chunk].T
        higher = torch.maximum(largest, scores.amax(dim=1))
        total = total * (largest - higher).exp() + scores.sub_(higher[:, None]).exp_().sum(dim=1)
        largest = higher
        del scores
    of_truth = torch.zeros_like(largest)
    of_truth[places] = (ours[places] * rows[own]).sum(dim=1)
    highest = mesh.highest(largest.clone())
    total, of_truth = mesh.total(torch.stack([total * (largest - highest).exp(), of_truth]))
    log_total = total.log().add_(highest)
    share = ours / len(q)
    dq = torch.zeros_like(ours)
    dq[places] -= rows[own]
    every_place, every_own = inside(t, first, len(rows))
    for start in starts:
        tile = rows[start : start + chunk]
        p = torch.addmm(log_total[:, None], ours, tile.T, beta=-1).exp_()
        dq.addmm_(p, tile)
        gradient = mesh.over_replicas(p.T @ share)
        del p
        here = (every_own >= start) & (every_own < start + len(tile))
        add_rows(gradient, every_own[here] - start, q[every_place[here]] / -len(q))
        take(start, gradient)
    return assembled(log_total - of_truth, len(q), mesh), assembled(mesh.total(dq), len(q), mesh) / len(q)


def sampled_softmax(
    q: Tensor,
    rows: Tensor,
    t: Tensor,
    sample: Sample,
    *,
    take: Callable[[Tensor, Tensor], None],
    first: int = 0,
    mesh: Mesh = ALONE,
) -> tuple[Tensor, Tensor]:
    """The same against the target and a sample shared by all questions; a sampled target does not compete with itself.

    `take` gets rows, with repetitions, and their gradients.
    """
    part = mesh.part(len(q))
    ours, truth = q[part], t[part].contiguous()
    places, own = inside(truth, first, len(rows))
    kept, drawn = inside(sample.ids, first, len(rows))
    negatives = rows[drawn]
    scores = torch.addmm(sample.log_q[kept].to(ours), ours, negatives.T, beta=-1)
    _hide(scores, sample.ids[kept], truth)
    of_truth = torch.full_like(ours[:, 0], -torch.inf)
    of_truth[places] = (ours[places] * rows[own]).sum(dim=1) - sample.log_q_of_targets[part][places].to(ours)
    highest = mesh.highest(torch.maximum(scores.amax(dim=1), of_truth) if len(drawn) else of_truth.clone())
    p = scores.sub_(highest[:, None]).exp_()
    total = mesh.total(p.sum(dim=1) + (of_truth - highest).exp())
    p.div_(total[:, None])
    log_total = total.log().add_(highest)
    of_truth = mesh.highest(of_truth)
    p_truth = (of_truth - log_total).exp()
    dq = p @ negatives
    dq[places] += (p_truth[places] - 1)[:, None] * rows[own]
    of_negatives = mesh.over_replicas(p.T @ (ours / len(q)))
    nll, missing = assembled(torch.stack([log_total - of_truth, p_truth - 1], dim=1), len(q), mesh).unbind(dim=1)
    every_place, every_own = inside(t, first, len(rows))
    of_targets = (missing / len(q))[every_place, None] * q[every_place]
    take(torch.cat([drawn, every_own]), torch.cat([of_negatives, of_targets]))
    return nll, assembled(mesh.total(dq), len(q), mesh) / len(q)


def _hide(scores: Tensor, ids: Tensor, truth: Tensor) -> None:
    """A score of -inf for every target that is among the sorted ids, as often as it is."""
    first, behind = (torch.searchsorted(ids, truth, right=right) for right in (False, True))
    most = int((behind - first).max()) if len(truth) else 0
    for number in range(most):
        question = (first + number < behind).nonzero().squeeze(1)
        scores[question, first[question] + number] = -torch.inf


def inside(ids: Tensor, first: int, count: int) -> tuple[Tensor, Tensor]:
    """The places of the ids that are among `count` rows from `first` on, and those rows."""
    places = ((ids >= first) & (ids < first + count)).nonzero().squeeze(1)
    return places, ids[places] - first


def assembled(part: Tensor, questions: int, mesh: Mesh) -> Tensor:
    """Results of all questions, from those of this replica."""
    if mesh.replicas == 1:
        return part
    whole = part.new_zeros(questions, *part.shape[1:])
    whole[mesh.part(questions)] = part
    return mesh.over_replicas(whole)
