"""Every script tells what it is for and does nothing more when asked for help."""

from __future__ import annotations

import ast
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted([*(ROOT / "scripts").glob("*.py"), *(ROOT / "paper").glob("*.py")])
STARTED = [file for file in FILES if 'if __name__ == "__main__"' in file.read_text("utf-8")]


def begins(*_: Any, **__: Any) -> None:
    raise AssertionError("it begins its work")


@pytest.mark.parametrize("script", STARTED, ids=lambda file: file.stem)
def test_help_prints_and_does_nothing_else(
    script: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", [str(script), "--help"])
    monkeypatch.setattr(subprocess, "Popen", begins)
    for verb in ("write_text", "write_bytes", "mkdir"):
        monkeypatch.setattr(Path, verb, begins)
    with pytest.raises(SystemExit) as left:
        runpy.run_path(str(script), run_name="__main__")
    told = " ".join(capsys.readouterr().out.split())
    docstring = ast.get_docstring(ast.parse(script.read_bytes())) or ""
    assert left.value.code == 0
    assert docstring[:20] in told
    assert "python -m" not in told
