"""A plan: the memory that a training needs, the memory there is, and settings that fit."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from conjoin.errors import UsageError
from conjoin.planning.memory_model import Memory, PlannedSetting, PlannedSizes, has_kernels, memory, parameters
from conjoin.planning.tie_savings import TieSavings, tie_savings

USABLE = 0.9
"""The usable share of the memory. The rest is for fragmentation, the system and other programs."""


class DoesNotFit(UsageError):
    """A training that would run out of memory."""


@dataclass(frozen=True)
class Recommendation:
    """The nearest settings that fit; the sentences say how much memory each change saves."""

    rank: int
    batch: int
    precision: str
    shards: int
    sentences: tuple[str, ...]


@dataclass(frozen=True)
class TrainingPlan:
    """The output of `conjoin plan` except the time.

    `available` is what a process can still have, `held` what it has already: the program and the graph.
    """

    sizes: PlannedSizes
    setting: PlannedSetting
    memory: Memory
    available: int | None
    held: int
    tying: TieSavings
    recommendation: Recommendation

    @property
    def fits(self) -> bool | None:
        """Does the training fit? None if the size of the memory is unknown."""
        return None if self.available is None else self.memory.peak <= USABLE * self.available

    def to_json(self) -> dict[str, Any]:
        entities, relations = parameters(self.sizes, self.setting)
        setting = asdict(self.setting) | {"form": str(self.setting.form)}
        return {
            "graph": asdict(self.sizes),
            "setting": setting,
            "parameters": {"entities": entities, "relations": relations, "total": entities + relations},
            "bytes_per_process": self.memory.to_json(),
            "available_bytes": self.available,
            "held_bytes": self.held,
            "fits": self.fits,
            "tying": asdict(self.tying),
            "recommendation": asdict(self.recommendation),
        }


def make_plan(sizes: PlannedSizes, setting: PlannedSetting, *, available: int | None, held: int = 0) -> TrainingPlan:
    """A plan for processes with `available` free bytes each."""
    needed = memory(sizes, setting)
    advice = _recommend(sizes, setting, available)
    return TrainingPlan(sizes, setting, needed, available, held, tie_savings(sizes, setting), advice)


def left_of(limit: int, held: int) -> int:
    """The bytes that a limit for the whole process leaves to a training."""
    return max(0, limit - held)


def refuse_unless_fits(sizes: PlannedSizes, setting: PlannedSetting, *, available: int, held: int = 0) -> None:
    """Raise DoesNotFit with advice if a training would need more than `available` bytes."""
    plan = make_plan(sizes, setting, available=available, held=held)
    if plan.fits:
        return
    beside = f", beside the {sized(held)} that the program and the graph hold," if held else ""
    raise DoesNotFit(
        f"This training needs about {sized(plan.memory.peak)} of memory{beside} and {sized(available)} are left. "
        + " ".join(plan.recommendation.sentences)
        + " `conjoin plan` shows the terms; --memory-limit any trains all the same."
    )


def sized(count: float) -> str:
    """Bytes as text in decimal units, such as 1.5 GB."""
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if count >= size:
            return f"{count / size:.3g} {unit}" if count < 1000 * size else f"{count / size:,.0f} {unit}"
    return f"{count / 1e3:.3g} kB"


def _recommend(sizes: PlannedSizes, setting: PlannedSetting, available: int | None) -> Recommendation:
    precision = _precision(sizes, setting, available)
    if available is None or _fits(sizes, setting, available):
        said = [] if available is None else [_room(sizes, setting, available)]
        return Recommendation(setting.rank, setting.batch, precision, setting.processes, tuple(said))
    rank = _largest_rank(sizes, setting, available)
    shards = _fewest_shards(sizes, setting, available)
    said = []
    if rank:
        said.append(f"--rank {rank} fits as it is.")
    if shards:
        said.append(
            f"Rank {setting.rank} fits on {shards} processes with this much memory each (--processes {shards})."
        )
    for other in ("adagrad", "sgd"):
        lighter = replace(setting, optimizer=other)
        if memory(sizes, lighter).peak < memory(sizes, setting).peak and _fits(sizes, lighter, available):
            said.append(f"--optimizer {other} fits too: it keeps fewer numbers per parameter.")
            break
    batch = setting.batch
    while batch > 100 and not _fits(sizes, replace(setting, batch=batch), available):
        batch //= 2
    if _fits(sizes, replace(setting, batch=batch), available):
        said.append(f"--batch {batch} fits at this rank.")
        return Recommendation(setting.rank, batch, precision, setting.processes, tuple(said))
    if not said:
        least = memory(sizes, replace(setting, rank=2, processes=sizes.entities)).peak
        said.append(f"No rank fits, on however many processes: the rest alone needs {sized(least)}.")
    keep_rank = shards is not None and (rank is None or setting.processes > 1)
    return Recommendation(
        setting.rank if keep_rank else rank or setting.rank,
        setting.batch,
        precision,
        shards if keep_rank and shards else setting.processes,
        tuple(said),
    )


def _precision(sizes: PlannedSizes, setting: PlannedSetting, available: int | None) -> str:
    """The fastest possible: bf16 holds the table once more, and needs fused kernels."""
    if setting.device == "cpu":
        return "fp32"
    half = replace(setting, precision="bf16")
    return "bf16" if has_kernels(half) and (available is None or _fits(sizes, half, available)) else "tf32"


def _room(sizes: PlannedSizes, setting: PlannedSetting, available: int) -> str:
    share = memory(sizes, setting).peak / available
    largest = _largest_rank(sizes, setting, available)
    return f"It fits and takes {share:.0%} of the memory; the largest rank that fits is {largest:,}."


def _fits(sizes: PlannedSizes, setting: PlannedSetting, available: int) -> bool:
    return memory(sizes, setting).peak <= USABLE * available


def _largest_rank(sizes: PlannedSizes, setting: PlannedSetting, available: int) -> int | None:
    """The largest even rank that fits, by bisection."""
    low, high = 0, 1
    while high < 1 << 20 and _fits(sizes, replace(setting, rank=2 * high), available):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _fits(sizes, replace(setting, rank=2 * middle), available) else (low, middle)
    return 2 * low or None


def _fewest_shards(sizes: PlannedSizes, setting: PlannedSetting, available: int) -> int | None:
    """The fewest processes on which the setting fits, or None when no number helps."""
    low, high = setting.processes, setting.processes
    while not _fits(sizes, replace(setting, processes=high), available):
        if high > sizes.entities:
            return None
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _fits(sizes, replace(setting, processes=middle), available) else (middle, high)
    return high
