"""The probe runs the real step and extends along a line."""

from __future__ import annotations

from typing import Any

import pytest

from conjoin.forms.notation import form
from conjoin.model.table import EntityTable
from conjoin.planning import probe as module
from conjoin.planning.memory_model import PlannedSetting, PlannedSizes


def test_small_graphs_are_measured_and_large_ones_extrapolated(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = PlannedSizes(entities=500, relations=3, train=1000, valid=10, test=10)
    setting = PlannedSetting(form=form("complex"), rank=4, batch=50)
    speed = module.probe(sizes, setting)
    assert speed.entities == 500
    assert speed.epoch(sizes, setting) == pytest.approx(40 * speed.step)
    assert speed.rankings(sizes) == pytest.approx(40 * speed.question)
    monkeypatch.setattr(module, "_timed", lambda entities, *_: (0.5 + entities / 1000, entities / 1e6))
    extended = module.probe(PlannedSizes(entities=10**9, relations=3, train=1000), setting)
    assert extended.entities < 10**9
    assert extended.step == pytest.approx(0.5 + 10**6)
    assert extended.question == pytest.approx(1000)


@pytest.mark.parametrize(("fewer", "least", "most"), [(0.0, 100, 100), (0.5, 50, 60), (1.5, 1, 1)])
def test_a_disturbed_measurement_leaves_the_line_between_no_growth_and_proportion(
    fewer: float, least: float, most: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    setting = PlannedSetting(form=form("complex"), rank=4, batch=50)
    used: list[int] = []

    def timed(entities: int, *_: Any) -> tuple[float, float]:
        used.append(entities)
        return (1.0, 1.0) if len(used) == 1 else (fewer, fewer)

    monkeypatch.setattr(module, "LARGEST", {"cpu": 1e7})
    largest = int(1e7 / (6 * 50 * 8))
    monkeypatch.setattr(module, "_timed", timed)
    speed = module.probe(PlannedSizes(entities=100 * largest, relations=3, train=1000), setting)
    assert used == [largest, largest // module.APART]
    assert least <= speed.step <= most
    assert speed.question == speed.step


class BusyClock:
    """Stands for the module time: of five intervals between two looks at it, four are disturbed."""

    now, looks = 0.0, 0

    def __getattr__(self, name: str) -> Any:
        return self._look

    def _look(self) -> float:
        self.looks += 1
        self.now += 50.0 if self.looks % 10 else 1.0
        return self.now


def test_other_work_on_the_machine_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("conjoin.runtime.device.time", BusyClock())
    sizes = PlannedSizes(entities=500, relations=3, train=1000)
    assert module.probe(sizes, PlannedSetting(form=form("complex"), rank=4, batch=50)).step == 1


def test_a_sampled_softmax_is_probed_as_one_and_does_not_grow_with_the_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn, sampled = [], EntityTable.sampled_softmax

    def watched(table: EntityTable, q: Any, t: Any, sample: Any, **how: Any) -> Any:
        drawn.append((len(table), len(sample.ids)))
        return sampled(table, q, t, sample, **how)

    monkeypatch.setattr(EntityTable, "sampled_softmax", watched)
    setting = PlannedSetting(form=form("complex"), rank=4, batch=50, negatives=30, processes=2)
    assert module.probe(PlannedSizes(entities=500, relations=3, train=1000), setting).entities == 250
    assert set(drawn) == {(250, 15)}
    monkeypatch.setattr(module, "_timed", lambda entities, *_: (0.5, entities / 1e6))
    extended = module.probe(PlannedSizes(entities=2 * 10**9, relations=3, train=1000), setting)
    assert extended.step == 0.5
    assert extended.question == pytest.approx(1000)
