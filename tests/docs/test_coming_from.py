"""What docs/coming-from.md says about this side exists."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.commands import conjoin

from conjoin.evaluation.ranks import TIES
from conjoin.forms.notation import parse

PAGE = (Path(__file__).parents[2] / "docs" / "coming-from.md").read_text(encoding="utf-8")


def section(title: str) -> str:
    return PAGE.partition(f"# {title}\n")[2].partition("\n#")[0]


def first_cells(text: str) -> list[str]:
    return [line.split("|")[1] for line in text.splitlines() if line.startswith("| ") and "---" not in line][1:]


def test_options_are_options_of_train() -> None:
    listed = {option for cell in first_cells(section("Names and options")) for option in re.findall(r"--[\w-]+", cell)}
    offered = conjoin("train", "--help").out + conjoin("rank", "--help").out
    assert len(listed) > 10
    assert not {option for option in listed if f"{option} " not in offered}


def test_verbs_exist() -> None:
    verbs = set(re.findall(r"conjoin (\w+)", PAGE)) - {"train"}
    assert {"import", "rank", "ask", "tune"} <= verbs
    for verb in verbs:
        assert conjoin(verb, "--help").code == 0, verb


def test_forms_and_tie_policies_exist() -> None:
    rows = [line.split("|")[2] for line in section("Forms of the paper").splitlines() if line.startswith("| `")]
    assert len(rows) == 10
    for row in rows:
        parse(row.strip(" `"))
    policies = [cell.split("`")[1] for cell in first_cells(section("Conventions"))]
    assert policies == list(TIES)


@pytest.mark.slow
def test_the_example_runs() -> None:
    code = PAGE.partition("```python\n")[2].partition("```")[0]
    ran = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert len(ran.stdout.split()) == 2
