"""Add new entities to a trained model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from difflib import SequenceMatcher
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from conjoin.errors import Diverged, UnknownName, UsageError, unknown
from conjoin.graph.graph import SPLITS, Graph, Ids, Vocabulary
from conjoin.io.formats import AnyPath
from conjoin.model.init import generator
from conjoin.model.model import Model, single_model
from conjoin.predict.inputs import NamedTriple, Word, as_facts
from conjoin.predict.name_search import entity_names, plain
from conjoin.predict.predictor import Predictor, open_run
from conjoin.runs.folder import RunFolder
from conjoin.runs.open import reported_weights
from conjoin.runs.save import refuse_taken, write_run
from conjoin.runs.warm_start import _moved, initial_rows, row_numbers
from conjoin.runtime.progress import Track, silent
from conjoin.training.objective import Batch, Objective
from conjoin.training.recipe import Recipe

STEPS = 100
"""Most steps of L-BFGS. With few rows and a smooth objective it usually converges after some tens."""
BACKGROUND = 2048
"""Sampled training queries in which a new entity should not outrank the known ones."""


NO_NEW_RELATIONS = "A new relation cannot be folded in: train it with all facts (conjoin train GRAPH --from RUN)."
NEAR = 0.75
"""Similarity of two names from which one may be a misspelling of the other."""


@torch.inference_mode(mode=False)
def fold_in(
    predictor: Predictor,
    facts: Sequence[NamedTriple],
    *,
    labels: Mapping[str, str] | None = None,
    recipe: Recipe | None = None,
    seed: int = 0,
    steps: int = STEPS,
) -> Predictor:
    """A predictor that knows the new entities of `facts`; the rows of all others and of relations do not change.

    The new rows minimise the objective that training would minimise with those facts added: the cross-entropy of the
    new facts in both directions, the penalty on their factors, and the rise of the loss of sampled training queries by
    the new candidates. Facts among known entities join the graph, but change no parameter.
    `recipe` gives the weights of the penalty; by default it is that of the predictor's run.

    >>> from conjoin.graph.graph import Graph
    >>> graph = Graph.from_triples([("France", "borders", "Spain"), ("Spain", "borders", "Portugal")])
    >>> known = Predictor(Model("complex", 3, 1, rank=4), graph)
    >>> fold_in(known, [("Andorra", "borders", "France")]).graph.n_entities
    4
    """
    graph = extend(predictor.graph, facts, labels=labels)
    chosen = recipe or (predictor.settings.recipe if predictor.settings else Recipe())
    old = single_model(predictor.scorer, "Folding in new entities")
    weights = initial_rows(old, predictor.graph, graph, seed=seed, scale=chosen.initial_scale)
    dtype = weights["relations"].dtype
    model = Model(old.form, graph.n_entities, graph.n_relations, rank=old.rank, dtype=dtype, device=old.device)
    model.load_state_dict(weights)
    model.requires_grad_(requires_grad=False)
    known = predictor.graph.entities.index
    fresh = np.array([i for i, name in enumerate(graph.entities.names) if name not in known], dtype=np.int64)
    if len(fresh):
        objective = _Objective(model, graph, fresh, recipe=chosen, seed=seed)
        model.entities.assign(objective.fresh, _minimised(objective, steps))
    return Predictor(model, graph, calibration=predictor.calibration, settings=predictor.settings)


class _Objective:
    """The objective of the new rows x, (new, width): a sum over queries, in parts that fit the memory budget."""

    def __init__(self, model: Model, graph: Graph, fresh: Ids, *, recipe: Recipe, seed: int) -> None:
        self.model, self.objective = model, Objective.of(recipe)
        self.fresh = torch.from_numpy(fresh).to(model.device)
        place = np.full(graph.n_entities, -1)
        place[fresh] = np.arange(len(fresh))
        self.place = torch.from_numpy(place).to(model.device)
        self.size = max(1, model.questions_at_once() // 4)
        everything = graph.queries("train")
        own = np.isin(everything[:, [0, 2]], fresh).any(axis=1)
        self.questions = torch.from_numpy(everything[own]).to(model.device)
        old = everything[~own]
        chance = generator(seed, "background", 0)
        picked = old[torch.randperm(len(old), generator=chance, device="cpu")[:BACKGROUND].numpy()]
        self.weight = len(old) / max(1, len(picked))
        self.background, self.level = self._background(torch.from_numpy(picked).to(model.device))

    def _background(self, picked: Tensor) -> tuple[Tensor, Tensor]:
        """Query rows of training queries, and log Σ exp of the scores of all known entities for each."""
        q = self.model.query(picked[:, 0], picked[:, 1])
        levels = []
        for part in torch.split(q, self.size):
            scores = self.model.entities.scores(part)
            scores[:, self.fresh] = -torch.inf
            levels.append(scores.logsumexp(dim=1))
        return q, torch.cat(levels) if levels else q.new_empty(0)

    def backward(self, x: Tensor) -> Tensor:
        """The value of the objective; its gradient is added to x.grad."""
        cost = x.new_zeros(())
        for part in torch.split(self.questions, self.size):
            share = self._facts(x, part)
            torch.autograd.backward(share)
            cost += share.detach()
        if len(self.level):
            ours = self.model.form.link.scores(self.background, x).logsumexp(dim=1)
            share = self.weight * (torch.logaddexp(self.level, ours) - self.level).sum()
            torch.autograd.backward(share)
            cost += share.detach()
        return cost

    def _facts(self, x: Tensor, part: Tensor) -> Tensor:
        """The cost of training queries (B, 3) about new entities, summed."""
        h, r, t = part.unbind(dim=1)
        batch = Batch(self.model, h, r, t, self._rows(x, h), self.model.relation_rows(r), self._rows(x, t))
        link = self.model.form.link
        known = self.model.entities.scores(batch.query)
        scores = torch.index_copy(known, 1, self.fresh, link.scores(batch.query, x))
        cost = (scores.logsumexp(dim=1) - link.pairs(batch.query, batch.tails)).sum()
        cost = cost + self.objective.penalty.per_example(batch.squared_moduli()).sum()
        return sum((len(part) * term for term in self.objective.term_costs(batch)), start=cost)

    def _rows(self, x: Tensor, ids: Tensor) -> Tensor:
        place = self.place[ids]
        return torch.where((place >= 0)[:, None], x[place.clamp(min=0)], self.model.entities.rows(ids))


def _minimised(objective: _Objective, steps: int) -> Tensor:
    x = objective.model.entities.rows(objective.fresh).clone().requires_grad_()
    optimizer = torch.optim.LBFGS([x], max_iter=steps, history_size=10, line_search_fn="strong_wolfe")

    def closure() -> float:
        optimizer.zero_grad()
        return float(objective.backward(x))

    optimizer.step(closure)  # type: ignore[no-untyped-call]
    if not torch.isfinite(x).all():
        raise Diverged("Folding in produced a value that is not finite. Check the facts, or use a larger n3.")
    return x.detach()


def fold_run(
    run: AnyPath,
    facts: Sequence[NamedTriple],
    out: AnyPath,
    *,
    labels: Mapping[str, str] | None = None,
    weights: str | None = None,
    seed: int = 0,
    track: Track = silent,
) -> tuple[Predictor, RunFolder]:
    """Fold facts into a run and write the result as a new run folder, ranked on valid and test of the run.

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
        raise UsageError("The graph of the run already has all of these facts, so there is nothing to fold in.")
    origin = f"folded into {source.run.id} {reported_weights(source, weights)}"
    settings = replace(source.run, checksum=folded.graph.checksum, weights="last", origin=origin, seed=seed)
    folded.settings = settings
    costs = {**source.result, "parameters": folded.model.n_parameters}
    return folded, write_run(folded.model, folded.graph, kept, run=settings, costs=costs, track=track)


