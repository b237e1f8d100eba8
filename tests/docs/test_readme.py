"""Numbers in the README come from committed results."""

from __future__ import annotations

import re
from pathlib import Path

from bench.compare.results import latest, read

ROOT = Path(__file__).parents[2]

README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_readme_speed_equals_the_newest_measurement() -> None:
    file = latest(ROOT / "bench" / "results", "train_h200")
    assert file
    cells = read(file)["cells"]
    gains = sorted(cell["plain_seconds"] / cell["seconds_per_epoch"] for cell in cells)
    assert f"{gains[0]:.1f} to {gains[-1]:.1f} times less" in README
    assert {cell["precision"] for cell in cells} == {"bf16"}


def test_readme_counts_reproduced_cells_like_the_results() -> None:
    results = " ".join((ROOT / "docs" / "results.md").read_text(encoding="utf-8").split())
    readme = " ".join(README.split())
    counts = re.search(r"in (\d+) of (\d+) cells on [^*]+\*\* \((\d+) run", results)
    single = re.search(r"were run, (\d+) of them with one seed", results)
    assert counts
    assert single
    near, cells, _ = counts.groups()
    assert f"in {near} of {cells} cells" in readme
    assert f"{single[1]} cells have one seed" in readme


def test_linked_pages_exist() -> None:
    linked = [link.partition("#")[0] for link in re.findall(r"\]\(([^)]+)\)", README) if "://" not in link]
    assert len(linked) > 20
    assert not [link for link in linked if not (ROOT / link).exists()]
