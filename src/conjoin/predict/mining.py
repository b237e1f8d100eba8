"""The most plausible facts that the graph does not hold.

Scores of different heads and relations are not comparable. Facts are ordered by plausibility, a product of two factors:
the probability that the head has a further tail (`conjoin.predict.completeness`), and the softmax of the tail among
all tails that would be new. If the reverse fact is known, the frequency with which the relation holds both ways is a
third factor. Plausibility is not a probability. A calibrated run orders facts by the fraction of equally plausible
facts of the relation that were right when validation facts were hidden (`conjoin.predict.mining_eval`).
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from torch import Tensor

from conjoin.errors import UsageError
from conjoin.graph.graph import Ids
from conjoin.graph.patterns.detect import find_mirrors
from conjoin.io.formats import AnyPath
from conjoin.model.table import diverged
from conjoin.predict.completeness import Reals, TailCompleteness
from conjoin.predict.predictor import Predictor
from conjoin.predict.views import mined_json
from conjoin.runtime.atomic_files import check_target, replacing
from conjoin.runtime.progress import Track, silent
from conjoin.runtime.text_escaping import for_spreadsheet

BLOCK = 256
"""Heads per block: few enough for the scores to stay in the cache."""
CPU_SCORES = 1 << 22
"""Scores per block on a CPU. Larger buffers are returned to the system, and getting new pages is slow."""
HOPELESS = 1e-6
"""Heads with a smaller probability of one more tail are skipped."""


@dataclass(frozen=True)
class MinedFact:
    """A fact that is not in the graph. `rank` is its position by probability, then by plausibility.

    `probability` is the fraction of equally plausible facts that were right when the facts of valid were hidden. It is
    None without a calibration.
    """

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


TEXTS = ("head", "relation", "tail", "label")


def check_file(path: Path, *, for_spreadsheets: bool = False) -> None:
    """Raise UsageError for a file that `write_mined` cannot write, before mining starts."""
    if for_spreadsheets and path.suffix not in SEPARATORS:
        raise UsageError(f"{path} is not a file for spreadsheets. Choose a name that ends in .csv or .tsv.")
    if path.suffix not in (*SEPARATORS, ".parquet"):
        raise UsageError(f"{path} has an unknown ending. Choose a name that ends in .csv, .tsv or .parquet.")
    if not path.absolute().parent.is_dir():
        raise UsageError(f"Cannot write {path.name}: the folder {path.parent} does not exist. Create it first.")
    check_target(path)


def write_mined(path: AnyPath, facts: Iterable[MinedFact], *, for_spreadsheets: bool = False) -> int:
    """Write one row per fact, as CSV, TSV or Parquet by the ending of the file, atomically.

    Names are written as they are, so that they can be read back. A spreadsheet may run some of them as formulas:
    `for_spreadsheets` writes such cells with an apostrophe before the formula, and control characters spelled out.
    Returns the number of such cells in a CSV or TSV file.

    >>> facts = [MinedFact("a", "likes", "=c", 1.5, None, 1, 0.25, "a likes =c")]
    >>> write_mined("mined.csv", facts)
    1
    >>> Path("mined.csv").read_text().splitlines()[1]
    '1,a,likes,=c,0.25,,1.5,a likes =c'
    >>> write_mined("mined.csv", facts, for_spreadsheets=True)
    1
    >>> Path("mined.csv").read_text().splitlines()[1]
    "1,a,likes,'=c,0.25,,1.5,a likes =c"
    """
    path = Path(path)
    check_file(path, for_spreadsheets=for_spreadsheets)
    rows = [mined_json(fact) for fact in facts]
    found = 0
    for row in rows if path.suffix in SEPARATORS else ():
        for column in TEXTS:
            safe = for_spreadsheet(row[column])
            found += safe != row[column]
            row[column] = safe if for_spreadsheets else row[column]
    with replacing(path) as aside:
        if path.suffix == ".parquet":
            kinds = {
                "rank": pa.int64(),
                "plausibility": pa.float64(),
                "probability": pa.float64(),
                "score": pa.float64(),
            }
            schema = pa.schema([(column, kinds.get(column, pa.string())) for column in COLUMNS])
            with aside.open("wb") as table:
                pq.write_table(pa.Table.from_pylist(rows, schema=schema), table, compression="zstd")
            return found
        with aside.open("w", encoding="utf-8", newline="") as stream:
            writer = csv.DictWriter(stream, COLUMNS, delimiter=SEPARATORS[path.suffix], lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
    return found


class FoundFacts(NamedTuple):
    """Facts as columns: sort key `order`, log plausibility `value`, `score`, each (n,), and ids `fact` (n, 3).

    The sort key is the probability, or log plausibility without a calibration.
    """

    order: Tensor
    value: Tensor
    score: Tensor
    fact: Tensor

    def best(self, n: int) -> FoundFacts:
        """The first n by sort key; equal keys by log plausibility."""
        places = self.value.argsort(descending=True, stable=True)
        return self.at(places[self.order[places].argsort(descending=True, stable=True)][:n])

    def at(self, places: Tensor) -> FoundFacts:
        """The facts at these positions (m,)."""
        return FoundFacts(*(column[places] for column in self))

    def with_more(self, more: FoundFacts) -> FoundFacts:
        """The facts of both, unsorted."""
        return FoundFacts(*(torch.cat(pair) for pair in zip(self, more, strict=True)))


@dataclass(frozen=True)
class _Block:
    """Some heads of a relation, sorted by the probability of one more tail; `log_room` is its logarithm."""

    r: int
    heads: Ids
    log_room: Reals
    log_back: float


def mine(
    predictor: Predictor,
    *,
    relation: str | None = None,
    n: int = 100,
    min_probability: float = 0.0,
    track: Track = silent,
) -> Iterator[MinedFact]:
    """The n most probable missing facts of a relation, or of all relations, best first.

    Without a calibration the most plausible ones. Every entity may be a head. A fact that links an entity to itself is
    found only if train has such facts of the relation. Of the two directions of a symmetric relation the better one is
    shown. `min_probability` leaves out facts with a smaller probability, or plausibility without a calibration.

    >>> from conjoin.graph.graph import Graph
    >>> from conjoin.model.model import Model
    >>> facts = [("France", "borders", "Spain"), ("Spain", "borders", "Portugal"), ("Spain", "borders", "France")]
    >>> graph = Graph.from_triples(facts)
    >>> [fact.label for fact in mine(Predictor(Model("complex", 3, 1, rank=4), graph), n=1)]
    ['France borders Portugal']
    """
    if n < 1:
        raise UsageError(f"n must be at least 1, got {n}.")
    if not 0 <= min_probability <= 1:
        raise UsageError(f"min_probability must be between 0 and 1, got {min_probability}.")
    relations = predictor.graph.relations
    wanted = range(len(relations.names)) if relation is None else [relations.find(relation)]
    for fact in _named(predictor, MiningSearch(predictor).best(wanted, n, track=track)):
        if (fact.plausibility if fact.probability is None else fact.probability) >= min_probability:
            yield fact


class MiningSearch:
    """Prepared data of a graph for any number of mining searches.

    Heads are scored in blocks, sorted by the probability of one more tail. No fact is more plausible than this
    probability, so blocks whose probability is below the n-th best fact are skipped.

    >>> from conjoin.graph.graph import Graph
    >>> from conjoin.model.model import Model
    >>> graph = Graph.from_triples([("France", "borders", "Spain"), ("Spain", "borders", "Portugal")])
    >>> MiningSearch(Predictor(Model("complex", 3, 1, rank=4), graph)).best([0], 2).fact.shape
    torch.Size([2, 3])
    """

    def __init__(self, predictor: Predictor) -> None:
        self.predictor, graph = predictor, predictor.graph
        self._completeness = TailCompleteness(graph)
        mirrors = find_mirrors(graph)
        self._symmetric = torch.zeros(graph.n_relations, dtype=torch.bool, device=predictor.scorer.device)
        self._symmetric[torch.from_numpy(mirrors.relation[mirrors.relation == mirrors.other])] = True

    def best(self, wanted: Sequence[int], n: int, *, track: Track = silent) -> FoundFacts:
        """The n best missing facts of some relations."""
        blocks = [block for r in wanted for block in _blocks(self.predictor, self._completeness, r)]
        blocks.sort(key=lambda block: (-_order(self.predictor, block.r, block.log_room)[0], -block.log_room[0]))
        # A pair of a symmetric relation can be found in both directions.
        keep = 2 * n if bool(self._symmetric.any()) else n
        found = _nothing(self.predictor)
        for block in track(blocks, "mine", len(blocks)):
            floor = _floor(self.predictor, block.r, found) if len(found.value) == keep else -np.inf
            if block.log_room[0] > floor:
                found = found.with_more(_above(self.predictor, block, floor, keep)).best(keep)
        return _once(found, self._symmetric).best(n)


def _order(predictor: Predictor, r: int, values: Reals) -> Reals:
    """Probabilities, or the values themselves without a curve."""
    curve = predictor.calibration.mined_curve(r) if predictor.calibration else None
    return values if curve is None else np.asarray(curve(values), np.float64)


def _floor(predictor: Predictor, r: int, found: FoundFacts) -> float:
    """The log plausibility that a fact of relation r must exceed to come before the last fact found."""
    curve = predictor.calibration.mined_curve(r) if predictor.calibration else None
    value = float(found.value[-1])
    if curve is None:
        return value
    less, not_more = curve.reach(float(found.order[-1]))
    return min(max(value, less), not_more)


def _blocks(predictor: Predictor, completeness: TailCompleteness, r: int) -> Iterator[_Block]:
    """The heads of a relation in blocks, sorted by the probability of one more tail."""
    graph = predictor.graph
    if not (graph.train[:, 1] == r).any():
        return
    room = completeness.of(r)
    heads = np.flatnonzero(room > HOPELESS)
    heads = heads[np.argsort(-room[heads], kind="stable")]
    log_room, log_back = np.log(room[heads]), float(np.log(completeness.back[r]))
    size = min(BLOCK, predictor.scorer.questions_at_once())
    if predictor.scorer.device.type == "cpu":
        size = min(size, max(1, CPU_SCORES // graph.n_entities))
    for start in range(0, len(heads), size):
        part = slice(start, start + size)
        yield _Block(r, heads[part], log_room[part], log_back)


@torch.no_grad()
def _above(predictor: Predictor, block: _Block, floor: float, keep: int) -> FoundFacts:
    """The facts of a block whose value is above the floor, at most `keep`.

    A value is score - log Σ exp scores + log_room, less if the reverse is known. So a floor for values is a floor for
    scores that depends on the head.
    """
    graph, scorer = predictor.graph, predictor.scorer
    heads = torch.from_numpy(block.heads).to(scorer.device)
    relations = np.full_like(block.heads, block.r)
    scores = scorer.scores(heads, torch.full_like(heads, block.r))
    question, tail = graph.known.pairs(block.heads, relations)
    scores[torch.from_numpy(question).to(scorer.device), torch.from_numpy(tail).to(scorer.device)] = -torch.inf
    never = torch.from_numpy(graph.never_itself(block.heads, relations)).to(scorer.device)
    scores[never, heads[never]] = -torch.inf
    total = torch.logsumexp(scores, dim=1)
    if bool(torch.isnan(total).any() | (total == torch.inf).any()):
        raise diverged()
    offset = torch.from_numpy(block.log_room).to(scores) - total
    reversed_ = graph.known.pairs(block.heads, relations + graph.n_relations)
    known_back = tuple(torch.from_numpy(ids).to(scorer.device) for ids in reversed_)
    unchanged = scores[known_back]
    scores[known_back] += block.log_back
    row, tails = (scores > (floor - offset)[:, None]).nonzero(as_tuple=True)
    value = scores[row, tails] + offset[row]
    scores[known_back] = unchanged
    fact = torch.stack([heads[row], torch.full_like(row, block.r), tails], dim=1)
    order = torch.from_numpy(_order(predictor, block.r, value.double().cpu().numpy())).to(scorer.device)
    found = FoundFacts(order, value, scores[row, tails], fact)
    return found if len(row) <= keep else found.at(torch.topk(value, keep).indices)


def _nothing(predictor: Predictor) -> FoundFacts:
    empty = torch.empty(0, device=predictor.scorer.device)
    return FoundFacts(empty.double(), empty, empty, torch.empty(0, 3, dtype=torch.long, device=empty.device))


def _once(found: FoundFacts, symmetric: Tensor) -> FoundFacts:
    """The facts without the worse direction of each pair of a symmetric relation."""
    kept: list[int] = []
    seen: set[tuple[int, int, int]] = set()
    for place, (h, r, t) in enumerate(found.fact.tolist()):
        turned = (t, r, h) if bool(symmetric[r]) else None
        if turned not in seen:
            seen.add((h, r, t))
            kept.append(place)
    chosen = torch.tensor(kept, dtype=torch.long, device=symmetric.device)
    return found.at(chosen)


def _named(predictor: Predictor, found: FoundFacts) -> Iterator[MinedFact]:
    graph = predictor.graph
    facts, scores = found.fact.cpu().numpy(), found.score.double().cpu().numpy()
    values = found.value.double().cpu().numpy()
    calibrated = predictor.calibration is not None and predictor.calibration.mined is not None
    probabilities = found.order.tolist() if calibrated else [None] * len(values)
    plausibilities = np.exp(values).tolist()
    for rank, (fact, score, probability, plausibility) in enumerate(
        zip(facts.tolist(), scores.tolist(), probabilities, plausibilities, strict=True), start=1
    ):
        yield MinedFact(*graph.names(*fact), score, probability, rank, plausibility, graph.label(*fact))
