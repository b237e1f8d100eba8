"""Current and peak memory of processes. Does not import torch."""

from __future__ import annotations

import platform
from contextlib import suppress
from pathlib import Path


def most_resident() -> int:
    """The peak of this process's memory in bytes, on Linux since the last reset; 0 if unknown, as on Windows.

    getrusage is only the second choice: on Linux a process inherits the peak of the process that started it, so a small
    command in a large notebook would seem as large as the notebook.
    """
    with suppress(OSError):
        return _from_status("VmHWM", "self")
    try:
        import resource
    except ImportError:
        return 0
    unit = 1 if platform.system() == "Darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def resident(process: int | str = "self") -> int:
    """The current memory of a process in bytes. An OSError if it has ended, or if the system is not Linux."""
    return _from_status("VmRSS", process)


def _from_status(field: str, process: int | str) -> int:
    """A field of /proc/PID/status in bytes."""
    lines = Path(f"/proc/{process}/status").read_text(encoding="utf-8", errors="replace").splitlines()
    for line in lines:
        if line.startswith(f"{field}:"):
            return 1024 * int(line.split()[1])
    raise ProcessLookupError(f"Process {process} has exited.")
