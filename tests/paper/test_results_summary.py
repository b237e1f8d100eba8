"""The first lines of docs/results.md."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.paper.fabricated import ran

pytest.importorskip("scipy", reason="results are tested with SciPy: pip install 'conjoin[study]'")

from paper import write_results


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
    assert "MRR minus that of ComplEx is −0.0030 (WN18RR) (FB15K-237, FB15K, WN18 not yet run)." in told
    assert (
        "2 of the 35 printed cells on FB15K-237, WN18RR, FB15K and WN18 were run, 1 of them with one seed, and" in told
    )
    assert "none of the 8 on YAGO3-10. By the paper's deviations, seeds scatter by" in told
