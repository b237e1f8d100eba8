"""Softmax cross-entropy over all entities: dense, tiled, sharded and sampled, for dot products and any other link."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from conjoin.forms.link import DOT, Link
from conjoin.model.padding import add_rows, with_padding
from conjoin.runtime.distributed import ALONE, Mesh

CACHED = 1 << 19
"""Numbers of a tile: with 2 MiB, products run at full speed and sweeps stay in cache; sixteen times as many lost up to
half (docs/decisions/0014-tiles-on-the-cpu.md)."""
GRAIN = 64
"""Rows of a tile come in multiples of this, so that all tiles begin at the same alignment."""
LOG2_E = math.log2(math.e)
SAFE = 50.0
"""Scores up to here, of either sign, have exponentials whose sums stay far from the limits of float32, e^±87."""


def averaged(values: Tensor, weight: Tensor | None) -> Tensor:
    """The part of each value, (B,) or (B, ·), in their mean: divided by B, or times `weight` (B,), whose sum is 1."""
    if weight is None:
        return values / len(values)
    return values * (weight if values.ndim == 1 else weight[:, None])


def averaged_sum(values: Tensor, weight: Tensor | None) -> Tensor:
    """The mean of values (B,), weighted where there is a `weight` (B,) with the sum 1."""
    return values.mean() if weight is None else (values * weight).sum()


def dense_softmax(
    q: Tensor, table: Tensor, t: Tensor, *, out: Tensor, weight: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """The reference: holds the whole (B, N) matrix of scores, once. Room behind the rows is used and scores -inf."""
    room = with_padding(table) if table.is_cuda else table
    out_room = with_padding(out)[: len(room)] if table.is_cuda else out
    scores = q @ room.T
    scores[:, len(table) :] = -torch.inf
    log_p = torch.log_softmax(scores, dim=1)
    nll = -log_p.gather(1, t[:, None]).squeeze(1)
    p = log_p.exp_()
    share = averaged(q, weight)
    torch.mm(p.T, share, out=out_room)
    add_rows(out, t, -share)
    return nll, averaged(p @ room - table[t], weight)


def chunked_softmax(
    q: Tensor, table: Tensor, t: Tensor, *, out: Tensor, chunk: int, weight: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Memory-bounded: holds (B, chunk) scores at a time, never two such buffers at once, and computes them twice."""
    largest, total = _largest_and_total(q[:, 0], (q @ rows.T for rows in torch.split(table, chunk)))
    log_total = total.log().add_(largest)
    share = averaged(q, weight)
    dq = torch.zeros_like(q)
    for rows, gradient in zip(torch.split(table, chunk), torch.split(out, chunk), strict=True):
        p = torch.addmm(log_total[:, None], q, rows.T, beta=-1).exp_()
        torch.mm(p.T, share, out=gradient)
        dq.addmm_(p, rows)
        del p
    truth = table[t]
    add_rows(out, t, -share)
    return log_total - (q * truth).sum(dim=1), averaged(dq - truth, weight)


