"""A model that a loop of one's own trained becomes a run like any other."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import conjoin
from conjoin.datasets.load import load
from conjoin.errors import Diverged, FormError, RunError, UsageError
from conjoin.graph.graph import Graph
from conjoin.model.model import Model
from conjoin.predict.predictor import Predictor
from conjoin.runs.export import export
from conjoin.runs.folder import RunFolder
from conjoin.runs.save import save_run

GRAPH = Graph.from_triples(
    [("a", "r", "b"), ("b", "r", "c"), ("c", "s", "a"), ("d", "s", "b")], [("a", "r", "c")], [("c", "s", "b")]
)


def own(form: str = "5star-conj") -> Predictor:
    return Predictor(Model(form, GRAPH.n_entities, GRAPH.n_relations, rank=4, scale=1.0), GRAPH)


def own_parts() -> tuple[Model, Graph]:
    mine = own()
    return mine.model, mine.graph


def test_a_saved_model_answers_and_ranks_as_before(tmp_path: Path) -> None:
    mine = own()
    kept = save_run(mine.model, mine.graph, tmp_path / "run", origin="binary cross-entropy", epochs=3)
    opened = conjoin.open(tmp_path / "run")
    assert opened.ask("a", "r") == mine.ask("a", "r")
    assert kept.result["test"]["mrr"] == conjoin.rank(mine.model, GRAPH, "test").mrr() == kept.ranks("test").mrr()
    assert (kept.run.origin, kept.result["epochs"]) == ("binary cross-entropy", 3)
    assert kept.result["parameters"] == mine.model.n_parameters


def test_the_ranks_of_a_model_of_bf16_are_those_of_the_run_that_is_opened(tmp_path: Path) -> None:
    graph = load("synthetic:symmetric(entities=120)")
    model = Model("5star-conj", graph.n_entities, graph.n_relations, rank=4, scale=0.3, dtype=torch.bfloat16)
    kept = save_run(model, graph, tmp_path / "run", origin="margin", epochs=1)
    assert kept.result["test"]["mrr"] == conjoin.rank(conjoin.open(kept).model, graph, "test").mrr()
    assert model.relations.dtype == torch.bfloat16


def in_float64() -> Predictor:
    """Entities that only float64 tells apart."""
    graph = load("synthetic:symmetric(entities=120)")
    model = Model("5star-conj", graph.n_entities, graph.n_relations, rank=4, scale=0.3, dtype=torch.float64)
    weights = model.state_dict()
    weights["entities.weight"].mul_(1e-9).add_(1.0)
    return Predictor(model, graph)


def test_a_model_of_float64_is_opened_as_it_was_ranked(tmp_path: Path) -> None:
    mine = in_float64()
    kept = save_run(mine.model, mine.graph, tmp_path / "run", origin="margin", epochs=1)
    opened = conjoin.open(export(kept, tmp_path / "bundle")[0].parent)
    assert opened.model.relations.dtype == opened.model.entities.weight.dtype == torch.float64
    assert kept.result["test"] == conjoin.rank(opened.model, opened.graph, "test").metrics()
    assert mine.ask("e000", "befriends") == opened.ask("e000", "befriends")


def test_another_origin_is_another_run(tmp_path: Path) -> None:
    first, second = (save_run(*own_parts(), tmp_path / loss, origin=loss, epochs=1) for loss in ("margin", "bce"))
    assert first.run.id != second.run.id


def test_an_existing_run_and_an_empty_origin_are_refused(tmp_path: Path) -> None:
    save_run(*own_parts(), tmp_path / "run", origin="margin", epochs=1)
    with pytest.raises(RunError, match="run"):
        save_run(*own_parts(), tmp_path / "run", origin="margin", epochs=1)
    with pytest.raises(UsageError, match="origin"):
        save_run(*own_parts(), tmp_path / "other", origin=" ", epochs=1)
    assert not (tmp_path / "other").exists()


def test_saving_again_after_a_full_disk_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(RunFolder, "finish", full)
        with pytest.raises(OSError, match="No space"):
            save_run(*own_parts(), tmp_path / "run", origin="margin", epochs=1)
    with pytest.raises(RunError, match="run"):
        save_run(*own_parts(), tmp_path / "run", origin="cross-entropy", epochs=1)
    save_run(*own_parts(), tmp_path / "run", origin="margin", epochs=1)
    assert conjoin.open(tmp_path / "run").ask("a", "r") == own().ask("a", "r")


def test_a_model_that_cannot_be_ranked_leaves_nothing_behind(tmp_path: Path) -> None:
    diverged = own()
    diverged.model.state_dict()["relations"].fill_(float("nan"))
    with pytest.raises(Diverged):
        save_run(diverged.model, diverged.graph, tmp_path / "run", origin="margin", epochs=1)
    assert not (tmp_path / "run").exists()
    save_run(*own_parts(), tmp_path / "run", origin="margin", epochs=1)


def test_a_form_that_cannot_be_rebuilt_from_text_is_refused(tmp_path: Path) -> None:
    class Unknown(type(conjoin.form("complex"))):  # type: ignore[misc]
        pass

    model = Model(Unknown(), GRAPH.n_entities, GRAPH.n_relations, rank=4)
    with pytest.raises(FormError, match=r"conjoin\.forms"):
        save_run(model, GRAPH, tmp_path / "run", origin="margin", epochs=1)
    assert not (tmp_path / "run").exists()
