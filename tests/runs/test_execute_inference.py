"""A run under torch.inference_mode is the run that it is without."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tests.runs.test_execute import GRAPH, RUN, PowerCut, outcome, stopping_after

from conjoin.runs.execute import execute


def test_inference_mode_plays_no_part(tmp_path: Path) -> None:
    """Also where a checkpoint is taken up under it."""
    undisturbed = execute(RUN, GRAPH, tmp_path / "undisturbed")
    with torch.inference_mode():
        with pytest.raises(PowerCut):
            execute(RUN, GRAPH, tmp_path / "run", conduct=stopping_after(2))
        assert outcome(execute(RUN, GRAPH, tmp_path / "run")) == outcome(undisturbed)
