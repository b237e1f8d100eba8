"""How much memory processes have, and had at most. Does not import torch."""

from __future__ import annotations

import platform
from contextlib import suppress
from pathlib import Path


def most_resident() -> int:
    """Bytes in memory at the highest, on Linux since the mark was last set back.

    Not what getrusage says where that can be avoided: on Linux a program starts there with the peak of the one that
    started it, so a small command of a large notebook would be told as large as the notebook. 0 where the system tells
    neither, as on Windows.
    """
    with suppress(OSError):
        return _told("VmHWM", "self")
    try:
        import resource
    except ImportError:
        return 0
    unit = 1 if platform.system() == "Darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def resident(process: int | str = "self") -> int:
    """Bytes of a process in memory now; an OSError where it has ended, or the system is not Linux."""
    return _told("VmRSS", process)


def _told(mark: str, process: int | str) -> int:
    lines = Path(f"/proc/{process}/status").read_text(encoding="utf-8", errors="replace").splitlines()
    for line in lines:
        if line.startswith(f"{mark}:"):
            return 1024 * int(line.split()[1])
    raise ProcessLookupError(f"process {process} has no memory any more")
