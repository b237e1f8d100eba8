"""New entities in a trained model, and training that goes on with a graph that has grown."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import conjoin
from conjoin.errors import RunError, UnknownName, UsageError
from conjoin.graph.graph import Graph
from conjoin.predict.fold_in import _Objective, extend, fold_in, fold_run
from conjoin.predict.predictor import Predictor, open_run
from conjoin.runs.folder import RunFolder
from conjoin.runs.warm_start import initial_rows

COLOURS, SIZES = ("red", "green", "blue"), ("small", "large")
THINGS = [f"t{i:02}" for i in range(36)]
"""Thing i has colour i % 3 and size i % 2; things of one colour and size are alike."""


def facts_of(i: int) -> list[tuple[str, str, str]]:
    name = THINGS[i]
    alike = [(name, "like", THINGS[j]) for j in range(36) if j != i and j % 6 == i % 6]
    return [(name, "colour", COLOURS[i % 3]), (name, "size", SIZES[i % 2]), *alike]


OLD = [fact for i in range(30) for fact in facts_of(i) if fact[2] not in THINGS[30:]]
LABELS = {name: f"thing {name[1:]}" for name in THINGS} | {"red": "rouge"}
GRAPH = Graph.from_triples(OLD[6:], OLD[:3], OLD[3:6], labels=LABELS, name="things")
NEW = [fact for i in range(30, 36) for fact in facts_of(i) if fact[1] == "like" and fact[2] not in THINGS[30:]]
ASKED = [fact for i in range(30, 36) for fact in facts_of(i) if fact[1] != "like"]
RECIPE = conjoin.Recipe(epochs=30, batch=40, n3=0.05)


@pytest.fixture(scope="module", params=["complex", "5star-conj"])
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    settings = conjoin.Run.of(GRAPH, request.param, rank=8, recipe=RECIPE)
    return conjoin.execute(settings, GRAPH, tmp_path_factory.mktemp("runs") / "t").path


def reciprocal_rank(predictor: Predictor) -> float:
    return float(np.mean([1 / line.rank for line in predictor.score(ASKED)]))


@pytest.mark.parametrize(
    ("dtype", "folded"), [(torch.float64, torch.float64), (torch.bfloat16, torch.float32)], ids=str
)
def test_models_of_other_precisions_are_folded_into(dtype: torch.dtype, folded: torch.dtype) -> None:
    known = Predictor(conjoin.Model("complex", GRAPH.n_entities, GRAPH.n_relations, rank=4, dtype=dtype), GRAPH)
    grown = fold_in(known, NEW, steps=2)
    places = torch.tensor([grown.graph.entities.index[name] for name in GRAPH.entities.names])
    assert grown.model.entities.weight.dtype == grown.model.relations.dtype == folded
    assert torch.equal(grown.model.entities.weight[places], known.model.entities.weight.to(folded))


def test_inference_mode_plays_no_part(run: Path) -> None:
    known = open_run(run)
    with torch.inference_mode():
        folded = fold_in(known, NEW, steps=2)
    assert torch.equal(folded.model.entities.weight, fold_in(known, NEW, steps=2).model.entities.weight)


def test_new_entities_are_placed_by_their_facts_and_nothing_else_moves(run: Path) -> None:
    before = open_run(run)
    folded = fold_in(before, NEW)
    assert folded.graph.n_entities == before.graph.n_entities + 6
    for name, i in before.graph.entities.index.items():
        j = folded.graph.entities.index[name]
        assert torch.equal(before.model.entities.weight[i], folded.model.entities.weight[j])
        assert folded.graph.entities.label(j) == before.graph.entities.label(i)
    assert torch.equal(before.model.relations, folded.model.relations)
    random = fold_in(before, NEW, steps=1, seed=3)
    random.model.entities.weight[[random.graph.entities.index[n] for n in THINGS[30:]]] = torch.randn(6, 16)
    assert reciprocal_rank(folded) > 0.8
    assert reciprocal_rank(folded) > reciprocal_rank(random) + 0.2
    again = fold_in(before, list(reversed(NEW)))
    assert torch.equal(again.model.entities.weight, folded.model.entities.weight)


@pytest.mark.parametrize(
    "form",
    ["complex", "5star-conj", "distmult", "transe", "TransE(distance=l1)", "TransE(distance=squared-bias)", "transh"],
)
def test_gradient_of_the_new_rows_is_that_of_the_training_loss(form: str) -> None:
    """With every training query in the background, where nothing is sampled."""
    from conjoin.training.objective import loss

    known = conjoin.Model(form, GRAPH.n_entities, GRAPH.n_relations, rank=4, scale=0.5, dtype=torch.float64)
    folded = fold_in(Predictor(known, GRAPH), NEW, steps=1)
    fresh = np.array([folded.graph.entities.index[name] for name in THINGS[30:]])
    objective = _Objective(folded.model, folded.graph, fresh, recipe=RECIPE, seed=0)
    assert objective.weight == 1
    x = folded.model.entities.rows(objective.fresh).clone().requires_grad_()
    objective.backward(x)
    model = folded.model.requires_grad_()
    h, r, t = torch.from_numpy(folded.graph.queries("train")).unbind(dim=1)
    (loss(model, h, r, t, RECIPE) * len(h)).backward()  # type: ignore[no-untyped-call]
    assert x.grad is not None
    assert model.entities.weight.grad is not None
    torch.testing.assert_close(x.grad, model.entities.weight.grad[objective.fresh], rtol=1e-6, atol=1e-8)


def test_a_graph_grows_by_names_and_labels() -> None:
    grown = extend(
        GRAPH,
        [("zebra", "colour", "ROUGE"), ("thing 01", "like", "t07"), ("zebra", "colour", "red")],
        labels={"zebra": "Zebra"},
    )
    assert grown.n_entities == GRAPH.n_entities + 1
    added = {tuple(fact) for fact in named(grown)} - {tuple(fact) for fact in named(GRAPH)}
    assert added == {("zebra", "colour", "red")}
    assert grown.entities.label(grown.entities.index["zebra"]) == "Zebra"
    assert list(grown.entities.names) == sorted(grown.entities.names)
    assert named(grown, "test") == named(GRAPH, "test")
    with pytest.raises(UnknownName, match="weight"):
        extend(GRAPH, [("zebra", "weight", "red")])
    twins = Graph.from_triples([("a", "r", "b")], labels={"a": "x", "b": "x"})
    with pytest.raises(UnknownName, match=r"'x'.*2.*a, b"):
        extend(twins, [("x", "r", "c")])


def named(graph: Graph, split: str = "train") -> list[tuple[str, str, str]]:
    e, r = graph.entities.names, graph.relations.names
    return [(e[h], r[x], e[t]) for h, x, t in graph.triples(split).tolist()]  # type: ignore[arg-type]


def test_facts_among_known_entities_are_remembered(run: Path) -> None:
    before = open_run(run)
    folded = fold_in(before, [("t00", "like", "t01")])
    assert torch.equal(folded.model.entities.weight, before.model.entities.weight)
    assert next(a for a in folded.ask("t00", "like", k=99) if a.entity == "t01").known
    assert not next(a for a in before.ask("t00", "like", k=99) if a.entity == "t01").known


def test_a_folded_run_is_a_run(run: Path, tmp_path: Path) -> None:
    folded, kept = fold_run(run, NEW, tmp_path / "folded", labels={"t30": "the thirtieth"})
    opened = open_run(kept.path)
    assert opened.ask("the thirtieth", "colour") == folded.ask("t30", "colour")
    assert opened.settings == kept.run
    source = RunFolder(run).run
    assert kept.run.origin == f"folded into {source.id} last"
    assert kept.run.id != source.id
    assert kept.result["test"]["mrr"] == conjoin.rank(opened.model, opened.graph, "test").mrr() == kept.ranks().mrr()
    with pytest.raises(RunError, match="folded"):
        fold_run(run, NEW, kept.path)
    with pytest.raises(UsageError, match="nothing"):
        fold_run(run, named(GRAPH)[:2], tmp_path / "none")


def test_going_on_with_a_graph_that_has_grown(run: Path, tmp_path: Path) -> None:
    before = open_run(run)
    grown = Graph.from_triples([*OLD[6:], *NEW, ("t30", "weight", "heavy")], name="grown")
    rows = initial_rows(before.model, before.graph, grown, seed=0, scale=1e-3)
    for vocabulary, old, name, copies in (
        (grown.entities, GRAPH.entities, "entities.weight", 1),
        (grown.relations, GRAPH.relations, "relations", 2),
    ):
        weights = before.model.state_dict()[name]
        for word, i in vocabulary.index.items():
            for copy in range(copies):
                row = rows[name][i + copy * len(vocabulary)]
                if word in old.index:
                    assert torch.equal(row, weights[old.index[word] + copy * len(old)])
                else:
                    assert 0 < row.abs().max() < 0.01
    recipe = conjoin.Recipe(epochs=2, batch=40, n3=0.005)
    form, rank = RunFolder(run).run.form, 8
    fresh = conjoin.Run.of(grown, form, rank=rank, recipe=recipe)
    warm = conjoin.Run.of(grown, form, rank=rank, recipe=recipe, origin=f"{RunFolder(run).run.id} last")
    assert fresh.id != warm.id
    cold_run = conjoin.execute(fresh, grown, tmp_path / "cold")
    warm_run = conjoin.execute(warm, grown, tmp_path / "warm", initial=rows)
    assert warm_run.events[0]["loss"] < cold_run.events[0]["loss"] - 0.3
    with pytest.raises(RunError, match="origin"):
        conjoin.execute(warm, grown, tmp_path / "none")
    with pytest.raises(RunError, match="origin"):
        conjoin.execute(fresh, grown, tmp_path / "none2", initial=rows)
    with pytest.raises(UsageError, match="graph"):
        initial_rows(before.model, before.graph, Graph.from_triples([("x", "y", "z")]), seed=0, scale=1e-3)


def test_a_relation_that_is_gone_leaves_the_rows_of_the_others(run: Path) -> None:
    before = open_run(run)
    names, relations = before.graph.entities.names, before.graph.relations.names
    assert len(relations) > 1
    for kept, name in enumerate(relations):
        rows = initial_rows(
            before.model, before.graph, Graph.from_triples([(names[0], name, names[1])]), seed=0, scale=1e-3
        )["relations"]
        assert torch.equal(rows, before.model.relations[[kept, kept + len(relations)]])


def test_a_sample_of_the_background_stands_for_all_of_it(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("conjoin.predict.fold_in.BACKGROUND", 7)
    before = open_run(run)
    graph = extend(before.graph, [("new", before.graph.relations.names[0], before.graph.entities.names[0])])
    fresh = np.array([graph.entities.index["new"]])
    model = conjoin.Model(before.model.form, graph.n_entities, graph.n_relations, rank=before.model.rank)
    objective = _Objective(model.requires_grad_(requires_grad=False), graph, fresh, recipe=conjoin.Recipe(), seed=0)
    assert len(objective.level) == 7
    assert objective.weight * 7 == 2 * len(before.graph.train)
