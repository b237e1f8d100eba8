"""The first lines of docs/results.md, which README.md shows too."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.paper.fabricated import ran

pytest.importorskip("scipy", reason="results are tested with SciPy: pip install 'conjoin[study]'")

from paper.results_summary import renewed

from paper import write_results

ROOT = Path(__file__).resolve().parents[2]


def test_what_to_take_home(place: Path) -> None:
    empty = " ".join(write_results.page(place).split())
    assert "0.027 % (WN18RR) to 7.6 % (FB15K) of ComplEx and 0.11 % (WN18RR) to 20.9 % (FB15K) of 5★E." in empty
    assert "with Conjoin's kernels not yet run; in plain PyTorch not yet run." in empty
    ran(place, "WN18", "complex", [0.951, 0.951])
    ran(place, "WN18", "complex-conj", [0.949])
    ran(place, "WN18RR", "complex", [0.488])
    ran(place, "WN18RR", "complex-conj", [0.489])
    ran(place, "WN18RR", "complex-half", [0.485])
    told = " ".join(write_results.page(place).split())
    assert "Complεx −0.0020 (WN18) to +0.0010 (WN18RR) (FB15K-237, FB15K not yet run); 5★ε not yet run; 5★ε_n" in told
    assert "its MRR less that of ComplEx is −0.0030 (WN18RR) (FB15K-237, FB15K, WN18 not yet run)." in told
    assert (
        "2 of the 35 printed cells on FB15K-237, WN18RR, FB15K and WN18 were run, 1 of them with one seed, and" in told
    )
    assert "none of the 8 on YAGO3-10; by the paper's deviations seeds scatter by" in told


def test_readme_gets_the_lines_of_the_page(place: Path) -> None:
    page = write_results.page(place)
    before = "a\n<!-- results: what sharing saves -->\nold\n<!-- /results -->\nb\n"
    lines = renewed(before, page).splitlines()
    assert lines[:2] + lines[-2:] == ["a", "<!-- results: what sharing saves -->", "<!-- /results -->", "b"]
    assert [line[:6] for line in lines if line.startswith("- ")] == ["- **By", "- **Ti", "- **Qu", "- **In"]


@pytest.mark.parametrize("readme", ["without marks\n", "a\n<!-- results: what sharing saves -->\nnever ends\n"])
def test_a_readme_without_its_marks_is_told(place: Path, readme: str) -> None:
    with pytest.raises(SystemExit, match="no part between"):
        renewed(readme, write_results.page(place))


def test_a_page_without_the_lines_empties_nothing() -> None:
    with pytest.raises(SystemExit, match="does not tell what sharing saves"):
        renewed("<!-- results: what sharing saves -->\nold\n<!-- /results -->\n", "# Results\n")
