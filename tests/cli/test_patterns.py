"""patterns, synth, and ranks by pattern."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.commands import TINY, assert_refused, conjoin

pytest.importorskip("scipy", reason="relation patterns need SciPy: pip install 'conjoin[study]'")


def test_patterns_of_the_atlas() -> None:
    told = conjoin("patterns", "atlas", "--json").json
    rows = {row["relation"]: row for row in told["relations"]}
    assert "symmetric" in rows["borders"]["patterns"]
    assert "hierarchy" in rows["part_of"]["patterns"]
    assert rows["located_in"]["cardinality"] == "n-1"
    assert told["thresholds"]["confidence"] == 0.8
    out = conjoin("patterns", "atlas", "--relations", 3).out
    assert "(3 of 14)" in out
    assert out.count("(3 of ") >= 2


def test_thresholds_are_checked() -> None:
    assert_refused(conjoin("patterns", "atlas", "--confidence", 1.5), "1.5")


def test_a_planted_graph_is_written_and_found_again(tmp_path: Path) -> None:
    folder = tmp_path / "planted"
    told = conjoin("synth", "inverse", "--entities", 100, "-o", folder, "--json").json
    assert told["patterns"] == ["inverse(lends_to, borrows_from)"] or told["patterns"] == [
        "inverse(borrows_from, lends_to)"
    ]
    assert (told["precision"], told["recall"]) == (1.0, 1.0)
    found = conjoin("patterns", folder, "--json").json
    assert [(each["relation"], each["other"]) for each in found["inverses"]] == [("borrows_from", "lends_to")]
    assert conjoin("synth", "inverse", "-o", folder).code == 2, "what is there is not overwritten"


def test_unknown_family_is_refused_with_a_suggestion() -> None:
    assert "dihedral" in conjoin("synth", "list").out
    assert conjoin("synth", "list", "--json").json["families"]["symmetric"]
    assert_refused(conjoin("synth", "dihedrall"), "'dihedrall'", "dihedral")


@pytest.mark.slow
def test_ranks_by_pattern(tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert conjoin("train", "synthetic:combination(entities=100)", *TINY, "-o", run).code == 0
    told = conjoin("rank", run, "--by", "pattern", "--json").json
    groups = told["by"]["pattern"]
    assert {"symmetric", "antisymmetric", "inverse", "composition"} <= set(groups)
    assert sum(group["questions"] for group in groups.values()) >= told["questions"]
