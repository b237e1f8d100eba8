"""Settings of every test process: threads, the Triton interpreter, and repeatable random examples."""

from __future__ import annotations

import os
from pathlib import Path

from hypothesis import settings

os.environ.setdefault("OMP_NUM_THREADS", "2")
os.environ.setdefault("GOMP_SPINCOUNT", "5000")
if not Path("/dev/nvidiactl").exists():
    os.environ.setdefault("TRITON_INTERPRET", "1")

settings.register_profile("same every time", derandomize=True, deadline=None)
settings.load_profile(os.environ.get("CONJOIN_HYPOTHESIS", "same every time"))
