"""Softmax cross-entropy of queries against a whole table, with its gradients, in two ways that give the same numbers.

Both take queries q (B, w), the table (N, w) and targets t (B,), and return the B negative log-likelihoods and the
gradient with respect to q of their *mean*; the gradient with respect to the table is written into `out` (N, w), so
that a training run needs one such buffer and never an extra pass over it.
"""

from __future__ import annotations

import torch
from torch import Tensor

from conjoin.model.rows import add_rows, with_its_room


def dense_softmax(q: Tensor, table: Tensor, t: Tensor, *, out: Tensor) -> tuple[Tensor, Tensor]:
    """The reference: holds the whole (B, N) matrix of scores, once. Room behind the rows is used and scores -inf."""
    room = with_its_room(table) if table.is_cuda else table
    out_room = with_its_room(out)[: len(room)] if table.is_cuda else out
    scores = q @ room.T
    scores[:, len(table) :] = -torch.inf
    log_p = torch.log_softmax(scores, dim=1)
    nll = -log_p.gather(1, t[:, None]).squeeze(1)
    p = log_p.exp_()
    share = q / len(q)
    torch.mm(p.T, share, out=out_room)
    add_rows(out, t, -share)
    return nll, (p @ room - table[t]) / len(q)


def chunked_softmax(q: Tensor, table: Tensor, t: Tensor, *, out: Tensor, chunk: int) -> tuple[Tensor, Tensor]:
    """Memory-bounded: holds (B, chunk) scores at a time, never two such buffers at once, and computes them twice."""
    largest = torch.full_like(q[:, 0], -torch.inf)
    total = torch.zeros_like(largest)
    for rows in torch.split(table, chunk):
        scores = q @ rows.T
        higher = torch.maximum(largest, scores.amax(dim=1))
        total = total * (largest - higher).exp() + scores.sub_(higher[:, None]).exp_().sum(dim=1)
        largest = higher
        del scores
    log_total = total.log().add_(largest)
    share = q / len(q)
    dq = torch.zeros_like(q)
    for rows, gradient in zip(torch.split(table, chunk), torch.split(out, chunk), strict=True):
        p = torch.addmm(log_total[:, None], q, rows.T, beta=-1).exp_()
        torch.mm(p.T, share, out=gradient)
        dq.addmm_(p, rows)
        del p
    truth = table[t]
    add_rows(out, t, -share)
    return log_total - (q * truth).sum(dim=1), (dq - truth) / len(q)
