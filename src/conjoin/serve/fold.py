"""New entities in a trained model, from their facts, with every other row as it was."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from conjoin.errors import Diverged, UsageError
from conjoin.graph.files.source import AnyPath
from conjoin.graph.graph import Graph, Ids
from conjoin.learn.recipe import Recipe
from conjoin.model.initial import generator
from conjoin.model.model import Model
from conjoin.progress import Track, silent
from conjoin.serve.extend import extend, rows_for
from conjoin.serve.given import Fact
from conjoin.serve.keep import keep, refuse_taken
from conjoin.serve.predictor import Predictor, open_run, reported_weights
from conjoin.study.folder import RunFolder

STEPS = 100
"""Steps of L-BFGS at most. Few rows on a smooth objective: it ends by itself after some tens."""
BACKGROUND = 2048
"""Training questions, of all, against which a new entity must not win."""


@torch.inference_mode(mode=False)
def fold_in(
    predictor: Predictor,
    facts: Sequence[Fact],
    *,
    labels: Mapping[str, str] | None = None,
    recipe: Recipe | None = None,
    seed: int = 0,
    steps: int = STEPS,
) -> Predictor:
    """A predictor that knows the new entities of `facts`; the rows of all others and of relations do not change.

    The new rows minimise the objective that training would minimise with those facts added: the cross-entropy of the
    new facts in both directions, the penalty on their factors, and, on a sample of the training questions, what a
    candidate more costs. Facts among known entities are remembered, but change no number.
    `recipe` gives the weights of the penalty; by default it is that of the predictor's run.

    >>> from conjoin.graph.graph import Graph
    >>> graph = Graph.from_triples([("France", "borders", "Spain"), ("Spain", "borders", "Portugal")])
    >>> known = Predictor(Model("complex", 3, 1, rank=4), graph)
    >>> fold_in(known, [("Andorra", "borders", "France")]).graph.n_entities
    4
    """
    graph = extend(predictor.graph, facts, labels=labels)
    chosen = recipe or (predictor.settings.recipe if predictor.settings else Recipe())
    old = predictor.model
    weights = rows_for(predictor, graph, seed=seed, scale=chosen.initial_scale)
    dtype = weights["relations"].dtype
    model = Model(old.form, graph.n_entities, graph.n_relations, rank=old.rank, dtype=dtype, device=old.device)
    model.load_state_dict(weights)
    model.requires_grad_(requires_grad=False)
    known = predictor.graph.entities.index
    fresh = np.array([i for i, name in enumerate(graph.entities.names) if name not in known], dtype=np.int64)
    if len(fresh):
        objective = _Objective(model, graph, fresh, recipe=chosen, seed=seed)
        model.entities.weight[objective.fresh] = _minimised(objective, steps)
    return Predictor(model, graph, calibration=predictor.calibration, settings=predictor.settings)


class _Objective:
    """What the new rows x, shape (new, width), cost: a sum over questions, in parts that fit the table's budget."""

    def __init__(self, model: Model, graph: Graph, fresh: Ids, *, recipe: Recipe, seed: int) -> None:
        self.model, self.recipe = model, recipe
        self.fresh = torch.from_numpy(fresh).to(model.device)
        place = np.full(graph.n_entities, -1)
        place[fresh] = np.arange(len(fresh))
        self.place = torch.from_numpy(place).to(model.device)
        self.size = max(1, model.entities.questions_at_once() // 4)
        everything = graph.queries("train")
        own = np.isin(everything[:, [0, 2]], fresh).any(axis=1)
        self.questions = torch.from_numpy(everything[own]).to(model.device)
        old = everything[~own]
        chance = generator(seed, "background", 0)
        picked = old[torch.randperm(len(old), generator=chance, device="cpu")[:BACKGROUND].numpy()]
        self.weight = len(old) / max(1, len(picked))
        self.background, self.level = self._background(torch.from_numpy(picked).to(model.device))

    def _background(self, picked: Tensor) -> tuple[Tensor, Tensor]:
        """Queries of training questions, and the logarithm of what all known entities weigh in each."""
        q = self.model.query(picked[:, 0], picked[:, 1])
        levels = []
        for part in torch.split(q, self.size):
            scores = self.model.entities.scores(part)
            scores[:, self.fresh] = -torch.inf
            levels.append(scores.logsumexp(dim=1))
        return q, torch.cat(levels) if levels else q.new_empty(0)

    def backward(self, x: Tensor) -> Tensor:
        """The cost; its gradient is added to x.grad."""
        cost = x.new_zeros(())
        for part in torch.split(self.questions, self.size):
            share = self._facts(x, part)
            torch.autograd.backward(share)
            cost += share.detach()
        if len(self.level):
            ours = (self.background @ x.T).logsumexp(dim=1)
            share = self.weight * (torch.logaddexp(self.level, ours) - self.level).sum()
            torch.autograd.backward(share)
            cost += share.detach()
        return cost

    def _facts(self, x: Tensor, part: Tensor) -> Tensor:
        h, r, t = part.unbind(dim=1)
        heads, tails = self._rows(x, h), self._rows(x, t)
        slots = self.model.form.unfold(self.model.relations[r])
        q = self.model.form.query(heads, slots)
        scores = torch.index_copy(self.model.entities.scores(q), 1, self.fresh, q @ x.T)
        cost = (scores.logsumexp(dim=1) - (q * tails).sum(dim=1)).sum()
        for squared in self.model.form.squared_moduli(heads, slots, tails):
            cost = cost + self.recipe.n3 * (squared + 1e-20).pow(1.5).sum() + self.recipe.f2 * squared.sum()
        return cost

    def _rows(self, x: Tensor, ids: Tensor) -> Tensor:
        place = self.place[ids]
        return torch.where((place >= 0)[:, None], x[place.clamp(min=0)], self.model.entities.weight[ids])


def _minimised(objective: _Objective, steps: int) -> Tensor:
    x = objective.model.entities.weight[objective.fresh].clone().requires_grad_()
    optimizer = torch.optim.LBFGS([x], max_iter=steps, history_size=10, line_search_fn="strong_wolfe")

    def closure() -> float:
        optimizer.zero_grad()
        return float(objective.backward(x))

    optimizer.step(closure)  # type: ignore[no-untyped-call]
    if not torch.isfinite(x).all():
        raise Diverged("folding in met a number that is not finite: check the facts, or use a larger n3")
    return x.detach()


def fold_run(
    run: AnyPath,
    facts: Sequence[Fact],
    out: AnyPath,
    *,
    labels: Mapping[str, str] | None = None,
    weights: str | None = None,
    seed: int = 0,
    track: Track = silent,
) -> tuple[Predictor, RunFolder]:
    """Fold facts into a run and keep the result as a run folder of its own, ranked on the valid and test of the run.

    >>> import conjoin
    >>> graph = conjoin.Graph.from_triples([("a", "r", "b"), ("b", "r", "c")])
    >>> run = conjoin.Run.of(graph, "complex", rank=4, recipe=Recipe(epochs=1))
    >>> folder = conjoin.execute(run, graph, "runs/before")
    >>> folded, kept = fold_run("runs/before", [("d", "r", "a")], "runs/after")
    >>> conjoin.open("runs/after").graph.n_entities
    4
    """
    source, kept = RunFolder(Path(run)), RunFolder(Path(out))
    refuse_taken(kept)
    before = open_run(source.path, weights=weights)
    folded = fold_in(before, facts, labels=labels, seed=seed)
    if not len(folded.graph.train) - len(before.graph.train):
        raise UsageError("the run's graph holds all of these facts already: there is nothing to fold in")
    origin = f"folded into {source.run.id} {reported_weights(source, weights)}"
    settings = replace(source.run, checksum=folded.graph.checksum, weights="last", origin=origin, seed=seed)
    folded.settings = settings
    costs = {**source.result, "parameters": folded.model.n_parameters}
    return folded, keep(folded, kept, run=settings, costs=costs, track=track)
