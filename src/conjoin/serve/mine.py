"""The most plausible facts that the graph does not hold.

Scores of different relations, even of different heads, do not compare. Facts are ordered by plausibility, the product
of two chances. Is there a further tail at all? Among the heads with at least as many known tails as h, the share that
has more. If so, is it t? The softmax over all tails that would be new. It is no calibrated probability; where the run
has a calibration, facts carry that too. It does not order them: it does not know how many answers are left to find.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from torch import Tensor

from conjoin.errors import UsageError
from conjoin.files import replacing
from conjoin.graph.graph import Graph, Ids
from conjoin.graph.patterns import find_mirrors
from conjoin.model.table import diverged
from conjoin.progress import Track, silent
from conjoin.serve.predictor import Predictor

Reals = npt.NDArray[np.float64]
BLOCK = 256
"""Heads at a time: few enough for the scores to stay near the processor."""
DOUBT = 0.02
"""Heads that are believed to have one more tail than was ever seen, of one."""


@dataclass(frozen=True)
class Mined:
    """A fact that is not in the graph, in order of plausibility; `probability` is None without a calibration."""

    head: str
    relation: str
    tail: str
    score: float
    probability: float | None
    rank: int
    plausibility: float
    label: str


COLUMNS = ("rank", "head", "relation", "tail", "plausibility", "probability", "score", "label")
SEPARATORS = {".csv": ",", ".tsv": "\t"}


def check_file(path: Path) -> None:
    """Refuse a file that `write_mined` could not write, before the work is done."""
    if path.suffix not in (*SEPARATORS, ".parquet"):
        raise UsageError(f"{path} has an unknown ending: write to a file that ends in .csv, .tsv or .parquet")
    if not path.absolute().parent.is_dir():
        raise UsageError(f"there is no folder {path.parent} to write {path.name} to: make it first")


def write_mined(path: Path, facts: Sequence[Mined]) -> None:
    """One row a fact, as CSV, TSV or Parquet by the file's ending; the file is there whole or not at all."""
    check_file(path)
    rows = [asdict(fact) for fact in facts]
    with replacing(path) as aside:
        if path.suffix == ".parquet":
            kinds = {
                "rank": pa.int64(),
                "plausibility": pa.float64(),
                "probability": pa.float64(),
                "score": pa.float64(),
            }
            schema = pa.schema([(column, kinds.get(column, pa.string())) for column in COLUMNS])
            pq.write_table(pa.Table.from_pylist(rows, schema=schema), aside, compression="zstd")
            return
        with aside.open("w", encoding="utf-8", newline="") as stream:
            writer = csv.DictWriter(stream, COLUMNS, delimiter=SEPARATORS[path.suffix], lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)


class _Found(NamedTuple):
    """Candidates as columns, best first: log plausibility, score, and the fact as ids (n, 3)."""

    value: Tensor
    score: Tensor
    fact: Tensor

    def best(self, n: int) -> _Found:
        order = self.value.argsort(descending=True, stable=True)[:n]
        return _Found(self.value[order], self.score[order], self.fact[order])

    def with_more(self, more: _Found) -> _Found:
        return _Found(*(torch.cat(pair) for pair in zip(self, more, strict=True)))


@dataclass(frozen=True)
class _Block:
    """A relation and some heads, small enough to be scored against all entities at once."""

    r: int
    heads: Ids
    log_room: Reals
    loops: bool
    least_score: float


def mine(
    predictor: Predictor,
    *,
    relation: str | None = None,
    n: int = 100,
    all_heads: bool = False,
    min_probability: float = 0.0,
    track: Track = silent,
) -> Iterator[Mined]:
    """The n most plausible missing facts of a relation, or of all relations, best first.

    Heads are the entities that the relation has in train, or with `all_heads` every entity: slower, but only so are
    facts found whose head has none of the kind yet. A head is linked to itself only by relations that do so in train,
    and of the two directions of a symmetric relation the better one is shown. `min_probability` leaves out facts with
    a smaller calibrated probability; without a calibration, with a smaller plausibility.

    Heads are scored in blocks; of a block only what beats the n-th best so far is looked at.

    >>> from conjoin.graph.graph import Graph
    >>> from conjoin.model.model import Model
    >>> facts = [("France", "borders", "Spain"), ("Spain", "borders", "Portugal"), ("Spain", "borders", "France")]
    >>> graph = Graph.from_triples(facts)
    >>> [fact.label for fact in mine(Predictor(Model("complex", 3, 1, rank=4), graph))]
    ['France borders Portugal']
    """
    if n < 1:
        raise UsageError(f"n = {n} is too small: mine for at least one fact")
    if not 0 <= min_probability <= 1:
        raise UsageError(f"min_probability = {min_probability} is not between 0 and 1")
    graph = predictor.graph
    wanted = range(graph.n_relations) if relation is None else [graph.relations.find(relation)]
    blocks = [b for r in wanted for b in _blocks(predictor, r, all_heads=all_heads, min_probability=min_probability)]
    mirrors = find_mirrors(graph)
    symmetric = torch.zeros(graph.n_relations, dtype=torch.bool, device=predictor.model.device)
    symmetric[torch.from_numpy(mirrors.relation[mirrors.relation == mirrors.other])] = True
    # Every pair of a symmetric relation can come twice.
    keep = 2 * n if bool(symmetric.any()) else n
    found = _nothing(predictor)
    for block in track(blocks, "mine", len(blocks)):
        floor = float(found.value[-1]) if len(found.value) == keep else -np.inf
        found = found.with_more(_above(predictor, block, floor, keep)).best(keep)
    found = _once(found, symmetric).best(n)
    if predictor.calibration is None and min_probability:
        found = _Found(*(column[found.value >= np.log(min_probability)] for column in found))
    yield from _named(predictor, found)


