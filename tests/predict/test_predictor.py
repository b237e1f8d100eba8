"""Answers in the user's own names, from runs that are whole."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import conjoin
from conjoin.errors import ConjoinError, Diverged, GraphError, RunError, UnknownName, UsageError
from conjoin.graph.graph import Graph
from conjoin.model.model import Model
from conjoin.predict.compare import compare
from conjoin.predict.fold_in import fold_in
from conjoin.predict.predictor import Predictor, Question, open_run
from conjoin.runs.execute import ExecutionOptions, execute
from conjoin.runs.folder import RunFolder
from conjoin.runs.run import Run
from conjoin.training.recipe import Recipe

FACTS = [("Q1", "P1", "Q2"), ("Q2", "P1", "Q3"), ("Q3", "P1", "Q4"), ("Q4", "P2", "Q1"), ("Q1", "P2", "Q3")]
LABELS = {"Q1": "France", "Q2": "Spain", "Q3": "Georgia", "Q4": "Georgia"}
GRAPH = Graph.from_triples(
    FACTS, [("Q2", "P2", "Q4")], [("Q3", "P2", "Q2")], labels=LABELS, relation_labels={"P1": "borders"}, name="g"
)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    settings = Run.of(GRAPH, "5star-conj", rank=4, recipe=Recipe(epochs=3, batch=4, validate_every=1))
    return execute(settings, GRAPH, tmp_path_factory.mktemp("runs") / "g").path


@pytest.fixture(scope="module")
def predictor(run: Path) -> Predictor:
    return conjoin.open(run)


def scores(predictor: Predictor, h: int, r: int) -> list[float]:
    found = predictor.model.scores(torch.tensor([h]), torch.tensor([r]))[0].tolist()
    return [float(score) for score in found]


def test_tails_are_those_of_the_scores(predictor: Predictor) -> None:
    answers = predictor.ask("France", "borders", k=10)
    expected = scores(predictor, 0, 0)
    assert [answer.entity for answer in answers] == [f"Q{i + 1}" for i in np.argsort(expected)[::-1] if i != 0]
    for answer in answers:
        assert math.isclose(answer.score, expected[int(answer.entity[1]) - 1], rel_tol=1e-5, abs_tol=1e-7)
        assert answer.label == {"Q2": "Spain", "Q3": "Georgia (Q3)", "Q4": "Georgia (Q4)"}[answer.entity]
        assert answer.known == (answer.entity == "Q2")


def test_a_model_of_another_graph_does_not_answer() -> None:
    with pytest.raises(UsageError, match=r"(?s)5.*2.*g.*4.*2"):
        Predictor(conjoin.Model("complex", 5, 2, rank=2), GRAPH)


def test_heads_are_asked_of_the_reciprocal(predictor: Predictor) -> None:
    answers = predictor.ask("?", "P2", "Q3", k=4)
    expected = scores(predictor, 2, 1 + GRAPH.n_relations)
    assert [answer.entity for answer in answers] == [f"Q{i + 1}" for i in np.argsort(expected)[::-1] if i != 2]
    assert {answer.entity for answer in answers if answer.known} == {"Q1"}


def test_relations_between_two_entities(predictor: Predictor) -> None:
    answers = predictor.ask("Q1", None, "Q3")
    expected = {"P1": scores(predictor, 0, 0)[2], "P2": scores(predictor, 0, 1)[2]}
    assert [answer.entity for answer in answers] == sorted(expected, key=lambda name: -expected[name])
    assert {answer.entity: answer.known for answer in answers} == {"P1": False, "P2": True}
    assert {answer.entity: answer.label for answer in answers} == {"P1": "borders", "P2": "P2"}
    assert [answer.entity for answer in predictor.ask("Q1", "?", "Q3", only_new=True)] == ["P1"]


def test_only_new_leaves_out_facts_of_every_split(predictor: Predictor) -> None:
    for head in GRAPH.entities.names:
        for relation in GRAPH.relations.names:
            answers = predictor.ask(head, relation, k=99, only_new=True)
            assert not any(answer.known for answer in answers)
            facts = GRAPH.known.tails_of(GRAPH.entities.find(head), GRAPH.relations.find(relation))
            assert len(answers) == GRAPH.n_entities - len(facts) - 1


def knows_loops() -> Predictor:
    """`likes` has a loop in train, `needs` one in test alone, `sees` none; the model likes every loop best."""
    train = [("a", "likes", "a"), ("b", "likes", "c"), ("a", "needs", "b"), ("b", "sees", "c"), ("c", "sees", "d")]
    graph = Graph.from_triples(train, [], [("c", "needs", "c")])
    model = conjoin.Model("complex", graph.n_entities, graph.n_relations, rank=4)
    model.entities.weight.data = torch.eye(4, 8)
    model.relations.data = torch.tensor([1.0] * 4 + [0.0] * 4).expand_as(model.relations).clone()
    return Predictor(model, graph)


@pytest.mark.parametrize("only_new", [False, True])
@pytest.mark.parametrize("candidates", [None, ["a", "b", "c"]])
def test_an_entity_answers_itself_only_where_the_graph_knows_such_facts(
    candidates: list[str] | None, *, only_new: bool
) -> None:
    run = knows_loops()
    for e in "abc":
        for relation in ("likes", "needs", "sees"):
            known = (e, relation) in (("a", "likes"), ("c", "needs"))
            expected = (relation == "likes" or known) and not (known and only_new)
            for question in (Question(e, relation), Question(None, relation, e)):
                answers = run.ask(*question, k=9, only_new=only_new, candidates=candidates)
                assert (e in {answer.entity for answer in answers}) == expected
                assert not expected or answers[0].entity == e
                assert all(math.isfinite(answer.score) for answer in answers)
                assert run.ask(*question, k=1, only_new=only_new, candidates=candidates) == answers[:1]
                compared = compare([run, run], question, k=9, only_new=only_new, candidates=candidates)
                places = [answer.places[0] and answer.places[0].rank for answer in compared]
                assert {answer.entity for answer in compared} == {answer.entity for answer in answers}
                assert min((place for place in places if place), default=1) == 1


def test_relations_from_an_entity_to_itself() -> None:
    run = knows_loops()
    assert {a.entity for a in run.ask("a", None, "a")} == {"likes"}
    assert {a.entity for a in run.ask("c", None, "c")} == {"likes", "needs"}
    assert {a.entity for a in run.ask("c", None, "c", only_new=True)} == {"likes"}
    assert {a.entity for a in run.ask("c", None, "d")} == {"likes", "needs", "sees"}


def test_ranks_follow_the_published_protocol_with_the_entity_itself_as_a_candidate() -> None:
    run = knows_loops()
    assert run.score([("b", "sees", "d")])[0].rank == 2
    asked = replace(run.graph, test=np.array([[1, run.graph.relations.find("sees"), 3]]))
    ranks = conjoin.rank(run.model, asked, "test")
    assert ranks.better.tolist() == [1, 1]
    assert ranks.candidates.tolist() == [3, 3]


@pytest.mark.parametrize(
    ("question", "words"),
    [
        (("Frnace", "borders", "?"), r"unknown entity 'Frnace'\. Did you mean France\?"),
        (("France", "brders", "?"), r"unknown relation 'brders'\. Did you mean borders\?"),
        (("Georgia", "borders", "?"), r"2 have that label: use one of the names Q3, Q4"),
        (("?", "borders", "?"), "2"),
        (("France", "borders", "Spain"), "0"),
        ((3, "borders", "?"), "'3'"),
    ],
)
def test_questions_that_cannot_be_answered(predictor: Predictor, question: tuple[Any, str, str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        predictor.ask(*question)


@pytest.mark.parametrize("question", [("France", "borders"), "France", None], ids=str)
def test_a_malformed_question_is_refused(predictor: Predictor, question: Any) -> None:
    with pytest.raises(UsageError, match=r"\(head, relation, tail\)"):
        predictor.ask_many([question])


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_models_of_other_types_answer_too(dtype: torch.dtype) -> None:
    predictor = Predictor(conjoin.Model("complex", 4, 2, rank=4, dtype=dtype, scale=1.0), GRAPH)
    assert len(predictor.ask("France", "borders")) == 3
    assert [answer.entity for answer in predictor.ask("France", None, "Spain", k=1)] == [
        max(("P1", "P2"), key=lambda name: predictor.score([("Q1", name, "Q2")])[0].score)
    ]


@pytest.mark.parametrize("question", [("France", "borders", None), ("France", None, "Spain")])
def test_a_diverged_model_answers_nothing(question: tuple[str, str | None, str | None]) -> None:
    model = conjoin.Model("complex", 4, 2, rank=4)
    model.relations.detach().fill_(torch.nan)
    with pytest.raises(Diverged, match="finite"):
        Predictor(model, GRAPH).ask(*question)


@pytest.mark.parametrize("k", [0, -3])
def test_k_below_one_is_refused(predictor: Predictor, k: int) -> None:
    with pytest.raises(UsageError, match=str(k)):
        predictor.ask("France", "borders", k=k)
    with pytest.raises(UsageError, match=str(k)):
        predictor.similar("France", k)


def test_given_facts_are_scored_in_order(predictor: Predictor) -> None:
    wanted = [("France", "borders", "Spain"), ("Q4", "P1", "Q4"), ("Q1", "P2", "Q3")]
    scored = predictor.score(wanted)
    assert [(line.head, line.relation, line.tail) for line in scored] == [
        ("Q1", "P1", "Q2"),
        ("Q4", "P1", "Q4"),
        ("Q1", "P2", "Q3"),
    ]
    assert scored[0].label == "France borders Spain"
    assert [line.known for line in scored] == [True, False, True]
    for line, (h, r, t) in zip(scored, [(0, 0, 1), (3, 0, 3), (0, 1, 2)], strict=True):
        expected = scores(predictor, h, r)
        assert math.isclose(line.score, expected[t], rel_tol=1e-5, abs_tol=1e-7)
        hidden = set(GRAPH.known.tails_of(h, r).tolist()) - {t}
        assert line.rank == 1 + sum(s > expected[t] for i, s in enumerate(expected) if i not in hidden)
    assert predictor.score([]) == []


def test_similar_entities(predictor: Predictor) -> None:
    rows = predictor.model.entities.weight.double()
    cosines = torch.nn.functional.cosine_similarity(rows, rows[:1], dim=1).tolist()
    answers = predictor.similar("France", 9)
    assert [answer.entity for answer in answers] == [f"Q{i + 1}" for i in np.argsort(cosines)[::-1] if i != 0]
    assert {answer.entity for answer in answers if answer.known} == {"Q2", "Q3", "Q4"}


def test_last_and_best_weights(run: Path, predictor: Predictor) -> None:
    result = RunFolder(run).result
    best = open_run(run, weights="best")
    assert conjoin.rank(best.model, GRAPH, "valid").mrr() == result["best"]["valid"]["mrr"]
    assert conjoin.rank(predictor.model, GRAPH, "valid").mrr() == result["last"]["valid"]["mrr"]
    with pytest.raises(UnknownName, match=r"bset.*best"):
        open_run(run, weights="bset")


def test_many_questions_are_answered_like_one_by_one(predictor: Predictor) -> None:
    questions = [
        Question("Q1", "P1", None),
        Question("?", "P2", "Q3"),
        Question("Q1", None, "Q3"),
        Question("Spain", "P2"),
    ]
    for only_new in (False, True):
        together = predictor.ask_many(questions * 3, k=3, only_new=only_new)
        for question, answers in zip(questions * 3, together, strict=True):
            alone = predictor.ask(*question, k=3, only_new=only_new)
            assert [(a.entity, a.known) for a in answers] == [(a.entity, a.known) for a in alone]
            assert [a.score for a in answers] == pytest.approx([a.score for a in alone], rel=1e-5)
    assert predictor.ask_many([]) == []


@given(st.lists(st.sampled_from(["Q1", "Q2", "Q3", "Q4", "France"]), min_size=1), st.booleans())
def test_candidates_are_the_only_answers_and_keep_their_order(
    predictor: Predictor, names: list[str], only_new: bool
) -> None:
    wanted = {"Q1" if name == "France" else name for name in names}
    for question in (("Q1", "P1", "?"), ("?", "P2", "Q3")):
        answers = predictor.ask(*question, k=9, only_new=only_new, candidates=names)
        everything = [a for a in predictor.ask(*question, k=9, only_new=only_new) if a.entity in wanted]
        assert [(a.entity, a.known) for a in answers] == [(a.entity, a.known) for a in everything]
        assert [a.score for a in answers] == pytest.approx([a.score for a in everything], rel=1e-4, abs=1e-7)


def test_relations_to_choose_from(predictor: Predictor) -> None:
    assert [a.entity for a in predictor.ask("Q1", None, "Q3", candidates=["borders"])] == ["P1"]
    with pytest.raises(UsageError, match="candidates"):
        predictor.ask("Q1", "P1", candidates=[])
    with pytest.raises(UnknownName, match="Q9"):
        predictor.ask("Q1", "P1", candidates=["Q9"])
    with pytest.raises(UsageError, match="Spain"):
        predictor.ask("France", "borders", candidates="Spain")


def test_types_are_sets_of_training_facts(predictor: Predictor) -> None:
    assert predictor.members("*", "borders", "?") == ["Q2", "Q3", "Q4"]
    assert predictor.members("?", "P2", None) == ["Q1", "Q4"]
    assert predictor.members("?", "P2", "Q1") == ["Q4"]
    assert predictor.members("?", "P2", "Q4") == []
    assert predictor.members("France", "*", "?") == ["Q2", "Q3"]
    for wrong in (("*", "P1", "*"), ("?", "P1", "?"), ("Q1", "?", "Q2")):
        with pytest.raises(UsageError):
            predictor.members(*wrong)


def test_names_are_found(predictor: Predictor) -> None:
    assert [(m.name, m.label, m.degree) for m in predictor.find_entities("frnace")] == [("Q1", "France", 3)]
    assert [match.name for match in predictor.find_entities("georgia")] == ["Q3", "Q4"]
    assert [(m.name, m.label, m.degree) for m in predictor.find_relations("bord")] == [("P1", "borders", 3)]


def test_two_runs_side_by_side(predictor: Predictor, run: Path) -> None:
    best = open_run(run, weights="best")
    elsewhere = Graph.from_triples([("Q1", "P1", "Q2"), ("Q9", "P1", "Q1")])
    other = Predictor(conjoin.Model("complex", 3, 1, rank=4), elsewhere)
    compared = compare([predictor, best, other], Question("Q1", "P1"), k=3)
    listed = [p.ask("Q1", "P1", k=9) for p in (predictor, best, other)]
    assert {answer.entity for answer in compared} == {a.entity for answers in listed for a in answers[:3]}
    for answer in compared:
        for place, answers in zip(answer.places, listed, strict=True):
            ranks = {a.entity: (rank, a.score) for rank, a in enumerate(answers, start=1)}
            if place is None:
                assert answer.entity not in ranks
            else:
                assert place.rank == ranks[answer.entity][0]
                assert place.score == pytest.approx(ranks[answer.entity][1], rel=1e-5, abs=1e-7)
    new = compare([predictor, best], Question("Q1", "P1"), k=9, only_new=True, candidates=["Q2", "Q3"])
    assert [(a.entity, a.known, a.places[0] and a.places[0].rank) for a in new] == [("Q3", False, 1)]
    with pytest.raises(UsageError, match="runs"):
        compare([], Question("Q1", "P1"))


@pytest.mark.parametrize("only_new", [False, True])
def test_a_fact_of_one_graph_is_known_in_a_comparison_of_two_runs(*, only_new: bool) -> None:
    facts = [("a", "r", "b"), ("b", "r", "c")]

    def run(graph: Graph, of_c: float) -> Predictor:
        """Scores c, the answer, with `of_c` and b with 1."""
        model = Model("complex", 3, 1, rank=2, seed=None)
        model.relations.data[:] = torch.tensor([1.0, 1.0, 0.0, 0.0])
        model.entities.weight.data[:, 0] = torch.tensor([1.0, 1.0, of_c])
        return Predictor(model, graph)

    knows, names = run(Graph.from_triples([*facts, ("a", "r", "c")]), 0.5), run(Graph.from_triples(facts), 2.0)
    compared = compare([knows, names], Question("a", "r"), k=1, only_new=only_new)
    assert {answer.entity: answer.known for answer in compared}["c"]


def copied(run: Path, target: Path) -> Path:
    import shutil

    return Path(shutil.copytree(run, target))


@pytest.mark.parametrize(
    "name",
    [
        "run.json",
        "result.json",
        "model.safetensors",
        "graph/graph.json",
        "graph/entities.parquet",
        "graph/triples.parquet",
    ],
)
def test_a_damaged_run_is_never_opened(run: Path, tmp_path: Path, name: str) -> None:
    file = copied(run, tmp_path / "run") / name
    whole = file.read_bytes()
    flipped = [bytearray(whole) for _ in range(12)]
    for number, copy in enumerate(flipped):
        copy[number * len(whole) // 12] ^= 2
    for content in (b"", whole[: len(whole) // 2], whole[:-2], *map(bytes, flipped)):
        file.write_bytes(content)
        with pytest.raises((RunError, GraphError), match=r"."):
            open_run(tmp_path / "run")
    file.unlink()
    with pytest.raises(ConjoinError):
        open_run(tmp_path / "run")


def test_the_graph_of_another_run_is_refused(run: Path, tmp_path: Path) -> None:
    from conjoin.io.graph_store import save_graph

    place = copied(run, tmp_path / "run")
    save_graph(replace(GRAPH, test=GRAPH.test[:0]), place / "graph")
    with pytest.raises(RunError, match="graph"):
        open_run(place)


def test_folders_that_cannot_be_opened_are_refused(run: Path, tmp_path: Path) -> None:
    with pytest.raises(RunError, match="no run folder"):
        open_run(tmp_path / "nowhere")
    with pytest.raises(RunError, match=r"run\.json"):
        open_run(tmp_path)
    unvalidated = replace(RunFolder(run).run, recipe=Recipe(epochs=1), weights="last")
    last = execute(unvalidated, GRAPH, tmp_path / "last")
    with pytest.raises(RunError, match="--weights last"):
        open_run(last, weights="best")
    lean = execute(RunFolder(run).run, GRAPH, tmp_path / "lean", conduct=ExecutionOptions(keep_model=False))
    with pytest.raises(RunError, match="weights"):
        open_run(lean.path)
    lean.result_file.unlink()
    with pytest.raises(RunError, match="--resume"):
        open_run(lean.path)


@pytest.mark.parametrize(
    "facts",
    [
        ("a", "r", "b"),
        ["abc", "def", "ghi"],
        [("a", "r")],
        [("a", "r", 2)],
        [{"head": "a", "relation": "r", "tail": "b"}],
        [{"a", "r", "b"}],
        pd.DataFrame([["a", "r", "b"]]),
        pa.table({"head": ["a"] * 3, "relation": ["r"] * 3, "tail": ["b"] * 3}),
        [7],
    ],
    ids=lambda facts: type(facts[0] if isinstance(facts, list) else facts).__name__,
)
def test_a_malformed_list_of_facts_is_refused(facts: Any) -> None:
    graph = Graph.from_triples([("a", "r", "b")])
    predictor = Predictor(Model("complex", 2, 1, rank=4), graph)
    for use in (predictor.score, partial(fold_in, predictor)):
        with pytest.raises(UsageError, match=r"(?s)Fact 1 .*head, relation, tail"):
            use(facts)
