"""The most memory that this process had. Does not import torch."""

from __future__ import annotations

import platform
import resource
from contextlib import suppress
from pathlib import Path


def most_resident() -> int:
    """Bytes in memory at the highest, on Linux since the mark was last set back.

    Not what getrusage says where that can be avoided: on Linux a program starts there with the peak of the one that
    started it, so a small command of a large notebook would be told as large as the notebook.
    """
    with suppress(OSError, StopIteration):
        lines = Path("/proc/self/status").read_text(encoding="utf-8", errors="replace").splitlines()
        return 1024 * int(next(line for line in lines if line.startswith("VmHWM:")).split()[1])
    unit = 1 if platform.system() == "Darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
