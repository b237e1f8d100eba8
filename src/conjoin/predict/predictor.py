"""Predictor: a trained model that answers questions in the names of its graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from conjoin.errors import UsageError
from conjoin.graph.graph import Graph, Ids, Vocabulary
from conjoin.io.formats import AnyPath
from conjoin.model.ensemble import Ensemble
from conjoin.model.model import Model, single_model
from conjoin.model.scorer import Scorer
from conjoin.model.table import diverged
from conjoin.predict.inputs import as_facts, as_question, chosen_ids
from conjoin.predict.name_search import Match, NameIndex, entity_names, relation_names
from conjoin.runs.calibration_curves import Calibration, Reals, read_calibration
from conjoin.runs.folder import RunFolder
from conjoin.runs.open import open_model
from conjoin.runs.run import Run

Marks = npt.NDArray[np.bool_]
UNKNOWN = "?"
ANY = "*"


class Question(NamedTuple):
    """A fact with one unknown, written None or '?'.

    >>> Question("France", "borders")
    Question(head='France', relation='borders', tail=None)
    """

    head: str | None
    relation: str | None
    tail: str | None = None


@dataclass(frozen=True)
class Answer:
    """One candidate: its name, label and score, and whether the fact is in the graph already.

    `entity` is the name of a relation if the question asks for a relation. `probability` belongs to new answers of a
    calibrated run (defined in conjoin.runs.calibration_curves); it is None for known facts.
    """

    entity: str
    label: str
    score: float
    known: bool
    probability: float | None = None


@dataclass(frozen=True)
class Scored:
    """A given fact: its score, the filtered rank of its tail (known answers excluded), and whether it is known.

    `label` is the fact in labels instead of names.
    """

    head: str
    relation: str
    tail: str
    label: str
    score: float
    rank: int
    known: bool
    probability: float | None = None


class QueryIds(NamedTuple):
    """A question as ids: tails of (e, r), heads if r >= n_relations (a reciprocal), or relations from e to t."""

    e: int
    r: int | None
    t: int | None


class Predictor:
    """A model or ensemble with the graph it was trained on. Names and labels are accepted everywhere.

    `calibration` gives answers a probability. `settings` is the run that the model comes from, if any. The constructor
    switches off gradients of the model: call `model.requires_grad_()` before you train it further.

    >>> graph = Graph.from_triples([("France", "borders", "Spain"), ("Spain", "borders", "Portugal")])
    >>> run = Predictor(Model("complex", graph.n_entities, graph.n_relations, rank=4), graph)
    >>> sorted(answer.label for answer in run.ask("France", "borders"))
    ['Portugal', 'Spain']
    >>> [answer.known for answer in run.ask("France", "borders", candidates=["Spain"])]
    [True]
    >>> [len(answers) for answers in run.ask_many([Question(None, "borders", "Spain")], only_new=True)]
    [1]
    >>> run.members("?", "borders", "*"), run.find_entities("portu")[0].label, run.find_relations("bord")[0].name
    (['France', 'Spain'], 'Portugal', 'borders')
    >>> run.score([("France", "borders", "Spain")])[0].known, len(run.similar("Spain", k=1))
    (True, 1)
    >>> asked = run.parse(Question("France", "borders"))
    >>> scores, known, possible = run.scores(asked)
    >>> scores.shape, known.tolist(), possible.tolist(), run.probabilities(np.zeros(3, np.int64), scores)
    ((3,), [2], [False, True, True], [None, None, None])
    >>> run.model is run.scorer
    True
    """

    def __init__(
        self, model: Scorer, graph: Graph, *, calibration: Calibration | None = None, settings: Run | None = None
    ) -> None:
        model.check_graph(graph.name, n_entities=graph.n_entities, n_relations=graph.n_relations)
        if isinstance(model, nn.Module):
            model.requires_grad_(requires_grad=False)
        self.scorer, self.graph, self.calibration, self.settings = model, graph, calibration, settings

    @classmethod
    def ensemble(cls, predictors: Sequence[Predictor], weights: Sequence[float] | None = None) -> Predictor:
        """A predictor that scores with the weighted sum of log-probabilities of several runs on one graph.

        It has no calibration: probabilities of one run do not hold for the sum of several. Calibrate it anew.

        >>> graph = Graph.from_triples([("France", "borders", "Spain"), ("Spain", "borders", "Portugal")])
        >>> runs = [Predictor(Model(form, 3, 1, rank=4), graph) for form in ("complex", "5star")]
        >>> [answer.known for answer in Predictor.ensemble(runs, [1.0, 0.5]).ask("France", "borders", k=2)].count(True)
        1
        """
        members = Ensemble([predictor.scorer for predictor in predictors], weights)
        first = predictors[0].graph
        for number, predictor in enumerate(predictors[1:], start=2):
            if predictor.graph.checksum != first.checksum:
                raise UsageError(
                    f"Run {number} ({predictor!r}) was trained on another graph than run 1 ({first!r}). "
                    "The runs of an ensemble must share one graph, with the same names and splits."
                )
        return cls(members, first)

    def __repr__(self) -> str:
        return f"Predictor({self.scorer.title} on {self.graph!r})"

    @property
    def model(self) -> Model:
        """The model with its embeddings; an ensemble has no embeddings and raises UsageError."""
        return single_model(self.scorer, "Predictor.model")

    def ask(
        self,
        head: str | None,
        relation: str | None,
        tail: str | None = None,
        *,
        k: int = 10,
        only_new: bool = False,
        candidates: Sequence[str] | None = None,
    ) -> list[Answer]:
        """The k best answers to a question with one unknown, written None or '?'.

        ask("France", "borders") asks for tails, ask(None, "borders", "France") for heads and
        ask("France", None, "Paris") for relations. `only_new` leaves out facts that the graph already holds;
        `candidates` are the only answers to choose from, such as a list of names or `members("?", "part_of", "Asia")`.
        The entity of the question is an answer only if training facts of the relation link entities to themselves, or
        if the graph has that fact.
        """
        question = Question(head, relation, tail)
        return self.ask_many([question], k=k, only_new=only_new, candidates=candidates)[0]

    def ask_many(
        self,
        questions: Sequence[Question],
        *,
        k: int = 10,
        only_new: bool = False,
        candidates: Sequence[str] | None = None,
    ) -> list[list[Answer]]:
        """The answers to each question, in order; the questions are scored together."""
        _check(k)
        asked = [self.parse(question) for question in questions]
        answers: dict[int, list[Answer]] = {}
        ends = [place for place, question in enumerate(asked) if question.r is not None]
        size = self.scorer.questions_at_once()
        chosen = chosen_ids(self.graph.entities, candidates) if ends else None
        for start in range(0, len(ends), size):
            part = ends[start : start + size]
            queries = np.array([asked[place][:2] for place in part], dtype=np.int64)
            answers |= zip(part, self._entities(queries, k, chosen, only_new=only_new), strict=True)
        for place, question in enumerate(asked):
            if question.r is None:
                among = chosen_ids(self.graph.relations, candidates)
                answers[place] = self._relations(question, k, among, only_new=only_new)
        return [answers[place] for place in range(len(asked))]

    def members(self, head: str | None, relation: str, tail: str | None) -> list[str]:
        """The names of the entities at '?' in training facts; '*' or None matches everything.

        members("?", "part_of", "Caribbean") are the parts of the Caribbean, members("*", "borders", "?") all entities
        that are the tail of a border, members("?", "borders", "*") all that are the head of one.
        """
        facts, found = self.graph.train, None
        keep = np.ones(len(facts), dtype=bool)
        for column, word, vocabulary in (
            (0, head, self.graph.entities),
            (1, relation, self.graph.relations),
            (2, tail, self.graph.entities),
        ):
            if word == UNKNOWN and found is None and column != 1:
                found = column
            elif word not in (None, ANY):
                keep &= facts[:, column] == vocabulary.find(str(word))
        if found is None:
            raise UsageError("A type needs one '?' as head or as tail, such as ? part_of Caribbean or * borders ?.")
        return [self.graph.entities.names[i] for i in np.unique(facts[keep, found]).tolist()]

    def find_entities(self, text: str, limit: int = 10) -> list[Match]:
        """Entities whose name or label begins, contains or is nearly spelt like the text, best first."""
        return self._entity_names.find(text, limit)

    def find_relations(self, text: str, limit: int = 10) -> list[Match]:
        """Relations whose name or label begins, contains or is nearly spelt like the text, best first."""
        return self._relation_names.find(text, limit)

    def score(self, triples: Sequence[tuple[str, str, str]]) -> list[Scored]:
        """Score given triples, in order."""
        entities, relations = self.graph.entities, self.graph.relations
        ids = [(entities.find(h), relations.find(r), entities.find(t)) for h, r, t in as_facts(triples)]
        scored: list[Scored] = []
        size = self.scorer.questions_at_once()
        for start in range(0, len(ids), size):
            scored += self._score(torch.tensor(ids[start : start + size], device=self.scorer.device))
        return scored

    def similar(self, entity: str, k: int = 10) -> list[Answer]:
        """The k entities whose rows point in the most similar direction (cosine); the entity itself is left out."""
        _check(k)
        e = self.graph.entities.find(entity)
        cosines = self.scorer.similarity(e)
        cosines[e] = -torch.inf
        best = torch.topk(cosines, min(k, len(cosines) - 1))
        linked = set(self.graph.known.neighbours(e).tolist())
        names = self.graph.entities
        return [
            Answer(names.names[i], names.label(i), cosine, i in linked)
            for i, cosine in zip(best.indices.tolist(), best.values.tolist(), strict=True)
        ]

    def probabilities(self, relations: Ids, scores: Reals) -> list[float | None]:
        """Calibrated probabilities of scores (n,) of relations or reciprocals (n,); None without a calibration."""
        if self.calibration is None:
            return [None] * len(scores)
        return list(self.calibration.probabilities(relations, scores).tolist())

    def parse(self, question: Question) -> QueryIds:
        """The question as ids."""
        head, relation, tail = (None if word == UNKNOWN else word for word in as_question(question))
        entities = self.graph.entities
        match (head, relation, tail):
            case (str(h), str(r), None):
                return QueryIds(entities.find(h), self.graph.relations.find(r), None)
            case (None, str(r), str(t)):
                return QueryIds(entities.find(t), self.graph.relations.find(r) + self.graph.n_relations, None)
            case (str(h), None, str(t)):
                return QueryIds(entities.find(h), None, entities.find(t))
        if other := [word for word in question if not isinstance(word, str | None)]:
            raise UsageError(f"Names must be strings. Pass '{other[0]}' instead of {other[0]!r}.")
        missing = [head, relation, tail].count(None)
        raise UsageError(f"A question needs exactly one unknown, and this one has {missing}. Example: France borders ?")

    def scores(self, asked: QueryIds) -> tuple[Reals, Ids, Marks]:
        """The scores (n,) of one question, the ids of known answers, and a mask (n,) of possible answers."""
        device = self.scorer.device
        if asked.r is None:
            facts = np.array([(asked.e, r, asked.t) for r in range(self.graph.n_relations)], dtype=np.int64)
            h, r, t = torch.from_numpy(facts).to(device).unbind(dim=1)
            scores = self.scorer.score(h, r, t[0])
            never = self.graph.never_itself(facts[:, 0], facts[:, 1]) & (asked.e == asked.t)
            return _finite(scores), np.flatnonzero(self.graph.known.contains(facts)), ~never
        possible = np.ones(self.graph.n_entities, dtype=bool)
        possible[asked.e] = not self.graph.never_itself(np.array([asked.e]), np.array([asked.r]))[0]
        h, r = (torch.tensor([number], device=device) for number in asked[:2])
        return _finite(self.scorer.scores(h, r)[0]), self.graph.known.tails_of(asked.e, asked.r), possible

    def _entities(self, queries: Ids, k: int, chosen: Ids | None, *, only_new: bool) -> list[list[Answer]]:
        device = self.scorer.device
        h, r = torch.from_numpy(queries).to(device).unbind(dim=1)
        facts = self.graph.known.pairs(queries[:, 0], queries[:, 1])
        never = np.flatnonzero(self.graph.never_itself(queries[:, 0], queries[:, 1]))
        hidden = (never, queries[never, 0])
        if only_new:
            hidden = np.concatenate([hidden[0], facts[0]]), np.concatenate([hidden[1], facts[1]])
        out = torch.from_numpy(hidden[0]).to(device), torch.from_numpy(hidden[1]).to(device)
        among = None if chosen is None else torch.from_numpy(chosen).to(device)
        best, found_ids = self.scorer.best(h, r, k, out, among)
        scores, ids = best.double().cpu().numpy(), found_ids.cpu().numpy()
        n = self.graph.n_entities
        pairs = np.arange(len(ids))[:, None] * n + ids
        known, left_out = (np.isin(pairs, question * n + entity) for question, entity in (facts, hidden))
        answers = []
        for row, kept in enumerate(~left_out):
            found = ids[row][kept], scores[row][kept], known[row][kept], np.full(kept.sum(), queries[row, 1])
            answers.append(self._answers(self.graph.entities, *found))
        return answers

    def _relations(self, asked: QueryIds, k: int, chosen: Ids | None, *, only_new: bool) -> list[Answer]:
        scores, facts, possible = self.scores(asked)
        if chosen is not None:
            possible &= np.isin(np.arange(len(possible)), chosen)
        if only_new:
            possible[facts] = False
        order = np.argsort(-scores, kind="stable")
        order = order[possible[order]][:k]
        return self._answers(self.graph.relations, order, scores[order], np.isin(order, facts), order)

    def _answers(self, names: Vocabulary, ids: Ids, scores: Reals, known: Marks, relations: Ids) -> list[Answer]:
        columns = ids.tolist(), scores.tolist(), known.tolist(), self.probabilities(relations, scores)
        return [
            Answer(names.names[i], names.label(i), score, fact, None if fact else probability)
            for i, score, fact, probability in zip(*columns, strict=True)
        ]

    def _score(self, ids: Tensor) -> list[Scored]:
        h, r, t = ids.unbind(dim=1)
        host = ids.cpu().numpy()
        pairs = self.graph.known.pairs(host[:, 0], host[:, 1])
        hidden = torch.from_numpy(pairs[0]).to(h.device), torch.from_numpy(pairs[1]).to(h.device)
        better = self.scorer.standing(h, r, t, hidden).better
        scores = self.scorer.score(h, r, t).double().cpu().numpy()
        known = self.graph.known.contains(host)
        columns = scores.tolist(), better.tolist(), known.tolist(), self.probabilities(host[:, 1], scores)
        return [
            Scored(
                *self.graph.names(*triple),
                self.graph.label(*triple),
                score,
                rank + 1,
                fact,
                None if fact else probability,
            )
            for triple, score, rank, fact, probability in zip(host.tolist(), *columns, strict=True)
        ]

    @cached_property
    def _entity_names(self) -> NameIndex:
        return entity_names(self.graph)

    @cached_property
    def _relation_names(self) -> NameIndex:
        return relation_names(self.graph)


def _finite(scores: Tensor) -> Reals:
    """Scores as float64 in numpy; raises Diverged if one is not finite."""
    if not bool(scores.isfinite().all()):
        raise diverged()
    return np.asarray(scores.double().cpu().numpy())


def _check(k: int) -> None:
    if k < 1:
        raise UsageError(f"k must be at least 1, got {k}.")


def open_run(run: AnyPath, *, weights: str | None = None, device: str = "cpu") -> Predictor:
    """Open a finished run or an exported bundle; `weights` is last or best, by default the one that the run reports.

    A calibration of these weights in the folder is opened too. Public as `conjoin.open`:

    >>> import conjoin
    >>> graph = Graph.from_triples([("a", "r", "b"), ("b", "r", "c")], [("a", "r", "c")], [("c", "r", "a")])
    >>> run = conjoin.Run.of(graph, "complex", rank=4, recipe=conjoin.Recipe(epochs=2))
    >>> folder = conjoin.execute(run, graph, Path("runs/opened"))
    >>> len(conjoin.open("runs/opened").ask("a", "r")), len(conjoin.open(folder).ask("b", "r"))
    (2, 2)
    """
    folder = RunFolder(Path(run))
    model, graph, reported = open_model(folder, weights, device=device)
    return Predictor(model, graph, calibration=read_calibration(folder, graph, reported), settings=folder.run)
