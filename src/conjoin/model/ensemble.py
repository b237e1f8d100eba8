"""Ensemble: several scorers of one graph as one, by the weighted sum of their log-probabilities."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from conjoin.errors import UsageError
from conjoin.model.score_blocks import Blocks, best_of, count_competitors, read_targets, without_targets
from conjoin.model.scorer import Pairs, Scorer, check_sizes
from conjoin.model.table import RankCounts


class Ensemble:
    """Score(h, r, t) = Σ_m weight_m · log softmax_m(t | h, r), in float64, over `members` of one graph.

    Members may be models of any form, rank and dtype, or ensembles; all are on one device. `weights` are positive, one
    per member, by default 1 each. Entities that every member scores the same are exactly tied. An ensemble ranks,
    answers, mines and is calibrated like a model. An ensemble stores no embeddings, so it cannot be folded, explained,
    exported or trained further; use a member for that.

    >>> from conjoin.model.model import Model
    >>> members = [Model("complex", 5, 2, rank=4, seed=0), Model("5star-conj", 5, 2, rank=3, seed=1)]
    >>> both = Ensemble(members, [2.0, 1.0])
    >>> both
    Ensemble(2.0 × ComplEx() of rank 4, 1.0 × FiveStar(c=conj(b), d=conj(a)) of rank 3)
    >>> h, r, t = torch.tensor([0, 1]), torch.tensor([0, 3]), torch.tensor([4, 2])
    >>> both.scores(h, r).shape, both.score(h, r, t).shape
    (torch.Size([2, 5]), torch.Size([2]))
    >>> torch.equal(both.scores(h, r).gather(1, t[:, None])[:, 0], both.score(h, r, t))
    True
    >>> both.title == repr(both)[9:-1], both.n_entities, both.n_relations, both.device.type
    (True, 5, 2, 'cpu')
    >>> both.check_graph("a graph of 5 entities", n_entities=5, n_relations=2)
    >>> both.questions_at_once() > 0, sum(scores.shape[1] for _, scores in both.score_blocks(h, r))
    (True, 5)
    >>> nothing_hidden = torch.empty(0, dtype=torch.long), torch.empty(0, dtype=torch.long)
    >>> both.standing(h, r, t, nothing_hidden).candidates.tolist(), both.best(h, r, k=2)[1].shape
    ([5, 5], torch.Size([2, 2]))
    >>> both.similarity(0).shape
    torch.Size([5])
    """

    def __init__(self, members: Sequence[Scorer], weights: Sequence[float] | None = None) -> None:
        self.members = tuple(members)
        self.weights = (1.0,) * len(self.members) if weights is None else tuple(float(weight) for weight in weights)
        if not self.members:
            raise UsageError("An ensemble has no members. Give at least one model.")
        if len(self.weights) != len(self.members):
            raise UsageError(
                f"{len(self.members)} members have {len(self.weights)} weights. Give one weight per member."
            )
        for number, weight in enumerate(self.weights, start=1):
            if not (math.isfinite(weight) and weight > 0):
                raise UsageError(
                    f"The weight of member {number} is {weight}. Weights must be positive and finite: leave out a "
                    "member that should not count."
                )
        first = self.members[0]
        for number, member in enumerate(self.members[1:], start=2):
            for name, expected, got in (
                ("entities", first.n_entities, member.n_entities),
                ("relations", first.n_relations, member.n_relations),
                ("device", first.device, member.device),
            ):
                if expected != got:
                    raise UsageError(
                        f"Member {number} ({member.title}) differs in its {name}: {got}, and member 1 ({first.title}) "
                        f"has {expected}. Members must be models of one graph on one device."
                    )

    def __repr__(self) -> str:
        return f"Ensemble({self.title})"

    @property
    def title(self) -> str:
        """Weight, form and rank of each member."""
        parts = zip(self.weights, self.members, strict=True)
        return ", ".join(f"{weight} × {member.title}" for weight, member in parts)

    @property
    def n_entities(self) -> int:
        """How many entities are scored."""
        return self.members[0].n_entities

    @property
    def n_relations(self) -> int:
        """Relations of the graph, reciprocals not counted."""
        return self.members[0].n_relations

    @property
    def device(self) -> torch.device:
        """Where scores are computed."""
        return self.members[0].device

    def check_graph(self, name: str, *, n_entities: int, n_relations: int) -> None:
        """Raise UsageError unless the graph has as many entities and relations as the members."""
        check_sizes(self, name, n_entities=n_entities, n_relations=n_relations)

    def questions_at_once(self) -> int:
        """Queries whose scores, of all members and in float64, fit the smallest memory budget of a member."""
        return max(1, min(member.questions_at_once() for member in self.members) // (len(self.members) + 1))

    @torch.no_grad()
    def score_blocks(self, h: Tensor, r: Tensor) -> Blocks:
        """All scores in float64, in blocks of entities (B, columns) that can be gone through more than once."""
        return _SummedBlocks([member.score_blocks(h, r) for member in self.members], self.weights)

    @torch.no_grad()
    def scores(self, h: Tensor, r: Tensor) -> Tensor:
        """Scores of every entity as the tail of (h, r, ?), (B, n_entities) in float64."""
        return torch.cat([scores for _, scores in self.score_blocks(h, r)], dim=1)

    @torch.no_grad()
    def score(self, h: Tensor, r: Tensor, t: Tensor) -> Tensor:
        """Scores (B,) of the facts (h, r, t); `t` has B entries, or is a scalar tensor, the one tail of all queries."""
        t, size = t.expand(len(h)), self.questions_at_once()
        parts = zip(*(torch.split(ids, size) for ids in (h, r, t)), strict=True)
        found = [read_targets(self.score_blocks(h, r), t, _empty(t)) for h, r, t in parts]
        return torch.cat(found) if found else _empty(t)

    @torch.no_grad()
    def standing(self, h: Tensor, r: Tensor, t: Tensor, hidden: Pairs) -> RankCounts:
        """How many entities score higher than each t (B,), and the same; hidden pairs never compete, t always does."""
        hidden = without_targets(hidden, t)
        blocks = self.score_blocks(h, r)
        better, tied = count_competitors(blocks, read_targets(blocks, t, _empty(t)), hidden)
        return RankCounts(better, tied - 1, self.n_entities - torch.bincount(hidden[0], minlength=len(t)))

    @torch.no_grad()
    def best(
        self, h: Tensor, r: Tensor, k: int, hidden: Pairs | None = None, among: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """The k best entities of every query, of all or of the sorted ids `among`: scores and ids, each (B, k)."""
        blocks = self.score_blocks(h, r)
        if among is None:
            return best_of(blocks, min(k, self.n_entities), hidden, _empty(h))
        scores, ids = best_of(_columns(blocks, among, hidden), min(k, len(among)), None, _empty(h))
        return scores, among[ids]

    @torch.no_grad()
    def similarity(self, e: int) -> Tensor:
        """The weighted mean (n_entities,) of the members' cosines with entity e."""
        parts = zip(self.weights, self.members, strict=True)
        total = sum(weight * member.similarity(e).double() for weight, member in parts)
        return torch.as_tensor(total) / sum(self.weights)