def tile_rows(batch: int, width: int) -> int:
    """Entities of a tile, from sizes alone."""
    return max(GRAIN, CACHED // max(batch, width) // GRAIN * GRAIN)


def tiled_softmax(
    q: Tensor,
    table: Tensor,
    t: Tensor,
    *,
    out: Tensor,
    tile: int,
    scratch: Tensor,
    place: Tensor | None = None,
    share: Tensor | float | None = None,
    weight: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Negative log-likelihoods of the targets t (B,) and the gradient of their mean: dq returned, d table in `out`.

    `place` (B,) says which of the queries (Q, w) each target belongs to, `share` (Q,) which part of the targets belongs
    to each query; without them, target and query have the same number. `weight` (B,), with the sum 1, makes the mean a
    weighted one; `share` then holds the sums of these weights. `scratch` is a flat buffer for powers,
    (tile, Q) each; it holds all tiles, or at least one, and its type is that of the gradients' factors.
    """
    batch, columns = len(q), (q * LOG2_E).T
    tiles = torch.split(table, tile)
    everything = scratch.numel() >= len(table) * batch
    kept = len(tiles) if everything else scratch.numel() // (tile * batch) - 1

    rounded = scratch.dtype != q.dtype
    exact = q.new_empty(tile * batch) if rounded else None

    def room_of(number: int) -> Tensor:
        first = min(number, kept) * tile * batch
        rows = len(tiles[number])
        return scratch[first : first + rows * batch].view(rows, batch)

    def scores_of(number: int) -> Tensor:
        room = room_of(number)
        return torch.mm(tiles[number], columns, out=room if exact is None else exact[: room.numel()].view(room.shape))

    small = _longest(q) * _longest(table) <= SAFE
    references: list[Tensor] = []
    reference, total, dq = q.new_full((batch,), 0 if small else -torch.inf), q.new_zeros(batch), torch.zeros_like(q)
    for number, rows in enumerate(tiles):
        powers = scores_of(number)
        if not small:
            higher = torch.maximum(reference, powers.amax(dim=0))
            shrink = (reference - higher).exp2_()
            total.mul_(shrink)
            dq.mul_(shrink[:, None])
            powers.sub_(higher)
            references.append(reference := higher)
        total.add_(powers.exp2_().sum(dim=0))
        if rounded:
            dq.add_(room_of(number).copy_(powers).T @ rows.to(scratch.dtype))
        else:
            dq.addmm_(powers.T, rows)
    part = 1 / len(t) if weight is None else weight
    scale = ((part if share is None else share) / total)[:, None]
    weighted = q * scale
    for number, gradient in enumerate(torch.split(out, tile)):
        powers = room_of(number)
        if number >= kept:
            again = scores_of(number)
            powers.copy_((again if small else again.sub_(references[number])).exp2_())
        lacking = weighted if small else weighted * (references[number] - reference).exp2_()[:, None]
        if rounded:
            gradient.copy_(powers @ lacking.to(scratch.dtype))
        else:
            torch.mm(powers, lacking, out=gradient)
    log_total = total.log_().add_(reference, alpha=1 / LOG2_E)
    truth = table.index_select(0, t)
    asked = q if place is None else q.index_select(0, place)
    nll = (log_total if place is None else log_total[place]) - (asked * truth).sum(dim=1)
    of_targets = -part if isinstance(part, float) else -part[:, None]
    add_rows(out, t, asked * of_targets)
    dq.mul_(scale)
    truth.mul_(of_targets)
    return nll, dq.add_(truth) if place is None else dq.index_add_(0, place, truth)


def _longest(rows: Tensor) -> float:
    return float(torch.linalg.vector_norm(rows, dim=1).max())


@dataclass(frozen=True)
class NegativeSample:
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
    link: Link = DOT,
    weight: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Negative log-likelihoods (B,) and the gradient of their mean in q, of a table that holds `rows` from `first` on.

    All processes of the mesh hold the same q (B, w) and t (B,). Tiles' gradients go to `take`, which may change those
    rows: nothing reads them afterwards.
    """
    part = mesh.part(len(q))
    ours, truth = q[part], t[part]
    places, own = inside(truth, first, len(rows))
    starts = range(0, len(rows), chunk)
    tiles = (link.scores(ours, rows[start : start + chunk]) for start in starts)
    largest, total = _largest_and_total(ours[:, 0], tiles)
    of_truth = torch.zeros_like(largest)
    of_truth[places] = link.pairs(ours[places], rows[own])
    highest = mesh.highest(largest.clone())
    total, of_truth = mesh.total(torch.stack([total * (largest - highest).exp(), of_truth]))
    log_total = total.log().add_(highest)
    share, dq = averaged(q, weight)[part], torch.zeros_like(ours)
    every_place, every_own = inside(t, first, len(rows))
    of_queries, of_rows = _pull_targets(link, q[every_place], rows[every_own])
    of_rows = of_rows / len(q) if weight is None else of_rows * weight[every_place, None]
    within = (every_place >= part.start) & (every_place < part.stop)
    dq[places] -= of_queries[within]
    parts = _parts(len(q), weight, part)
    for start in starts:
        tile = rows[start : start + chunk]
        p = _scores_less(link, ours, tile, log_total[:, None]).exp_()
        gradient = mesh.over_replicas(_pull_into(dq, link, p, ours, tile, share=share, part=parts))
        del p
        here = (every_own >= start) & (every_own < start + len(tile))
        add_rows(gradient, every_own[here] - start, -of_rows[here])
        take(start, gradient)
    dq = averaged(assembled(mesh.total(dq), len(q), mesh), weight)
    return assembled(log_total - of_truth, len(q), mesh), dq


def sampled_softmax(
    q: Tensor,
    rows: Tensor,
    t: Tensor,
    sample: NegativeSample,
    *,
    take: Callable[[Tensor, Tensor], None],
    first: int = 0,
    mesh: Mesh = ALONE,
    link: Link = DOT,
    weight: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """The same against the target and a sample shared by all queries; a sampled target does not compete with itself.

    `take` gets rows, with repetitions, and their gradients.
    """
    part = mesh.part(len(q))
    ours, truth = q[part], t[part].contiguous()
    places, own = inside(truth, first, len(rows))
    kept, drawn = inside(sample.ids, first, len(rows))
    negatives = rows[drawn]
    scores = _scores_less(link, ours, negatives, sample.log_q[kept].to(ours))
    _hide(scores, sample.ids[kept], truth)
    of_truth = torch.full_like(ours[:, 0], -torch.inf)
    of_truth[places] = link.pairs(ours[places], rows[own]) - sample.log_q_of_targets[part][places].to(ours)
    highest = mesh.highest(torch.maximum(scores.amax(dim=1), of_truth) if len(drawn) else of_truth.clone())
    p = scores.sub_(highest[:, None]).exp_()
    total = mesh.total(p.sum(dim=1) + (of_truth - highest).exp())
    p.div_(total[:, None])
    log_total = total.log().add_(highest)
    of_truth = mesh.highest(of_truth)
    p_truth = (of_truth - log_total).exp()
    dq = torch.zeros_like(ours)
    pulled = _pull_into(
        dq, link, p, ours, negatives, share=averaged(q, weight)[part], part=_parts(len(q), weight, part)
    )
    of_negatives = mesh.over_replicas(pulled)
    nll, missing = assembled(torch.stack([log_total - of_truth, p_truth - 1], dim=1), len(q), mesh).unbind(dim=1)
    every_place, every_own = inside(t, first, len(rows))
    of_queries, of_rows = _pull_targets(link, q[every_place], rows[every_own])
    within = (every_place >= part.start) & (every_place < part.stop)
    dq[places] += (p_truth[places] - 1)[:, None] * of_queries[within]
    of_targets = averaged(missing, weight)[every_place, None] * of_rows
    take(torch.cat([drawn, every_own]), torch.cat([of_negatives, of_targets]))
    return nll, averaged(assembled(mesh.total(dq), len(q), mesh), weight)


def linked_softmax(
    q: Tensor,
    table: Tensor,
    t: Tensor,
    *,
    link: Link,
    out: Tensor,
    chunk: int,
    place: Tensor | None = None,
    share: Tensor | float | None = None,
    weight: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """As `tiled_softmax`, for any link: scores of `chunk` entities at a time, computed once for their sum and once for
    the gradients."""
    largest, total = _largest_and_total(q[:, 0], (link.scores(q, rows) for rows in torch.split(table, chunk)))
    log_total = total.log().add_(largest)
    of_targets = q.new_full((len(t),), 1 / len(t)) if weight is None else weight
    part = (1 / len(t) if weight is None else weight) if share is None else share
    scale = part[:, None] if isinstance(part, Tensor) else part
    dq = torch.zeros_like(q)
    for rows, gradient in zip(torch.split(table, chunk), torch.split(out, chunk), strict=True):
        p = link.scores(q, rows).sub_(log_total[:, None]).exp_().mul_(scale)
        of_queries, of_rows = link.pull(p, q, rows)
        dq.add_(of_queries)
        gradient.copy_(of_rows)
        del p
    asked, truth = q if place is None else q.index_select(0, place), table.index_select(0, t)
    nll = (log_total if place is None else log_total[place]) - link.pairs(asked, truth)
    of_queries, of_rows = link.pull_pairs(-of_targets, asked, truth)
    add_rows(out, t, of_rows)
    return nll, dq.add_(of_queries) if place is None else dq.index_add_(0, place, of_queries)


def _largest_and_total(like: Tensor, tiles: Iterable[Tensor]) -> tuple[Tensor, Tensor]:
    """The largest score of each query (B,), and the sum of exp(score - largest), from tiles of scores (B, n), which it
    overwrites."""
    largest = torch.full_like(like, -torch.inf)
    total = torch.zeros_like(largest)
    for scores in tiles:
        higher = torch.maximum(largest, scores.amax(dim=1))
        total = total * (largest - higher).exp() + scores.sub_(higher[:, None]).exp_().sum(dim=1)
        largest = higher
        del scores
    return largest, total


def _scores_less(link: Link, q: Tensor, rows: Tensor, less: Tensor) -> Tensor:
    """Scores minus what broadcasts to them; for a dot product in one operation."""
    if link is DOT:
        return torch.addmm(less, q, rows.T, beta=-1)
    return link.scores(q, rows).sub_(less)


def _parts(queries: int, weight: Tensor | None, part: slice) -> float | Tensor:
    """The share of each query in the mean: one number for all, or (n, 1) for the queries of a slice."""
    return 1 / queries if weight is None else weight[part, None]


def _pull_into(
    dq: Tensor, link: Link, p: Tensor, q: Tensor, rows: Tensor, *, share: Tensor, part: float | Tensor
) -> Tensor:
    """Add the gradient of Σ p · scores by q to dq; return that of Σ part · p · scores by rows. `share` is q · part."""
    if link is DOT:
        dq.addmm_(p, rows)
        return p.T @ share
    of_queries, of_rows = link.pull(p, q, rows)
    dq.add_(of_queries)
    return of_rows * part if isinstance(part, float) else link.pull(p * part, q, rows)[1]


def _pull_targets(link: Link, q: Tensor, truth: Tensor) -> tuple[Tensor, Tensor]:
    """The gradients of the targets' scores, (B, w) each."""
    return (truth, q) if link is DOT else link.pull_pairs(torch.ones_like(q[:, 0]), q, truth)


def _hide(scores: Tensor, ids: Tensor, truth: Tensor) -> None:
    """A score of -inf for every target that is among the sorted ids, as often as it is."""
    first, behind = (torch.searchsorted(ids, truth, right=right) for right in (False, True))
    most = int((behind - first).max()) if len(truth) else 0
    for number in range(most):
        question = (first + number < behind).nonzero().squeeze(1)
        scores[question, first[question] + number] = -torch.inf


def inside(ids: Tensor, first: int, count: int) -> tuple[Tensor, Tensor]:
    """The positions of the ids in first … first + count - 1, and these ids minus `first`."""
    places = ((ids >= first) & (ids < first + count)).nonzero().squeeze(1)
    return places, ids[places] - first


def assembled(part: Tensor, questions: int, mesh: Mesh) -> Tensor:
    """The results of all queries, gathered from the results of each replica."""
    if mesh.replicas == 1:
        return part
    whole = part.new_zeros(questions, *part.shape[1:])
    whole[mesh.part(questions)] = part
    return mesh.over_replicas(whole)
