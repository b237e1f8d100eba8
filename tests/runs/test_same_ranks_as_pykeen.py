"""A ComplEx that PyKEEN has trained gets the same ranks here as there: what docs/coming-from.md rests on."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from tests.cli.commands import conjoin
from tests.runs import trained_by_pykeen

from conjoin import load
from conjoin.evaluation.rank import rank
from conjoin.evaluation.ranks import DIRECTIONS, TIES
from conjoin.predict.predictor import Predictor
from conjoin.runs.import_pykeen import from_complex_weights, read_pykeen

PYTHON = os.environ.get("CONJOIN_PYKEEN_PYTHON", "")
CHOSEN = ("borders", "has_currency", "part_of", "speaks")
pytestmark = pytest.mark.skipif(not PYTHON, reason="CONJOIN_PYKEEN_PYTHON names no interpreter that has PyKEEN")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A part of the atlas, and facts about a land that train has never heard of."""
    folder, atlas = tmp_path_factory.mktemp("data"), load("atlas")
    names, relations = atlas.entities.names, atlas.relations.names
    for split in ("train", "valid", "test"):
        facts = [(names[h], relations[r], names[t]) for h, r, t in atlas.triples(split) if relations[r] in CHOSEN]
        facts += [("Nowhere", "borders", names[0])] if split != "train" else []
        (folder / f"{split}.tsv").write_text("".join("\t".join(fact) + "\n" for fact in facts), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def models(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    words = [PYTHON, "-I", trained_by_pykeen.__file__, str(data), str(folder)]
    done = subprocess.run(words, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.parametrize("name", ["inverse-rounded", "plain-rounded", "inverse"])
def test_both_evaluators_give_the_same_ranks(data: Path, models: Path, name: str) -> None:
    weights, _ = read_pykeen(models / name, python=Path(PYTHON))
    assert (weights.reciprocals is None) == name.startswith("plain")
    theirs = Predictor(*from_complex_weights(weights, load(data)))
    ours = rank(theirs.model, theirs.graph, "test")
    names, relations = theirs.graph.entities.names, theirs.graph.relations.names
    place = {
        (names[h], relations[r], names[t], DIRECTIONS[d]): i
        for i, (h, r, t, d) in enumerate(zip(ours.head, ours.relation, ours.tail, ours.direction, strict=True))
    }
    told = json.loads((models / name / "ranks.json").read_text(encoding="utf-8"))
    assert 2 * len(told["facts"]) == len(ours)
    if name.endswith("rounded"):
        assert np.count_nonzero(ours.tied) > 50
    for ties in TIES:
        for direction in DIRECTIONS:
            order = [place[(*fact, direction)] for fact in told["facts"]]
            np.testing.assert_array_equal(ours.ranks(ties)[order], told["ranks"][f"{direction} {ties}"])


def test_from_the_command_line(data: Path, models: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert conjoin("import", models / "inverse", data, "--pykeen", PYTHON, "-o", run).code == 0
    assert conjoin("rank", run, "--json").json["mrr"] > 0
    assert conjoin("ask", run, "France", "borders", "?", "-k", 2, "--json").json["answers"]
    again = conjoin("import", models / "inverse", data, "--pykeen", PYTHON, "-o", run)
    assert (again.code, "already contains a run" in again.err) == (2, True)
    other = conjoin("import", models / "inverse", "atlas", "--pykeen", PYTHON, "-o", tmp_path / "other")
    assert (other.code, "training facts have names that the model does not know" in other.err) == (2, True)
