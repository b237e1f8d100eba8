"""How long runs will take: from finished runs on the same kind of machine, else from their arithmetic. No torch."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from conjoin.errors import RunError
from conjoin.files import read_json
from conjoin.graph.named.catalogue import catalogue, dataset, same_name
from conjoin.study.schedule import Standing, graph_facts, standing
from conjoin.study.study import Cell, Study

TYPICAL_SPEED = 5e10
"""Operations per second where nothing was measured: good enough to tell cheap from dear."""
STEP_SECONDS = 1e-3
"""What a step costs on the smallest graph, whatever the arithmetic."""
SWEEP = 200
"""The optimiser's passes over one number of the table cost about as much as so many operations."""


@dataclass(frozen=True)
class Sizes:
    """What the arithmetic of a graph follows from."""

    train: int
    valid: int
    test: int
    entities: int
    relations: int


@dataclass(frozen=True, kw_only=True)
class Estimator:
    """Seconds per cell. `factors` correct the arithmetic by what runs have really taken; `source` tells from where."""

    sizes: Mapping[str, Sizes]
    machine: str
    speed: float
    factors: Mapping[tuple[str, ...], float]
    source: str

    def seconds(self, cell: Cell, *, done: int = 0) -> float | None:
        """From `done` epochs to the end, ranking included; None where the graph's size is not known."""
        size = self.sizes.get(cell.dataset)
        if size is None:
            return None
        keys = ((cell.dataset, cell.row.name, cell.row.settings), (cell.dataset,), ())
        factor = next((self.factors[key] for key in keys if key in self.factors), 1.0)
        left = max(0, cell.recipe.epochs - done)
        validations = left // cell.recipe.validate_every if cell.recipe.validate_every else 0
        questions = 2 * (validations * size.valid + 2 * (size.valid + size.test))
        ranking = 4 * questions * size.entities * cell.rank / self.speed
        return factor * (left * epoch_seconds(cell, size, self.speed) + ranking)

    def total(self, standings: Iterable[Standing]) -> float:
        """Seconds of all of them together, one after the other; what cannot be estimated counts nothing."""
        return sum(self.seconds(each.cell, done=each.epochs) or 0.0 for each in standings)

    def cheapest_first(self, standings: Iterable[Standing]) -> list[Cell]:
        """The order of work; runs of unknown cost come last."""
        costs = {each.cell: self.seconds(each.cell, done=each.epochs) for each in standings}
        return sorted(costs, key=lambda cell: (costs[cell] is None, costs[cell] or 0.0))


def epoch_seconds(cell: Cell, size: Sizes, speed: float) -> float:
    """One epoch by arithmetic: three products with the table, the optimiser's sweep of it, and a constant per step."""
    examples = 2 * size.train
    steps = -(-examples // cell.recipe.batch)
    products = 12 * examples * size.entities * cell.rank
    sweeps = SWEEP * steps * 2 * cell.rank * (size.entities + 4 * size.relations)
    return (products + sweeps) / speed + steps * STEP_SECONDS


def estimator(study: Study, root: Path, *, machine: str, speed: float | None = None) -> Estimator:
    """An estimator for a kind of machine, as run.json names it: x86_64, NVIDIA H200.

    `speed` (operations per second, from a probe) counts where no run of the study was finished on such a machine.
    """
    sizes = {name: size for name in study.datasets if (size := _size(study, name, root))}
    ratios: dict[tuple[str, ...], list[float]] = {}
    runs = 0
    for cell in study.cells():
        seconds = _measured(standing(cell, root), machine)
        if seconds is None or cell.dataset not in sizes:
            continue
        runs += 1
        ratio = seconds / epoch_seconds(cell, sizes[cell.dataset], TYPICAL_SPEED)
        for key in ((cell.dataset, cell.row.name, cell.row.settings), (cell.dataset,), ()):
            ratios.setdefault(key, []).append(ratio)
    if runs:
        factors = {key: statistics.median(values) for key, values in ratios.items()}
        source = f"{runs} finished run{'s' if runs > 1 else ''} on {machine}"
        return Estimator(sizes=sizes, machine=machine, speed=TYPICAL_SPEED, factors=factors, source=source)
    source = f"a short probe of this {machine}, rough" if speed else "the arithmetic alone, very rough"
    return Estimator(sizes=sizes, machine=machine, speed=speed or TYPICAL_SPEED, factors={}, source=source)


def _size(study: Study, name: str, root: Path) -> Sizes | None:
    graph = study.source(name)
    if any(same_name(graph, known) for known in catalogue()):
        return Sizes(**vars(dataset(graph).counts))
    facts = graph_facts(study, name, root)
    return Sizes(**{key: facts[key] for key in Sizes.__dataclass_fields__}) if facts else None


def _measured(each: Standing, machine: str) -> float | None:
    """Seconds per epoch of a finished run on such a machine."""
    if each.state != "done":
        return None
    try:
        environment = read_json(each.folder.settings_file)["environment"]
        seconds = each.folder.result["seconds_per_epoch"]
        return seconds if environment["name"] == machine and seconds else None
    except (RunError, KeyError, TypeError):
        return None
