"""Fit curves from scores to probabilities on the validation set, and measure them on the test set."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import torch

from conjoin.errors import NotInstalled, UsageError, unknown
from conjoin.graph.graph import SPLITS, Graph, Ids, Split, reciprocal
from conjoin.graph.patterns.detect import codes
from conjoin.graph.split import HOLD_MORE_OUT
from conjoin.model.init import generator
from conjoin.predict.mining_eval import HiddenSplit, evaluate_mining
from conjoin.predict.predictor import Marks, Predictor
from conjoin.runs.calibration_curves import Calibration, Curve, Reals, Sigmoid, Steps
from conjoin.runs.warm_start import contained_in
from conjoin.runtime.progress import Track, silent

Method = Literal["isotonic", "platt"]
FEWEST = 50
"""Held-out facts per direction that a relation needs for its own curve; the others share the pooled curve."""
HARD, EASY = 50, 50
"""Sampled corruptions of each fact: the best-scored ones, and random ones with the weight of all others."""
SHOWN = 10
MINED = 100
"""How many mined facts are evaluated."""
DEEP, SHALLOWEST, DEEPEST = 5, 250, 5000
"""Mined facts per hidden fact on which a curve is fitted, and the least and most in all. Less plausible facts get the
probability of the last one."""
TOGETHER = (5, 25)
"""Least and most mined facts per group, a tenth of the right ones. Groups smooth the curve: three wrong facts at its
end say nothing about those below."""
BINS = 10
LEAST = 1e-6
"""The smallest probability. The log loss also keeps this distance from 1, so that one fact cannot make it infinite."""


class CalibrationSample(NamedTuple):
    """Candidates of the queries of a split, one row per query; column 0 is the held-out fact.

    All arrays have the shape (queries, candidates), `relation` (queries,). `weight` is how many candidates an entry
    represents, 0 for padding. A query with several facts has one row for each, and its other candidates are divided
    among these rows. `share` is the softmax probability of the model, `shown` marks the ten best new answers.
    """

    score: Reals
    weight: Reals
    share: Reals
    shown: Marks
    relation: Ids

    @property
    def truth(self) -> Reals:
        truth = np.zeros_like(self.score)
        truth[:, 0] = 1
        return truth


@dataclass(frozen=True, kw_only=True)
class Fitting:
    """How to fit. Without a `ratio` each fact is compared with all entities that complete no known fact. With one it is
    compared with `ratio` random ones, which makes the prior probability 1 / (1 + ratio)."""

    method: Method = "isotonic"
    ratio: int | None = None
    fewest: int = FEWEST
    seed: int = 0

    def __post_init__(self) -> None:
        if self.method not in get_args(Method):
            raise unknown("method", self.method, get_args(Method), way_out="Choose isotonic or platt.")
        if self.ratio is not None and self.ratio < 1:
            raise UsageError(f"ratio must be at least 1, got {self.ratio}.")
        if self.fewest < 2:
            raise UsageError(f"fewest must be at least 2, got {self.fewest}: a curve needs two facts.")


def calibrate(predictor: Predictor, fitting: Fitting | None = None, *, track: Track = silent) -> Calibration:
    """Fit curves on valid; `measured` holds their reliability on test and that of uncalibrated scores.

    >>> from conjoin.datasets.load import load
    >>> from conjoin.model.model import Model
    >>> graph = load("synthetic:symmetric(entities=120)")
    >>> model = Model("complex", graph.n_entities, graph.n_relations, rank=4)
    >>> calibrate(Predictor(model, graph), Fitting(method="platt")).about["method"]
    'platt'
    """
    chosen, graph = fitting or Fitting(), predictor.graph
    if not len(held_out(graph, "valid")):
        of_its_own = " outside train" if len(graph.valid) else ""
        raise UsageError(
            f"{graph.name} has no validation facts{of_its_own}, so it cannot be calibrated: {HOLD_MORE_OUT}, "
            "train again"
        )
    valid = draw(predictor, "valid", chosen, track=track)
    pooled = fit(valid.score, valid.truth, valid.weight, chosen.method)
    own: dict[int, Curve] = {}
    for r, count in zip(*np.unique(valid.relation, return_counts=True), strict=True):
        if count >= chosen.fewest:
            here = valid.relation == r
            own[int(r)] = fit(valid.score[here], valid.truth[here], valid.weight[here], chosen.method)
    about = {
        "method": chosen.method,
        "against": "all entities" if chosen.ratio is None else f"{chosen.ratio} random corruptions",
        "ratio": chosen.ratio,
        "prior": float(len(valid.score) / valid.weight.sum()),
        "facts": len(valid.score) // 2,
        "fewest": chosen.fewest,
        "own_curves": len(own),
        "seed": chosen.seed,
    }
    fitted = Calibration(pooled, own, about)
    left = len(held_out(graph, "test"))
    measured = measure(draw(predictor, "test", chosen, track=track), fitted) if left else {}
    mined, mined_own = fit_mined(predictor, chosen.fewest, track=track)
    whole = Calibration(pooled, own, about, measured, mined, mined_own)
    if measured and mined:
        measured["mined"] = measure_mined(Predictor(predictor.scorer, predictor.graph, calibration=whole), track=track)
    return whole


def fit_mined(predictor: Predictor, fewest: int, *, track: Track = silent) -> tuple[Curve | None, dict[int, Curve]]:
    """Curves from log plausibility to the fraction of mined facts that are right, measured with valid hidden.

    Every relation with enough hidden facts has its own curve. The first curve returned is for all other relations
    together, or for all relations if the others have no hidden facts.
    """
    graph = predictor.graph
    stage = HiddenSplit(Predictor(predictor.scorer, graph), ["valid"])
    hidden = np.bincount([r for _, r, _ in stage.hidden], minlength=graph.n_relations)
    hidden[~np.isin(np.arange(graph.n_relations), graph.train[:, 1])] = (
        0  # mining skips relations without training facts
    )
    enough, others = (np.flatnonzero(found).tolist() for found in (hidden >= fewest, hidden < fewest))
    groups = [others, *([r] for r in enough)]
    first, *own = (_mined_curve(stage, group, hidden) for group in track(groups, "fit mined", len(groups)))
    pooled = first or _mined_curve(stage, list(range(graph.n_relations)), hidden)
    return pooled, {r: curve for r, curve in zip(enough, own, strict=True) if curve is not None}


def _mined_curve(stage: HiddenSplit, group: list[int], hidden: Ids) -> Curve | None:
    """The curve of some relations together; None if no fact was hidden or none can be mined."""
    if not (count := int(hidden[group].sum())):
        return None
    found = stage.first(int(np.clip(DEEP * count, SHALLOWEST, DEEPEST)), relations=group)
    if not len(found.value):
        return None
    at_a_time = int(np.clip(found.right.sum() // 10, *TOGETHER))
    parts = np.array_split(found.right, max(1, len(found.right) // at_a_time))
    share = np.concatenate([np.full_like(part, part.mean()) for part in parts])
    return fit(found.value, share, np.ones_like(share), "isotonic")


def measure_mined(predictor: Predictor, *, track: Track = silent) -> dict[str, Any]:
    """Hide test, mine, and compare how many of the first facts are right with how many the calibration predicts."""
    found = evaluate_mining(predictor, ["test"], n=MINED, track=track)
    said = float(found.said.sum())
    return {"first": len(found.value), "right": int(found.right.sum()), "said": said, "hidden": found.hidden}


def held_out(graph: Graph, split: Split) -> Ids:
    """The distinct facts (n, 3) of a split that are in no split before it."""
    facts = graph.triples(split)
    fresh = np.zeros(len(facts), dtype=bool)
    fresh[np.unique(codes(facts)[0], return_index=True)[1]] = True
    for before in SPLITS[: SPLITS.index(split)]:
        fresh &= ~contained_in(facts, graph.triples(before))
    return facts[fresh]


def draw(predictor: Predictor, split: Split, fitting: Fitting, *, track: Track = silent) -> CalibrationSample:
    """The held-out facts of a split with corruptions that are in no split, in both directions."""
    queries = reciprocal(held_out(predictor.graph, split), predictor.graph.n_relations)
    size = max(1, predictor.scorer.questions_at_once() // 4)
    parts = [queries[start : start + size] for start in range(0, len(queries), size)]
    drawn = [
        _draw(predictor, part, fitting, generator(fitting.seed, f"corruptions of {split}", number))
        for number, part in enumerate(track(parts, f"compare {split}", len(parts)))
    ]
    sample = CalibrationSample(*(np.concatenate(column) for column in zip(*drawn, strict=True)))
    if fitting.ratio is None:  # a query with several facts has a row for each
        _, question, facts = np.unique(queries[:, :2], axis=0, return_inverse=True, return_counts=True)
        sample.weight[:, 1:] /= facts[question.reshape(-1), None]
    return sample


def _draw(predictor: Predictor, queries: Ids, fitting: Fitting, chance: torch.Generator) -> CalibrationSample:
    device = predictor.scorer.device
    h, r, t = torch.from_numpy(queries).to(device).unbind(dim=1)
    scores = predictor.scorer.scores(h, r)
    whole = scores.logsumexp(dim=1, keepdim=True)
    fact = scores.gather(1, t[:, None])
    question, entity = (torch.from_numpy(ids).to(device) for ids in predictor.graph.known.pairs(*queries.T[:2]))
    never = torch.from_numpy(np.flatnonzero(predictor.graph.never_itself(*queries.T[:2]))).to(device)
    question, entity = torch.cat([question, never]), torch.cat([entity, h[never]])
    scores[question, entity] = -torch.inf
    left = torch.isfinite(scores).sum(dim=1, keepdim=True)
    hard = 0 if fitting.ratio else min(HARD, scores.shape[1])
    best = scores.topk(hard, dim=1)
    lots = torch.rand(scores.shape, generator=chance, dtype=torch.float32, device="cpu").to(device)
    lots[question, entity] = -1
    lots.scatter_(1, best.indices, -1.0)
    drawn = lots.topk(min(fitting.ratio or EASY, scores.shape[1] - hard), dim=1)
    there = torch.cat([best.values > -torch.inf, drawn.values >= 0], dim=1)
    corrupted = torch.cat([best.values, scores.gather(1, drawn.indices)], dim=1)
    found = torch.cat([fact, torch.where(there, corrupted, fact)], dim=1)
    weight = torch.cat([torch.ones_like(fact), there.to(fact)], dim=1)
    if fitting.ratio is None:
        easy = weight[:, 1 + hard :]
        easy *= (left - hard).clamp(min=0) / easy.sum(dim=1, keepdim=True).clamp(min=1)
    order = torch.where(weight > 0, found, -torch.inf).argsort(dim=1, descending=True)
    shown = (order.argsort(dim=1) < SHOWN) & (weight > 0)
    score, weights, share = (column.double().cpu().numpy() for column in (found, weight, (found - whole).exp()))
    return CalibrationSample(score, weights, share, shown.cpu().numpy(), queries[:, 1])


def fit(scores: Reals, truth: Reals, weight: Reals, method: Method) -> Curve:
    """A curve from scores to the weighted fraction of facts.

    Probabilities stay at or below (n + 1) / (n + 2) for n facts, because a few true facts do not prove certainty. A
    sigmoid is constant at this value if every candidate is a fact.
    """
    try:
        from sklearn.isotonic import IsotonicRegression
        from sklearn.linear_model import LogisticRegression
    except ModuleNotFoundError as error:
        raise NotInstalled("scikit-learn", "calibrate", "fitting a calibration") from error
    there = weight > 0
    x, y, w = scores[there], truth[there], weight[there]
    if method == "isotonic":
        facts = (w * y).sum()
        most = (facts + 1) / (facts + 2)
        steps = IsotonicRegression(y_min=LEAST, y_max=most, out_of_bounds="clip").fit(x, y, sample_weight=w)
        return Steps(np.asarray(steps.X_thresholds_, np.float64), np.asarray(steps.y_thresholds_, np.float64))
    if y.all():
        return Sigmoid(0.0, float(np.log(y.sum() + 1)))
    line = LogisticRegression(C=1e6, max_iter=1000).fit(x[:, None], y, sample_weight=w)
    return Sigmoid(float(line.coef_[0, 0]), float(line.intercept_[0]))


def measure(sample: CalibrationSample, calibration: Calibration) -> dict[str, Any]:
    """Reliability of calibrated and uncalibrated scores over all candidates, and over the ten best new answers.

    Uncalibrated are the softmax over all entities and the sigmoid of the score.
    """
    relations = np.repeat(sample.relation[:, None], sample.score.shape[1], axis=1)
    readings: dict[str, Callable[[], Reals]] = {
        "calibrated": lambda: calibration.probabilities(relations.ravel(), sample.score.ravel()).reshape(
            sample.score.shape
        ),
        "pooled": lambda: calibration.pooled(sample.score),
        "softmax": lambda: sample.share,
        "sigmoid": lambda: Sigmoid(1, 0)(sample.score),
    }
    measured: dict[str, Any] = {"facts": len(sample.score) // 2, "prior": len(sample.score) / sample.weight.sum()}
    truth, shown = sample.truth, sample.shown
    for name, reading in readings.items():
        p = reading()
        measured[name] = {"candidates": reliability(p.ravel(), truth.ravel(), sample.weight.ravel())}
        if calibration.about.get("ratio") is None:
            measured[name]["shown"] = reliability(p[shown], truth[shown], np.minimum(sample.weight, 1)[shown])
    return measured


def reliability(p: Reals, truth: Reals, weight: Reals) -> dict[str, Any]:
    """Expected calibration error over ten equal bins, Brier score, log loss and the table behind the error.

    >>> reliability(np.array([0.2, 0.9]), np.array([0.0, 1.0]), np.ones(2))["brier"]
    0.025
    """
    total = weight.sum()
    safe = np.clip(p, LEAST, 1 - LEAST)
    bins = np.minimum((p * BINS).astype(int), BINS - 1)
    in_bin, said, true = (np.bincount(bins, w, minlength=BINS) for w in (weight, weight * p, weight * truth))
    table = [
        {
            "from": number / BINS,
            "to": (number + 1) / BINS,
            "candidates": float(in_bin[number]),
            "probability": float(said[number] / in_bin[number]),
            "facts": float(true[number] / in_bin[number]),
        }
        for number in np.flatnonzero(in_bin).tolist()
    ]
    return {
        "ece": float(np.abs(said - true).sum() / total),
        "brier": round(float((weight * (p - truth) ** 2).sum() / total), 12),
        "log_loss": float(-(weight * np.log(np.where(truth == 1, safe, 1 - safe))).sum() / total),
        "facts": float((weight * truth).sum() / total),
        "table": table,
    }
