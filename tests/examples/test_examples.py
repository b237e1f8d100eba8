"""The examples run, from anywhere, and say what they promise."""

from __future__ import annotations

import csv
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.slow
def test_practice_says_what_is_wrong_with_a_file(tmp_path: Path) -> None:
    (tmp_path / "few.csv").write_text("a,r,b\nb,r,c\n")
    program = [sys.executable, str(EXAMPLES / "practice.py"), "few.csv", "out"]
    done = subprocess.run(program, cwd=tmp_path, check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr[:6]) == (1, "error:"), done.stderr


def run(name: str, *words: object, folder: Path) -> str:
    program = [sys.executable, str(EXAMPLES / name), *map(str, words)]
    done = subprocess.run(program, cwd=folder, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_research_compares_two_forms_and_plots(tmp_path: Path) -> None:
    said = run("research.py", folder=tmp_path)
    assert len(re.findall(r"seed \d: test MRR 0\.\d+", said)) == 6
    assert "1,792 numbers in relations" in said
    assert "896 numbers in relations" in said
    assert re.search(r"over seeds: p = \S+ \(Welch, 3 seeds each\)", said)
    assert re.search(r"95 % interval [+-]\S+ to [+-]\S+, p = \S+ \(paired, \d+ facts", said)
    assert (tmp_path / "research" / "curves.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_practice_finds_facts_that_were_kept_back(tmp_path: Path) -> None:
    said = run("practice.py", folder=tmp_path)
    found = re.search(r"(\d+) of these 200 were held back; the probabilities sum to (\d+)", said)
    assert found
    assert int(found[1]) > 50, "guessing would find none"
    with (tmp_path / "practice" / "missing.csv").open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    with (tmp_path / "practice" / "facts.csv").open(encoding="utf-8", newline="") as stream:
        known = {(row["head"], row["relation"], row["tail"]) for row in csv.DictReader(stream)}
    assert len(rows) == 200
    assert not known & {(row["head"], row["relation"], row["tail"]) for row in rows}
    assert all(0 <= float(row["probability"]) <= 1 for row in rows)
