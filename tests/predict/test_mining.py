"""Mining against brute force over all pairs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
import torch

from conjoin.errors import Diverged, UnknownName, UsageError
from conjoin.graph.graph import Graph
from conjoin.model.model import Model
from conjoin.predict.completeness import TailCompleteness
from conjoin.predict.mining import MinedFact, mine, write_mined
from conjoin.predict.predictor import Predictor
from conjoin.runs.calibration_curves import Calibration, Sigmoid, Steps


def graph_of(seed: int = 0) -> Graph:
    """Twelve entities; r0 is symmetric, r1 has a loop, r2 gives each head one tail."""
    random = np.random.default_rng(seed)
    pairs = {tuple(sorted(random.choice(12, 2, replace=False).tolist())) for _ in range(12)}
    symmetric = [(a, 0, b) for pair in pairs for a, b in (pair, pair[::-1])]
    others = [*zip(random.integers(0, 9, 15).tolist(), [1] * 15, random.integers(0, 12, 15).tolist(), strict=True)]
    facts = [*symmetric, *others, (3, 1, 3), *((h, 2, (h + 5) % 12) for h in range(8))]
    names = [(f"e{h:02}", f"r{r}", f"e{t:02}") for h, r, t in dict.fromkeys(facts)]
    return Graph.from_triples(names[2:], names[:1], names[1:2], labels={"e00": "Zero"})


def predictor_of(graph: Graph, **more: Any) -> Predictor:
    model = Model("5star-conj", graph.n_entities, graph.n_relations, rank=4, scale=0.8, dtype=torch.float64)
    return Predictor(model, graph, **more)


def brute_force(predictor: Predictor, relations: Iterable[int]) -> list[tuple[float, tuple[int, int, int]]]:
    """Every pair of every relation, one by one, best first."""
    graph, found = predictor.graph, []
    rooms = TailCompleteness(graph)
    for r in relations:
        loops = any(h == t for h, _, t in graph.train[graph.train[:, 1] == r].tolist())
        room = rooms.of(r)
        for h in range(graph.n_entities):
            scores = predictor.model.scores(torch.tensor([h]), torch.tensor([r]))[0].tolist()
            fresh = [t for t in range(graph.n_entities) if t not in graph.known.tails_of(h, r) and (loops or t != h)]
            total = sum(math.exp(scores[t]) for t in fresh)
            for t in fresh:
                back = rooms.back[r] if h in graph.known.tails_of(t, r) else 1
                found.append((room[h] * back * math.exp(scores[t]) / total, (h, r, t)))
    found.sort(reverse=True)
    once, seen = [], set()
    for value, (h, r, t) in found:
        if not (r == 0 and (t, r, h) in seen):
            seen.add((h, r, t))
            once.append((value, (h, r, t)))
    return once


def ids(graph: Graph, fact: MinedFact) -> tuple[int, int, int]:
    return graph.entities.find(fact.head), graph.relations.find(fact.relation), graph.entities.find(fact.tail)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("relation", [None, "r0", "r1", "r2"])
@pytest.mark.parametrize("n", [1, 7, 10_000])
def test_mining_equals_brute_force(monkeypatch: pytest.MonkeyPatch, seed: int, relation: str | None, n: int) -> None:
    monkeypatch.setattr("conjoin.predict.mining.BLOCK", 3)
    predictor = predictor_of(graph_of(seed))
    wanted = range(3) if relation is None else [int(relation[1])]
    expected = brute_force(predictor, wanted)[:n]
    found = list(mine(predictor, relation=relation, n=n))
    assert [ids(predictor.graph, fact) for fact in found] == [fact for _, fact in expected]
    assert [fact.plausibility for fact in found] == pytest.approx([value for value, _ in expected])
    assert [fact.rank for fact in found] == list(range(1, len(expected) + 1))
    for fact in found[:5]:
        (scored,) = predictor.score([(fact.head, fact.relation, fact.tail)])
        assert not scored.known
        assert fact.score == pytest.approx(scored.score)
        assert fact.label == scored.label
        assert fact.probability is None


CURVES = Calibration(
    Sigmoid(1.0, 0.0),
    {},
    mined=Steps(np.array([-3.0, -2.5, -0.2]), np.array([0.01, 0.01, 0.9])),
    mined_own={
        1: Steps(np.array([-8.0, -6.0, -5.0, -2.0]), np.array([0.1, 0.3, 0.3, 0.5])),
        2: Sigmoid(0.3, 0.0),
    },
)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("relation", [None, "r0", "r1", "r2"])
@pytest.mark.parametrize("n", [1, 15, 48, 10_000])
def test_calibrated_the_most_probable_come_first(
    monkeypatch: pytest.MonkeyPatch, seed: int, relation: str | None, n: int
) -> None:
    """Relations have curves of their own, with steps on which only plausibility decides."""
    monkeypatch.setattr("conjoin.predict.mining.BLOCK", 3)
    predictor = predictor_of(graph_of(seed), calibration=CURVES)
    wanted = range(3) if relation is None else [int(relation[1])]
    probable = [
        (float(curve(np.log([value]))[0]), value, fact)
        for value, fact in brute_force(predictor, wanted)
        if (curve := CURVES.mined_curve(fact[1])) is not None
    ]
    expected = sorted(probable, key=lambda found: found[:2], reverse=True)[:n]
    found = list(mine(predictor, relation=relation, n=n))
    assert [fact.probability for fact in found] == pytest.approx([probability for probability, _, _ in expected])
    assert [ids(predictor.graph, fact) for fact in found] == [fact for _, _, fact in expected]


def test_on_a_cpu_the_scores_of_a_block_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    predictor = predictor_of(graph_of())
    expected = list(mine(predictor, n=10_000))
    most, scores = 2 * predictor.graph.n_entities + 1, predictor.model.scores
    sizes: list[int] = []

    def watched(h: torch.Tensor, r: torch.Tensor) -> torch.Tensor:
        got = scores(h, r)
        sizes.append(got.numel())
        return got

    monkeypatch.setattr(predictor.model, "scores", watched)
    for bound, heads in ((most, 2), (1, 1)):
        monkeypatch.setattr("conjoin.predict.mining.CPU_SCORES", bound)
        sizes.clear()
        found = list(mine(predictor, n=10_000))
        assert max(sizes) == heads * predictor.graph.n_entities
        assert [fact.label for fact in found] == [fact.label for fact in expected]


def test_heads_without_room_are_not_scored(monkeypatch: pytest.MonkeyPatch) -> None:
    """No fact is more plausible than its head has room."""
    monkeypatch.setattr("conjoin.predict.mining.BLOCK", 1)
    predictor = predictor_of(graph_of())
    scored: list[int] = []
    scores = predictor.model.scores

    def counted(h: torch.Tensor, r: torch.Tensor) -> torch.Tensor:
        scored.append(len(h))
        return scores(h, r)

    monkeypatch.setattr(predictor.model, "scores", counted)
    found = list(mine(predictor, n=1))
    assert len(scored) < 3 * 12
    assert ids(predictor.graph, found[0]) == brute_force(predictor, range(3))[0][1]


def test_the_least_probable_are_left_out() -> None:
    graph = graph_of()
    plain = list(mine(predictor_of(graph), n=500))
    middle = plain[20].plausibility
    assert list(mine(predictor_of(graph), n=500, min_probability=middle)) == plain[:21]
    curves = Calibration(Sigmoid(1.0, 0.0), {1: Sigmoid(2.0, -1.0)}, mined=Sigmoid(2.0, 1.0))
    calibrated = list(mine(predictor_of(graph, calibration=curves), n=500))
    assert [replace(fact, probability=None) for fact in calibrated] == plain
    for fact in calibrated:
        assert fact.probability == pytest.approx(1 / (1 + math.exp(-(2 * math.log(fact.plausibility) + 1))))
    least = calibrated[7].probability
    assert least is not None
    assert list(mine(predictor_of(graph, calibration=curves), n=500, min_probability=least)) == calibrated[:8]
    uncertain = predictor_of(graph, calibration=Calibration(Sigmoid(1.0, 0.0), {}))
    assert list(mine(uncertain, n=500)) == plain
    half = predictor_of(graph, calibration=replace(CURVES, mined=None))
    assert list(mine(half, n=500)) == plain, "without a curve for all relations none counts"


def test_progress_counts_blocks() -> None:
    told = []

    def track(steps: Any, what: str, total: int | None) -> Iterator[Any]:
        told.append((what, total))
        return iter(steps)

    list(mine(predictor_of(graph_of()), track=track))
    assert told == [("mine", 3)]


@pytest.mark.parametrize(
    ("wrong", "error", "words"),
    [
        ({"n": 0}, UsageError, "0"),
        ({"min_probability": 1.5}, UsageError, "between 0 and 1"),
        ({"relation": "r9"}, UnknownName, "unknown relation"),
    ],
)
def test_invalid_arguments_are_refused(wrong: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        list(mine(predictor_of(graph_of()), **wrong))


def test_a_model_that_has_diverged() -> None:
    predictor = predictor_of(graph_of())
    predictor.model.relations[0, 0] = torch.nan
    with pytest.raises(Diverged, match="finite"):
        list(mine(predictor))


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".parquet"])
def test_files(tmp_path: Path, ending: str) -> None:
    facts = list(mine(predictor_of(graph_of()), n=12))
    facts[0] = replace(facts[0], head='a "b", c\td', probability=0.25)
    file = tmp_path / f"mined{ending}"
    write_mined(str(file), iter(facts))
    if ending == ".parquet":
        rows = pq.read_table(file).to_pylist()
    else:
        options = pyarrow.csv.ParseOptions(delimiter="," if ending == ".csv" else "\t")
        rows = pyarrow.csv.read_csv(file, parse_options=options).to_pylist()
    assert [MinedFact(**row) for row in rows] == facts
    assert [path.name for path in tmp_path.iterdir()] == [file.name]


def test_files_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"\.csv, \.tsv"):
        write_mined(tmp_path / "mined.xlsx", [])
    with pytest.raises(UsageError, match="nowhere"):
        write_mined(tmp_path / "nowhere" / "mined.csv", [])
