"""Measure the speed of this machine by a few steps of the planned training."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from conjoin.model.model import Model
from conjoin.model.softmax import NegativeSample
from conjoin.planning.memory_model import PlannedSetting, PlannedSizes
from conjoin.runtime.device import matmul_precision, seconds_of, threads_for
from conjoin.training.recipe import Recipe
from conjoin.training.steps.choose import TrainingStep

WARM_UP, TIMES = 4, 5
"""Steps before timing (a GPU warms up and records), and timed steps. The shortest time counts, because other work on
the machine can only add time."""
LARGEST = {"cpu": 4e9, "cuda": 4e12}
"""Operations of one probed step: larger tables are probed at two smaller sizes and extended along a line."""
APART = 8
"""The ratio of the two sizes. The more they differ, the less a disturbed measurement moves the line."""
MOST_NUMBERS = {"cpu": 20e6, "cuda": 2e9}
MOST_RELATIONS = 10_000


@dataclass(frozen=True)
class ProbedSpeed:
    """Measured seconds, and the number of entities that were used to measure."""

    step: float
    question: float
    entities: int

    def epoch(self, sizes: PlannedSizes, setting: PlannedSetting) -> float:
        return self.step * -(-sizes.examples // setting.batch)

    def rankings(self, sizes: PlannedSizes) -> float:
        """Valid and test once each, both directions."""
        return self.question * 2 * (sizes.valid + sizes.test)


def probe(sizes: PlannedSizes, setting: PlannedSetting) -> ProbedSpeed:
    """Seconds of a step and of a ranked question at these sizes, in one process; a sampled step touches what is drawn,
    however many entities there are."""
    rows, sampled = (-(-count // setting.processes) for count in (sizes.entities, setting.negatives))
    width = setting.width
    most = min(LARGEST[setting.device] / (6 * setting.batch * width), MOST_NUMBERS[setting.device] / width)
    used = max(64, min(rows, max(int(most), sampled)))
    recipe = Recipe(
        batch=setting.batch,
        optimizer=setting.optimizer,
        precision=setting.precision,  # type: ignore[arg-type]
        negatives=sampled,
    )
    relations = min(sizes.relations, MOST_RELATIONS)
    step, question = _timed(used, relations, setting, recipe)
    if used == rows:
        return ProbedSpeed(step, question, used)
    fewer = used // APART
    fewer_step, fewer_question = _timed(fewer, relations, setting, recipe)
    whole_step = step if sampled else _extended((fewer, fewer_step), (used, step), rows)
    return ProbedSpeed(whole_step, _extended((fewer, fewer_question), (used, question), rows), used)


def _extended(less: tuple[int, float], more: tuple[int, float], wanted: int) -> float:
    """Along the line through two measured (entities, seconds), from no growth at most to proportion: what does not grow
    takes some time, never less than none."""
    (few, short), (many, long) = less, more
    slope = (long - short) / (many - few)
    return long + min(max(slope, 0), long / many) * (wanted - many)


def _timed(entities: int, relations: int, setting: PlannedSetting, recipe: Recipe) -> tuple[float, float]:
    random = np.random.default_rng(0)
    model = Model(setting.form, entities, relations, rank=setting.rank, device=setting.device)
    step = TrainingStep(model, recipe)

    def ids(most: int, count: int) -> torch.Tensor:
        return torch.from_numpy(random.integers(0, most, count)).to(model.device)

    def examples(count: int) -> torch.Tensor:
        return torch.stack([ids(entities, count), ids(2 * relations, count), ids(entities, count)], dim=1)

    def rank(queries: torch.Tensor) -> None:
        none = torch.empty(0, dtype=torch.long, device=model.device)
        with torch.no_grad():
            model.entities.standing(model.query(queries[:, 0], queries[:, 1]), queries[:, 2], (none, none))

    questions = min(64, model.entities.questions_at_once())
    batch = examples(setting.batch)
    scored, sample = recipe.negatives or entities, None
    if recipe.negatives:
        of_drawn, of_targets = (torch.zeros(count, device=model.device) for count in (scored, setting.batch))
        sample = NegativeSample(ids(entities, scored).sort().values, of_drawn, of_targets)
    with matmul_precision(recipe.precision), threads_for(6 * setting.batch * setting.width * scored):
        (prepared,) = step.batches(batch)
        seconds = seconds_of(lambda: step(prepared, sample), model.device, times=TIMES, warm=WARM_UP, of=min)
    queries = batch[:questions]
    return seconds, seconds_of(lambda: rank(queries), model.device, times=TIMES, warm=WARM_UP, of=min) / len(queries)
