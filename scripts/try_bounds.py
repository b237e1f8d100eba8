"""Run the tests with the lowest versions that pyproject.toml allows: python -m scripts.try_bounds

Builds an environment in build/bounds, runs there the rooms that touch a bounded library, and lets it and the usual
environment go on with each other's work. torch alone is that of constraints.txt; what the bounded libraries need
themselves is the newest that they take. `make bounds` calls it; it takes as long as the tests of these rooms.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from scripts.script_words import parser

ROOT = Path(__file__).resolve().parents[1]
PLACE = ROOT / "build" / "bounds"
OURS = ("dev", "docs", "fuzz", "audit", "atlas")
"""Extras for work on Conjoin itself."""
TOOLS = ("pytest", "pytest-xdist", "hypothesis", "httpx2", "torch")
"""What the tests need, and torch: as in constraints.txt."""
ROOMS = (
    *("tests/graph", "tests/io", "tests/datasets", "tests/evaluation", "tests/runs", "tests/studies", "tests/report"),
    *("tests/geometry", "tests/predict", "tests/server", "tests/cli"),
    *(
        "tests/training/test_checkpoint.py",
        "tests/training/test_checkpoint_distributed.py",
        "tests/training/test_tuning.py",
    ),
)
STUDY = """
name = "small"
seeds = 2
rows = [{ name = "complex", form = "complex" }]
[datasets.own]
graph = "own"
[settings.own]
complex = { rank = 4, epochs = 3, batch = 100, lr = 0.1 }
"""


def main() -> None:
    """Stop at the first thing that does not work."""
    parser(__doc__).parse_args()
    wanted = lowest((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    pinned = usual((ROOT / "constraints.txt").read_text(encoding="utf-8"))
    requirements = {**wanted, **{tool: pinned[tool] for tool in TOOLS}}
    subprocess.run([sys.executable, "-m", "venv", str(PLACE)], check=True)
    there = str(PLACE / "bin" / "python")
    pip = (there, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    call(*pip, "pandas", *(f"{name}=={version}" for name, version in requirements.items()))
    call(*pip, "--no-deps", "-e", str(ROOT))
    print(", ".join(f"{name} {version}" for name, version in sorted(requirements.items())))
    call(there, "-m", "pytest", "-n", "2", *ROOMS)
    for first, second in ((sys.executable, there), (there, sys.executable)):
        with tempfile.TemporaryDirectory() as scratch:
            in_turn(first, second, Path(scratch))
    print("each environment goes on with what the other began")


def lowest(project: str) -> dict[str, str]:
    """The lowest version of each library that a user may have, optional ones included."""
    told = tomllib.loads(project)["project"]
    groups = [part for name, part in told["optional-dependencies"].items() if name not in OURS]
    lines = [line for line in sum(groups, told["dependencies"]) if not line.startswith("conjoin[")]
    bounds = {line: re.fullmatch(r"([\w-]+)>=([\d.]+)", line) for line in lines}
    if unread := [line for line, bound in bounds.items() if bound is None]:
        raise SystemExit(f"these bounds are not read: {', '.join(unread)}")
    return {bound[1]: bound[2] for bound in bounds.values() if bound}


def usual(constraints: str) -> dict[str, str]:
    """The versions of constraints.txt, by their names in small letters."""
    pairs = (line.split("==") for line in constraints.splitlines() if "==" in line and not line.startswith("#"))
    return {name.lower().replace("_", "-"): version for name, version in pairs}


def in_turn(first: str, second: str, folder: Path) -> None:
    """What one environment writes, the other reads and goes on with."""
    facts = [f"e{i}\tr{i % 3}\te{(i * i + 3) % 40}\n" for i in range(300)]
    (folder / "own").mkdir()
    for split, part in (("train", facts[:240]), ("valid", facts[240:270]), ("test", facts[270:])):
        (folder / "own" / f"{split}.txt").write_text("".join(part), encoding="utf-8")
    (folder / "small.toml").write_text(STUDY, encoding="utf-8")
    train = ("train", "own", "--rank", "4", "--epochs", "3", "-o", "run", "--device", "cpu")
    tune = ("tune", "own", "--rank", "4", "--epochs", "2", "--validate-every", "1", "--storage", "sqlite:///tune.db")
    study = ("study", "run", "small.toml", "--root", "results", "--device", "cpu")
    turns = (
        (first, train),
        (second, ("rank", "run")),
        (second, ("calibrate", "run")),
        (first, ("ask", "run", "e1", "r1", "?")),
        (second, ("export", "run", "-o", "bundle")),
        (first, ("ask", "bundle", "e1", "r1", "?")),
        (second, ("train", "own", "--from", "run", "--epochs", "1", "-o", "next", "--device", "cpu")),
        (first, ("ingest", "own/train.txt", "-o", "stored")),
        (second, ("inspect", "stored")),
        (first, (*tune, "--trials", "1")),
        (second, (*tune, "--trials", "2")),
        (first, (*study, "--seeds", "0")),
        (second, (*study, "--seeds", "1")),
        (first, ("study", "report", "small.toml", "--root", "results", "-o", "report")),
    )
    for python, words in turns:
        call(python, "-m", "conjoin", *words, folder=folder)


def call(*words: str, folder: Path = ROOT) -> None:
    """Run a program, with its own output only where it fails."""
    here = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(words, cwd=folder, env=here, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)} ended with {done.returncode}\n{done.stdout.decode()}")


if __name__ == "__main__":
    main()
