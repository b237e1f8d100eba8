"""Foreign ComplEx weights: the same scores as the formula, in both directions, and names that do not fit."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.cli.commands import conjoin, write_lines

from conjoin import Graph
from conjoin.errors import GraphError, UsageError
from conjoin.predict.predictor import Predictor
from conjoin.runs.import_pykeen import ComplExWeights, from_complex_weights

TRAIN = [("a", "r", "b"), ("b", "s", "c"), ("c", "r", "d"), ("d", "s", "a")]


def weights(width: int, *, reciprocal: bool) -> ComplExWeights:
    """Random rows for a, b, c, d and r, s in another order than ours."""
    draw = np.random.default_rng(width)
    tables = [draw.normal(size=(n, width)) + 1j * draw.normal(size=(n, width)) for n in (4, 2, 2)]
    return ComplExWeights(list("dbca"), tables[0], list("sr"), tables[1], tables[2] if reciprocal else None)


@pytest.mark.parametrize("reciprocal", [True, False])
@pytest.mark.parametrize("width", [6, 5])
def test_scores_are_those_of_the_formula(width: int, reciprocal: bool) -> None:
    given = weights(width, reciprocal=reciprocal)
    found = Predictor(*from_complex_weights(given, Graph.from_triples(TRAIN)))
    graph, model = found.graph, found.model
    assert model.rank == width + width % 2
    entity = dict(zip(given.entity_names, given.entities, strict=True))
    relation = dict(zip(given.relation_names, given.relations, strict=True))
    back = dict(
        zip(given.relation_names, given.relations if given.reciprocals is None else given.reciprocals, strict=True)
    )
    for r, word in enumerate(graph.relations.names):
        for e, name in enumerate(graph.entities.names):
            asked = torch.tensor([e, e]), torch.tensor([r, r + graph.n_relations])
            tails, heads = model.scores(*asked).double().numpy()
            want = [float((entity[name] * relation[word] * entity[other].conj()).sum().real) for other in "abcd"]
            np.testing.assert_allclose(tails, want, rtol=1e-12)
            if reciprocal:
                want = [float((entity[name] * back[word] * entity[other].conj()).sum().real) for other in "abcd"]
            else:
                want = [float((entity[other] * relation[word] * entity[name].conj()).sum().real) for other in "abcd"]
            np.testing.assert_allclose(heads, want, rtol=1e-12)


def test_held_out_facts_with_unknown_names_are_left_out_and_counted() -> None:
    graph = Graph.from_triples(TRAIN, [("a", "s", "b")], [("a", "r", "new"), ("b", "r", "d"), ("a", "other", "b")])
    found = Predictor(*from_complex_weights(weights(4, reciprocal=True), graph))
    assert found.graph.entities.names == tuple("abcd")
    assert (len(found.graph.valid), len(found.graph.test)) == (1, 1)
    assert "2 test facts left out" in " ".join(found.graph.notes)
    assert len(found.ask("b", "r", k=4)) == 3


def test_another_graph_is_refused() -> None:
    given = weights(4, reciprocal=False)
    with pytest.raises(GraphError, match="1"):
        from_complex_weights(given, Graph.from_triples([*TRAIN, ("a", "r", "new")]))
    with pytest.raises(GraphError, match=r"1 entity.*\bd\b"):
        from_complex_weights(given, Graph.from_triples(TRAIN[:2]))


def test_shapes_and_names_are_checked() -> None:
    given = weights(4, reciprocal=True)
    with pytest.raises(UsageError, match="rows"):
        replace(given, relations=given.relations[:1])
    with pytest.raises(UsageError, match="entity"):
        replace(given, entity_names=list("aabc"))
    with pytest.raises(UsageError, match="reciprocals"):
        replace(given, reciprocals=given.relations[:1])


@pytest.mark.slow
def test_a_missing_model_or_interpreter_is_refused(tmp_path: Path) -> None:
    out = ("-o", tmp_path / "run")
    ran = conjoin("import", tmp_path, "atlas", "--pykeen", sys.executable, *out)
    assert (ran.code, "trained_model.pkl" in ran.err) == (2, True)
    (tmp_path / "trained_model.pkl").touch()
    (tmp_path / "training_triples").mkdir()
    for python, reason in ((sys.executable, sys.executable), (tmp_path / "nothing", str(tmp_path / "nothing"))):
        ran = conjoin("import", tmp_path, "atlas", "--pykeen", python, *out)
        assert (ran.code, reason in ran.err) == (2, True), ran.err
    assert not (tmp_path / "run").exists()


def test_an_imported_run_keeps_the_first_thousand_bad_lines_of_its_graph(tmp_path: Path) -> None:
    given = weights(4, reciprocal=False)
    np.savez(tmp_path / "weights.npz", entities=given.entities, relations=given.relations)
    about = {"version": "1", "entities": [*"dbca"], "relations": [*"sr"], "inverse": False, "epochs": 1}
    (tmp_path / "about.json").write_text(json.dumps(about), encoding="utf-8")
    python = tmp_path / "pykeen"
    python.write_text(f'#!/bin/sh\ncp "{tmp_path}/weights.npz" "{tmp_path}/about.json" "$4"\n', encoding="utf-8")
    python.chmod(0o755)
    (tmp_path / "trained_model.pkl").touch()
    (tmp_path / "training_triples").touch()
    facts = tmp_path / "facts"
    write_lines(facts / "train.tsv", [*TRAIN, *[("two", "cells")] * 1005])
    write_lines(facts / "valid.tsv", TRAIN[:1])
    write_lines(facts / "test.tsv", [("a", "", "b"), *TRAIN])
    words = ("import", tmp_path, facts, "--pykeen", python, "-o", tmp_path / "run")
    assert "train.tsv:5: wrong number of columns" in conjoin(*words).err
    ran = conjoin(*words, "--on-error", "skip")
    assert "1,005 bad lines skipped (wrong number of columns 1,005)" in ran.err, ran.err
    kept = conjoin("inspect", tmp_path / "run/graph", "--json").json["bad_lines"]
    assert [line.split(": ")[:2] for line in kept] == [
        [f"{facts}/train.tsv:{5 + i}", "wrong number of columns"] for i in range(1000)
    ]
