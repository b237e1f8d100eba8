"""Numbers in the README come from committed results."""

from __future__ import annotations

import re
from pathlib import Path

from bench.compare.results import latest, read
from paper.results_summary import renewed

ROOT = Path(__file__).parents[2]

README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_speed_is_that_of_the_newest_measurement() -> None:
    file = latest(ROOT / "bench" / "results", "train_h200")
    assert file
    cells = read(file)["cells"]
    gains = sorted(cell["plain_seconds"] / cell["seconds_per_epoch"] for cell in cells)
    assert f"{gains[0]:.1f} to {gains[-1]:.1f} times less" in README
    assert {cell["precision"] for cell in cells} == {"bf16"}


def test_what_is_reproduced_is_what_the_results_say() -> None:
    results = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    told = re.search(r"in (\d+) of (\d+) cells on [^*]+\*\* \((\d+) run", " ".join(results.split()))
    assert told
    near, cells, run = told.groups()
    words = " ".join(README.split())
    share = f"All {cells}" if run == cells else f"So far {run} of the {cells}"
    assert f"{share} cells on four of its five datasets have been run" in words
    assert f"; {'all ' if near == run else ''}{near} lie within .003" in words
    alone = re.search(r"by the first seed of each alone (\d+)[;,]", " ".join(results.split()))
    assert alone
    assert f"by the first seed of each alone {alone[1]} do." in words
    single = re.search(r"were run, (\d+) of them with one seed", " ".join(results.split()))
    assert single
    assert f"have been run, {single[1]} of them with one seed" in words


def test_what_sharing_saves_is_what_the_results_say() -> None:
    results = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    assert "- **Bytes.** Half of the relations' numbers." in README
    assert renewed(README, results) == README, "run paper/write_results.py"


def test_pages_that_are_linked_exist() -> None:
    linked = [link.partition("#")[0] for link in re.findall(r"\]\(([^)]+)\)", README) if "://" not in link]
    assert len(linked) > 20
    assert not [link for link in linked if not (ROOT / link).exists()]
