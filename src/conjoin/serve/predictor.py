"""Predictor: a trained run that answers with the user's own names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from conjoin.errors import RunError, UsageError, unknown
from conjoin.graph.files.store import open_graph
from conjoin.graph.graph import Graph, Vocabulary
from conjoin.learn.weights import load_tensors
from conjoin.model.model import Model
from conjoin.study.folder import RunFolder

UNKNOWN = "?"


@dataclass(frozen=True)
class Answer:
    """One candidate: its name, what a person reads, its score, and whether the fact is in the graph already.

    `entity` is a relation's name where a relation was asked for.
    """

    entity: str
    label: str
    score: float
    known: bool


@dataclass(frozen=True)
class Scored:
    """One given triple: its score, where its tail stands among all tails (known ones left out), and if it is known.

    `label` is the fact as a person reads it.
    """

    head: str
    relation: str
    tail: str
    label: str
    score: float
    rank: int
    known: bool


class Predictor:
    """A model with the graph it was trained on. Names and labels are accepted everywhere."""

    def __init__(self, model: Model, graph: Graph) -> None:
        self.model = model.requires_grad_(requires_grad=False)
        self.graph = graph

    def ask(
        self, head: str | None, relation: str | None, tail: str | None = None, *, k: int = 10, only_new: bool = False
    ) -> list[Answer]:
        """The k best answers to a question with one unknown, written None or '?'.

        ask("France", "borders") asks for tails, ask(None, "borders", "France") for heads and
        ask("France", None, "Paris") for relations. `only_new` leaves out facts that the graph already holds.
        """
        head, relation, tail = (None if word == UNKNOWN else word for word in (head, relation, tail))
        _check(k)
        missing = [head, relation, tail].count(None)
        if missing != 1:
            raise UsageError(f"a question has exactly one unknown, this one has {missing}: France borders ?")
        if relation is None:
            assert head is not None
            assert tail is not None
            return self._relations(head, tail, k, only_new=only_new)
        known_end = head if tail is None else tail
        assert known_end is not None
        e, r = self.graph.entities.find(known_end), self.graph.relations.find(relation)
        return self._entities(e, r if tail is None else r + self.graph.n_relations, k, only_new=only_new)

    def score(self, triples: Sequence[tuple[str, str, str]]) -> list[Scored]:
        """Score given triples, in order."""
        entities, relations = self.graph.entities, self.graph.relations
        ids = [(entities.find(h), relations.find(r), entities.find(t)) for h, r, t in triples]
        scored: list[Scored] = []
        size = self.model.entities.questions_at_once()
        for start in range(0, len(ids), size):
            scored += self._score(torch.tensor(ids[start : start + size], device=self.model.device))
        return scored

    def similar(self, entity: str, k: int = 10) -> list[Answer]:
        """The k entities whose rows point in the most similar direction (cosine); the entity itself is left out."""
        _check(k)
        e = self.graph.entities.find(entity)
        rows = self.model.entities.weight
        cosines = torch.nn.functional.cosine_similarity(rows, rows[e : e + 1], dim=1)
        cosines[e] = -torch.inf
        best = torch.topk(cosines, min(k, len(rows) - 1))
        neighbours = self._linked(e)
        return _answers(self.graph.entities, best.indices, best.values, neighbours)

    def _entities(self, h: int, r: int, k: int, *, only_new: bool) -> list[Answer]:
        facts = torch.from_numpy(self.graph.known.tails_of(h, r).copy()).to(self.model.device)
        hidden = (torch.zeros_like(facts), facts) if only_new else None
        k = min(k, self.model.n_entities - (len(facts) if only_new else 0))
        scores, ids = self.model.entities.best(self._query(h, r), k, hidden)
        return _answers(self.graph.entities, ids[0], scores[0], set(facts.tolist()))

    def _relations(self, head: str, tail: str, k: int, *, only_new: bool) -> list[Answer]:
        h, t = self.graph.entities.find(head), self.graph.entities.find(tail)
        relations = torch.arange(self.graph.n_relations, device=self.model.device)
        q = self.model.query(torch.full_like(relations, h), relations)
        scores = q @ self.model.entities.weight[t]
        facts = {r for r in range(self.graph.n_relations) if t in self.graph.known.tails_of(h, r)}
        order = [r for r in scores.argsort(descending=True, stable=True).tolist() if not (only_new and r in facts)]
        chosen = torch.tensor(order[:k], dtype=torch.long, device=self.model.device)
        return _answers(self.graph.relations, chosen, scores[chosen], facts)

    def _score(self, ids: Tensor) -> list[Scored]:
        h, r, t = ids.unbind(dim=1)
        q = self.model.query(h, r)
        host = ids.cpu().numpy()
        pairs = self.graph.known.pairs(host[:, 0], host[:, 1])
        hidden = torch.from_numpy(pairs[0]).to(q.device), torch.from_numpy(pairs[1]).to(q.device)
        better = self.model.entities.standing(q, t, hidden).better
        scores = (q * self.model.entities.weight[t]).sum(dim=1)
        known = self.graph.known.contains(host)
        entities, relations = self.graph.entities, self.graph.relations
        return [
            Scored(
                entities.names[a],
                relations.names[b],
                entities.names[c],
                f"{entities.label(a)} {relations.label(b)} {entities.label(c)}",
                score,
                rank + 1,
                fact,
            )
            for (a, b, c), score, rank, fact in zip(
                host.tolist(), scores.tolist(), better.tolist(), known.tolist(), strict=True
            )
        ]

    def _query(self, h: int, r: int) -> Tensor:
        device = self.model.device
        return self.model.query(torch.tensor([h], device=device), torch.tensor([r], device=device))

    def _linked(self, e: int) -> set[int]:
        """Entities that share a triple with e."""
        both_directions = range(2 * self.graph.n_relations)
        return {int(t) for r in both_directions for t in self.graph.known.tails_of(e, r)}


def _check(k: int) -> None:
    if k < 1:
        raise UsageError(f"k = {k} is too small: ask for at least one answer")


def _answers(vocabulary: Vocabulary, ids: Tensor, scores: Tensor, known: set[int]) -> list[Answer]:
    return [
        Answer(vocabulary.names[i], vocabulary.label(i), score, i in known)
        for i, score in zip(ids.tolist(), scores.tolist(), strict=True)
    ]


def open_run(run: str | Path, *, weights: str | None = None, device: str = "cpu") -> Predictor:
    """Open a finished run or an exported bundle; `weights` is last or best, by default what the run reports."""
    folder = RunFolder(Path(run))
    if not folder.path.is_dir():
        raise RunError(f"there is no run folder {folder.path}: `conjoin train … -o {folder.path}` makes one")
    settings = folder.run
    file = folder.weights_file(reported_weights(folder, weights))
    folder.verify(file)
    graph = open_graph(folder.graph_folder)
    if graph.checksum != settings.checksum:
        raise RunError(f"the graph in {folder.graph_folder} is not the one that the run was trained on")
    model = Model(settings.form, graph.n_entities, graph.n_relations, rank=settings.rank)
    tensors, _ = load_tensors(file)
    try:
        model.load_state_dict(tensors)
    except RuntimeError as error:
        raise RunError(f"{file} does not fit its run: {error}") from error
    return Predictor(model.to(device), graph)


def reported_weights(folder: RunFolder, wanted: str | None) -> str:
    """Which weights to open: the wanted ones, those that the run reports, or, in a bundle, the only ones there."""
    choices = ("last", "best")
    if wanted is not None and wanted not in choices:
        raise unknown("weights", wanted, choices, way_out="Choose last or best.")
    there = [name for name in choices if folder.weights_file(name).exists()]
    if not folder.finished:
        raise RunError(f"{folder.path} is not finished: continue it with `conjoin train … -o {folder.path} --resume`")
    if not there:
        raise RunError(f"{folder.path} holds no weights: they were not kept, or were removed; train in another folder")
    reported = wanted or folder.run.weights
    if reported in there:
        return reported
    is_bundle = not folder.events_file.exists()
    if wanted is None and is_bundle:
        return there[0]
    raise RunError(f"{folder.path} holds no {reported} weights; it has {' and '.join(there)}: choose with --weights")
