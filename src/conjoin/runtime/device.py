"""Choose the device, the precision and the number of threads, each with its reason; measure time and memory."""

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
    """The wanted device; without one a GPU if the machine has one, else the CPU."""
    if wanted is None or wanted == "auto":
        if torch.cuda.is_available():
            return Choice(torch.device("cuda"), f"{torch.cuda.get_device_name()} found")
        threads = torch.get_num_threads()
        return Choice(torch.device("cpu"), f"no CUDA device found; {threads} thread{'s' if threads > 1 else ''}")
    return Choice(usable_device(wanted), "asked for")


def usable_device(wanted: torch.device | str) -> torch.device:
    """The device, or UsageError if no tensor can be created on it."""
    try:
        device = torch.device(wanted)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise UsageError(
            f"The device '{wanted}' cannot be used: {reason}. Use cpu, or let Conjoin choose (no --device)."
        ) from error
    return device


@contextmanager
def matmul_precision(precision: str) -> Iterator[None]:
    """Multiply float32 matrices on a GPU in this precision; restores the earlier setting."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


@contextmanager
def threads_for(flops: float) -> Iterator[None]:
    """Use one thread for steps so small that threads would mostly wait for each other; restores the earlier number.

    The choice depends on sizes only, so a run with the same number of threads on one machine is reproducible.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1 if flops < SMALL_STEP else before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def recorded(function: Callable[..., Tensor], *examples: Tensor) -> Callable[..., Tensor]:
    """The function as a CUDA graph, which is replayed on inputs with the examples' shapes."""
    buffers = [example.clone() for example in examples]
    results: list[Tensor] = []
    replay = recorded_work(lambda: results.append(function(*buffers)))

    def run(*inputs: Tensor) -> Tensor:
        for buffer, x in zip(buffers, inputs, strict=True):
            buffer.copy_(x)
        replay()
        return results[0].clone()

    return run


def recorded_work(work: Callable[[], None]) -> Callable[[], None]:
    """GPU work as a CUDA graph. Its tensors must keep their addresses; recording does not run the work."""
    recording = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.graph(recording):
        work()
    return recording.replay


def too_old(device: torch.device) -> bool:
    """Does a CUDA device lack the matrix units for TF32 and bfloat16 (introduced with Ampere)?"""
    return torch.cuda.get_device_capability(device) < (8, 0)


def synchronize(device: torch.device) -> None:
    """Wait until a device has finished its work, so that times can be measured."""
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
    """The median (or another statistic `of`) of the seconds of `work`, run `times` times after `warm` runs to warm up.

    The device is synchronised before and after each run.
    """
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
    """Reset the measured peak of memory, if the system allows it."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    else:
        with suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def peak_bytes(device: torch.device) -> int:
    """The peak of memory since `reset_peak`, in bytes: of torch on a GPU, of the whole process on a CPU."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    return most_resident()


LATE = ("torch.fx.experimental.symbolic_shapes", "pyarrow.parquet")
"""Libraries that a training imports late: by its backward pass, and by storing its results."""


CODE = 256 << 20
"""The most memory for the code of libraries; further file pages are a memory-mapped graph, which can be evicted."""


def held_bytes(device: torch.device) -> int:
    """Bytes of the device's memory that this process uses before training: libraries and graph; 0 on a GPU."""
    if device.type == "cuda":
        return 0
    for library in LATE:
        import_module(library)
    with suppress(OSError, ValueError, IndexError):
        pages, of_files = map(int, Path("/proc/self/statm").read_text(encoding="ascii").split()[1:3])
        return (pages - of_files) * mmap.PAGESIZE + min(of_files * mmap.PAGESIZE, CODE)
    return peak_bytes(device)


def free_bytes(device: torch.device) -> int:
    """Free bytes: on a GPU of the card, else of the machine, limited by control groups."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    return min(_available(), *_left_in_groups())


def _available() -> int:
    with suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        return 1024 * int(next(line for line in lines if line.startswith("MemAvailable:")).split()[1])
    if not hasattr(os, "sysconf"):  # Windows does not report it, so nothing is refused for lack of memory
        return sys.maxsize
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _left_in_groups() -> Iterator[int]:
    """Bytes left by control groups (versions 2 and 1); the file cache can be evicted and does not count as used."""
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
    """Does this processor have instructions for bfloat16 products? Without them torch computes them in software."""
    tests = (getattr(torch.cpu, name, None) for name in ("_is_avx512_bf16_supported", "_is_amx_tile_supported"))
    return any(test() for test in tests if test)


def describe(device: torch.device) -> dict[str, str | int]:
    """The hardware and software of a run; stored in the run folder, not part of the run's id."""
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
    """The commit of the running sources, with a + if files were changed since; empty if unknown.

    For a copy of the sources without git, set the environment variable CONJOIN_COMMIT.
    """
    if from_environment := os.environ.get("CONJOIN_COMMIT"):
        return from_environment
    here = Path(__file__).resolve()
    git = ["git", "-C", str(here.parent)]
    try:
        subprocess.run([*git, "ls-files", "--error-unmatch", str(here)], capture_output=True, timeout=10, check=True)
        arguments = ["describe", "--always", "--abbrev=12", "--exclude=*", "--dirty=+"]
        described = subprocess.run([*git, *arguments], capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return described.stdout.strip()