def room(known_tails: Ids) -> Reals:
    """For entities with so many known tails, the chance that there is one more: estimated from all of them."""
    at_least = np.bincount(known_tails)[::-1].cumsum()[::-1]
    more = np.append(at_least[1:], 0)
    return np.asarray(((more + DOUBT) / (at_least + 1))[known_tails], dtype=np.float64)


def _blocks(predictor: Predictor, r: int, *, all_heads: bool, min_probability: float) -> Iterator[_Block]:
    graph = predictor.graph
    facts = graph.train[graph.train[:, 1] == r]
    everyone = np.arange(graph.n_entities)
    heads = everyone if all_heads else np.unique(facts[:, 0])
    if not len(facts) or not len(heads):
        return
    question, _ = graph.known.pairs(everyone, np.full_like(everyone, r))
    log_room = np.log(room(np.bincount(question, minlength=graph.n_entities)))
    loops = bool((facts[:, 0] == facts[:, 2]).any())
    least = _least_score(predictor, r, min_probability)
    size = min(BLOCK, predictor.model.entities.questions_at_once())
    for start in range(0, len(heads), size):
        part = heads[start : start + size]
        yield _Block(r, part, log_room[part], loops, least)


def _least_score(predictor: Predictor, r: int, probability: float) -> float:
    """The score from which the calibration gives the probability; its curves never fall."""
    if predictor.calibration is None or not probability:
        return -np.inf
    low, high = -1e6, 1e6
    for _ in range(80):
        middle = (low + high) / 2
        reached = predictor.probabilities(np.array([r]), np.array([middle]))[0]
        low, high = (low, middle) if reached is not None and reached >= probability else (middle, high)
    return high


@torch.no_grad()
def _above(predictor: Predictor, block: _Block, floor: float, keep: int) -> _Found:
    """The facts of a block whose value is above the floor, at most `keep`.

    A value is score - log Σ exp scores + log room: a floor for values is a floor for scores that differs by head.
    """
    graph, model = predictor.graph, predictor.model
    heads = torch.from_numpy(block.heads).to(model.device)
    scores = model.scores(heads, torch.full_like(heads, block.r))
    question, tail = graph.known.pairs(block.heads, np.full_like(block.heads, block.r))
    scores[torch.from_numpy(question).to(model.device), torch.from_numpy(tail).to(model.device)] = -torch.inf
    if not block.loops:
        scores[torch.arange(len(heads), device=model.device), heads] = -torch.inf
    total = torch.logsumexp(scores, dim=1)
    if bool(torch.isnan(total).any() | (total == torch.inf).any()):
        raise diverged()
    offset = torch.from_numpy(block.log_room).to(scores) - total
    above = (scores > (floor - offset)[:, None]) & (scores >= block.least_score)
    row, tails = above.nonzero(as_tuple=True)
    score = scores[row, tails]
    fact = torch.stack([heads[row], torch.full_like(row, block.r), tails], dim=1)
    found = _Found(score + offset[row], score, fact)
    if len(row) <= keep:
        return found
    best = torch.topk(found.value, keep).indices
    return _Found(*(column[best] for column in found))


def _nothing(predictor: Predictor) -> _Found:
    empty = predictor.model.relations.new_empty(0)
    return _Found(empty, empty, torch.empty(0, 3, dtype=torch.long, device=empty.device))


def _once(found: _Found, symmetric: Tensor) -> _Found:
    """Without the lesser of two facts that are each other's reverse, where the relation is symmetric."""
    kept: list[int] = []
    seen: set[tuple[int, int, int]] = set()
    for place, (h, r, t) in enumerate(found.fact.tolist()):
        turned = (t, r, h) if bool(symmetric[r]) else None
        if turned not in seen:
            seen.add((h, r, t))
            kept.append(place)
    chosen = torch.tensor(kept, dtype=torch.long, device=symmetric.device)
    return _Found(*(column[chosen] for column in found))


def _named(predictor: Predictor, found: _Found) -> Iterator[Mined]:
    graph: Graph = predictor.graph
    entities, relations = graph.entities, graph.relations
    facts, scores = found.fact.cpu().numpy(), found.score.double().cpu().numpy()
    probabilities = predictor.probabilities(facts[:, 1], scores)
    plausibilities = found.value.exp().tolist()
    for rank, ((h, r, t), score, probability, plausibility) in enumerate(
        zip(facts.tolist(), scores.tolist(), probabilities, plausibilities, strict=True), start=1
    ):
        label = f"{entities.label(h)} {relations.label(r)} {entities.label(t)}"
        yield Mined(
            entities.names[h], relations.names[r], entities.names[t], score, probability, rank, plausibility, label
        )