def _empty(like: Tensor) -> Tensor:
    return torch.empty(len(like), dtype=torch.float64, device=like.device)


def _columns(blocks: Blocks, among: Tensor, hidden: Pairs | None) -> Iterator[tuple[int, Tensor]]:
    """The columns of the entities `among`, numbered by their positions there; hidden pairs score -inf."""
    for first, scores in blocks:
        start, stop = torch.searchsorted(among, torch.tensor([first, first + scores.shape[1]]).to(among)).tolist()
        if hidden is not None:
            here = (hidden[1] >= first) & (hidden[1] < first + scores.shape[1])
            scores[hidden[0][here], hidden[1][here] - first] = -torch.inf
        if start < stop:
            yield start, scores[:, among[start:stop] - first]


class _SummedBlocks:
    """Σ weight · (score - log Σ exp scores) of several sources of blocks, in float64.

    The logarithms are computed once, in a pass of their own. Only one multiplication and two additions follow for each
    number, rounded alike wherever it stands in memory, so that equal scores stay equal.
    """

    def __init__(self, sources: Sequence[Blocks], weights: Sequence[float]) -> None:
        self.sources, self.weights = sources, weights
        self.totals = [_log_total(source) for source in sources]

    def __iter__(self) -> Iterator[tuple[int, Tensor]]:
        for first, pieces in _side_by_side(self.sources):
            total = torch.zeros_like(pieces[0], dtype=torch.float64)
            for weight, piece, log_total in zip(self.weights, pieces, self.totals, strict=True):
                total += (piece.double() - log_total[:, None]).mul_(weight)
            yield first, total


def _log_total(blocks: Blocks) -> Tensor:
    """log Σ exp of all scores of each query, (B,) in float64."""
    parts = [scores.double().logsumexp(dim=1) for _, scores in blocks]
    return torch.stack(parts).logsumexp(dim=0)


def _side_by_side(sources: Sequence[Blocks]) -> Iterator[tuple[int, list[Tensor]]]:
    """The blocks of several sources, cut where any of them ends a block."""
    walks = [iter(source) for source in sources]
    heads = [next(walk) for walk in walks]
    while True:
        first = max(start for start, _ in heads)
        stop = min(start + scores.shape[1] for start, scores in heads)
        yield first, [scores[:, first - start : stop - start] for start, scores in heads]
        heads = [
            next(walk, (stop, scores[:, :0])) if start + scores.shape[1] == stop else (start, scores)
            for walk, (start, scores) in zip(walks, heads, strict=True)
        ]
        if any(not scores.shape[1] for _, scores in heads):
            return