def extend(graph: Graph, facts: Sequence[NamedTriple], *, labels: Mapping[str, str] | None = None) -> Graph:
    """The graph with more training facts. Every other name than its names and labels becomes a new entity.

    Facts that it already has, in any split, are not repeated. Relations must be known.
    """
    facts = as_facts(facts)
    relations = [graph.relations.names[_known(graph.relations, r)] for _, r, _ in facts]
    ends = [tuple(_own_name(graph.entities, word) for word in (h, t)) for h, _, t in facts]
    fresh = {word for pair in ends for word in pair} - graph.entities.index.keys()
    entities = _grown(graph.entities, fresh, labels or {})
    places = row_numbers(entities, graph.entities)
    train, valid, test = (_moved(graph.triples(split), places) for split in SPLITS)
    added = np.array(
        [
            (entities.index[h], graph.relations.index[r], entities.index[t])
            for (h, t), r in zip(ends, relations, strict=True)
        ],
        dtype=np.int64,
    ).reshape(-1, 3)
    everything = Graph(entities, graph.relations, train, valid, test, name=graph.name)
    added = np.unique(added[~everything.known.contains(added)], axis=0)
    notes = (*graph.notes, f"{len(added)} facts and {len(fresh)} entities were added")
    return Graph(
        entities,
        graph.relations,
        np.concatenate([train, added]),
        valid,
        test,
        name=graph.name,
        notes=notes,
        bad_lines=graph.bad_lines,
    )


def likely_misspelt(graph: Graph, names: Sequence[str]) -> dict[str, str]:
    """Names that differ from an entity of the graph by a letter or two, with the label of that entity."""
    index = entity_names(graph)
    found: dict[str, str] = {}
    for name in names:
        for match in index.find(name, 1):
            nearness = max(
                SequenceMatcher(None, plain(name), plain(word)).ratio() for word in (match.name, match.label)
            )
            has_letters = any(letter.isalpha() for letter in name[1:])
            if has_letters and nearness > NEAR:
                found[name] = match.label
    return found


def needed_words(graph: Graph) -> Callable[[NamedTriple], list[Word]]:
    """A function that lists the words of a fact that must be known: its relation and ambiguous entity labels."""

    def words(fact: NamedTriple) -> list[Word]:
        head, relation, tail = fact
        ambiguous = [word for word in (head, tail) if len(graph.entities.matching(word)) > 1]
        return [(graph.relations, relation), *((graph.entities, word) for word in ambiguous)]

    return words


def _known(relations: Vocabulary, word: str) -> int:
    try:
        return relations.find(word)
    except UnknownName as error:
        raise UnknownName(f"{error} {NO_NEW_RELATIONS}") from None


def _grown(vocabulary: Vocabulary, fresh: set[str], labels: Mapping[str, str]) -> Vocabulary:
    names = tuple(sorted({*vocabulary.names, *fresh}))
    shown = {name: vocabulary.labels[i] for name, i in vocabulary.index.items()} if vocabulary.labels else {}
    shown |= {name: labels[name] for name in fresh if name in labels}
    return Vocabulary(vocabulary.kind, names, tuple(shown.get(name, "") for name in names) if shown else ())


def _own_name(vocabulary: Vocabulary, word: str) -> str:
    """The name that a name or label stands for; a word that is neither is a new name."""
    matches = vocabulary.matching(word)
    if len(matches) > 1:
        choices = ", ".join(vocabulary.names[i] for i in matches[:5])
        way_out = f"{len(matches)} entities have this label. Use one of {choices}, or another name for a new entity."
        raise unknown(vocabulary.kind, word, [], way_out=way_out)
    return vocabulary.names[matches[0]] if matches else word
