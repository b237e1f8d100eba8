"""Where and how precisely numbers are computed, each choice with its reason."""

from __future__ import annotations

import mmap
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from conjoin.errors import UsageError
from conjoin.runtime.process_memory import most_resident

SMALL_STEP = 60e6
"""Floating-point operations of a step below which a second thread gains nothing (bench/contention.py)."""


class Choice(NamedTuple):
    """A device and why it was chosen."""

    device: torch.device
    reason: str


def choose_device(wanted: str | None = None) -> Choice:
    """The wanted device, or a GPU where there is one."""
    if wanted is None or wanted == "auto":
        if torch.cuda.is_available():
            return Choice(torch.device("cuda"), f"{torch.cuda.get_device_name()} found")
        threads = torch.get_num_threads()
        return Choice(torch.device("cpu"), f"no CUDA device found; {threads} thread{'s' if threads > 1 else ''}")
    return Choice(usable_device(wanted), "asked for")


def usable_device(wanted: torch.device | str) -> torch.device:
    """A device that tensors can be on; an error where they cannot."""
    try:
        device = torch.device(wanted)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise UsageError(f"device '{wanted}' cannot be used ({reason}): use cpu, or name none") from error
    return device


@contextmanager
def matmul_precision(precision: str) -> Iterator[None]:
    """Products of float32 matrices on a GPU in this precision, restored afterwards."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


@contextmanager
def threads_for(flops: float) -> Iterator[None]:
    """One thread for steps so small that threads would mostly wait for each other, restored afterwards.

    It depends on sizes alone, so that a run with as many threads on one machine gives the same numbers every time.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1 if flops < SMALL_STEP else before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def recorded(function: Callable[..., Tensor], *examples: Tensor) -> Callable[..., Tensor]:
    """The function as one recording of GPU work that is replayed on inputs of the examples' shapes."""
    places = [example.clone() for example in examples]
    results: list[Tensor] = []
    replay = recorded_work(lambda: results.append(function(*places)))

    def run(*inputs: Tensor) -> Tensor:
        for place, given in zip(places, inputs, strict=True):
            place.copy_(given)
        replay()
        return results[0].clone()

    return run


def recorded_work(work: Callable[[], None]) -> Callable[[], None]:
    """GPU work as one recording. Everything must stay where it is in memory; recording runs nothing."""
    recording = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.graph(recording):
        work()
    return recording.replay


def too_old(device: torch.device) -> bool:
    """Whether a CUDA device lacks the matrix units for TF32 and bfloat16, which came with Ampere."""
    return torch.cuda.get_device_capability(device) < (8, 0)


def synchronize(device: torch.device) -> None:
    """Wait until a device has done what it was given, so that a clock can be read."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def seconds_of(
    work: Callable[[], object],
    device: torch.device,
    *,
    times: int = 7,
    warm: int = 2,
    of: Callable[[list[float]], float] = statistics.median,
) -> float:
    """Median (or another `of`) seconds of `work` after `warm` times that do not count, the device waited for before and
    after."""
    taken = []
    for number in range(warm + times):
        synchronize(device)
        start = time.perf_counter()
        work()
        synchronize(device)
        if number >= warm:
            taken.append(time.perf_counter() - start)
    return of(taken)


def reset_peak(device: torch.device) -> None:
    """Start measuring the most memory in use afresh, where the system allows it."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    else:
        with suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def peak_bytes(device: torch.device) -> int:
    """The most memory in use since `reset_peak`: of the card for a GPU, of the whole process for a CPU."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    return most_resident()


LATE = ("torch.fx.experimental.symbolic_shapes", "pyarrow.parquet")
"""What a training loads only on its way: the backward pass the first, keeping its results the second."""


CODE = 256 << 20
"""Libraries need no more than this for their code; more pages of files are a graph's, which can be read again."""


def held_bytes(device: torch.device) -> int:
    """What this process holds of the memory it trains in: libraries and graph; of a card nothing worth counting."""
    if device.type == "cuda":
        return 0
    for library in LATE:
        import_module(library)
    with suppress(OSError, ValueError, IndexError):
        pages, of_files = map(int, Path("/proc/self/statm").read_text(encoding="ascii").split()[1:3])
        return (pages - of_files) * mmap.PAGESIZE + min(of_files * mmap.PAGESIZE, CODE)
    return peak_bytes(device)


def free_bytes(device: torch.device) -> int:
    """Memory that can still be had: of the card for a GPU, else of the machine and of the group it is confined to."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    return min(_available(), *_left_in_groups())


def _available() -> int:
    with suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        return 1024 * int(next(line for line in lines if line.startswith("MemAvailable:")).split()[1])
    if not hasattr(os, "sysconf"):  # Windows does not tell: nothing is refused for want of memory
        return sys.maxsize
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _left_in_groups() -> Iterator[int]:
    """What control groups leave, in both of their versions; a file cache can be given up and does not count as used."""
    yield sys.maxsize
    for limit, used, stat in (
        ("memory.max", "memory.current", "memory.stat"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "memory/memory.stat"),
    ):
        with suppress(OSError, ValueError):
            most, now = (int((Path("/sys/fs/cgroup") / file).read_text(encoding="ascii")) for file in (limit, used))
            words = (Path("/sys/fs/cgroup") / stat).read_text(encoding="ascii").split()
            yield max(0, most - now + int(dict(zip(words[::2], words[1::2], strict=False)).get("inactive_file", 0)))


def has_bf16_products() -> bool:
    """Does this processor multiply bfloat16 faster than float32? Where it does not, torch does so in software."""
    asked = (getattr(torch.cpu, name, None) for name in ("_is_avx512_bf16_supported", "_is_amx_tile_supported"))
    return any(known() for known in asked if known)


def describe(device: torch.device) -> dict[str, str | int]:
    """What the numbers were computed on: goes into the run folder, not into the run's identity."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine()
    return {
        "device": str(device),
        "name": name,
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "commit": commit(),
    }


def commit() -> str:
    """The commit of the sources that are running, with a + where files were changed since; empty where unknown.

    A copy of the sources without their history is told its commit by the variable CONJOIN_COMMIT.
    """
    if told_by_hand := os.environ.get("CONJOIN_COMMIT"):
        return told_by_hand
    here = Path(__file__).resolve()
    git = ["git", "-C", str(here.parent)]
    try:
        subprocess.run([*git, "ls-files", "--error-unmatch", str(here)], capture_output=True, timeout=10, check=True)
        words = ["describe", "--always", "--abbrev=12", "--exclude=*", "--dirty=+"]
        told = subprocess.run([*git, *words], capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return told.stdout.strip()
