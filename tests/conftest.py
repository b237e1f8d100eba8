"""Where the tests find the benchmark datasets: CONJOIN_DATA, or a folder of them beside the repository."""

from __future__ import annotations

import os
from pathlib import Path

from hypothesis import settings

os.environ.setdefault("OMP_NUM_THREADS", "2")
os.environ.setdefault("GOMP_SPINCOUNT", "5000")
if not Path("/dev/nvidiactl").exists():
    os.environ.setdefault("TRITON_INTERPRET", "1")

BESIDE = Path(__file__).resolve().parents[2] / "shared" / "data"
if "CONJOIN_DATA" not in os.environ and BESIDE.is_dir():
    os.environ["CONJOIN_DATA"] = str(BESIDE)

settings.register_profile("same every time", derandomize=True, deadline=None)
settings.load_profile(os.environ.get("CONJOIN_HYPOTHESIS", "same every time"))
