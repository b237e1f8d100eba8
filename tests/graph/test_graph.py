"""From names to ids: any table, a stable order, both directions, what is known and what is unseen."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from conjoin.errors import GraphError, UnknownName
from conjoin.graph.graph import SPLITS, Graph, Vocabulary, reciprocal
from conjoin.io.read_report import Triples

Fact = tuple[str, str, str]
FACTS: list[Fact] = [("b", "r", "a"), ("a", "s", "ü"), ("b", "r", "a")]
NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=3).filter(
    lambda name: not name.isspace()
)
GRAPHS = st.lists(st.lists(st.tuples(NAMES, NAMES, NAMES), max_size=8), min_size=3, max_size=3)


def columns(facts: list[Fact]) -> dict[str, list[str]]:
    return dict(zip(("head", "relation", "tail"), map(list, zip(*facts, strict=True)), strict=True))


TABLES: dict[str, Callable[[list[Fact]], Any]] = {
    "list": lambda facts: facts,
    "lists": lambda facts: [list(fact) for fact in facts],
    "iterator": iter,
    "array of text": np.array,
    "array of objects": lambda facts: np.array(facts, dtype=object),
    "array of bytes": lambda facts: np.char.encode(np.array(facts), "utf-8"),
    "pandas": lambda facts: pd.DataFrame(columns(facts)),
    "pandas, further columns": lambda facts: pd.DataFrame(columns(facts)).assign(note=1.5),
    "pandas, columns of one name": lambda facts: pd.DataFrame(facts, columns=["x", "x", "x"]),
    "pandas, columns in another order": lambda facts: pd.DataFrame(columns(facts))[["tail", "relation", "head"]],
    "pandas, a column before": lambda facts: pd.DataFrame({"number": 1, **columns(facts)}),
    "pandas, other words": lambda facts: pd.DataFrame(facts, columns=["s", "p", "o"])[["o", "s", "p"]],
    "pandas, categories": lambda facts: pd.DataFrame(columns(facts)).astype("category"),
    "pandas, another index": lambda facts: pd.DataFrame(columns(facts), index=[7, 3, 7]),
    "pyarrow": lambda facts: pa.table(columns(facts)),
    "pyarrow, columns in another order": lambda facts: pa.table(columns(facts)).select(["relation", "tail", "head"]),
    "pyarrow batch": lambda facts: pa.RecordBatch.from_pydict(columns(facts)),
    "triples": lambda facts: Triples([h for h, _, _ in facts], [r for _, r, _ in facts], [t for *_, t in facts]),
}


@pytest.mark.parametrize("kind", TABLES)
def test_graphs_are_made_from_every_kind_of_table(kind: str) -> None:
    graph = Graph.from_triples(TABLES[kind](FACTS))
    assert graph.entities.names == ("a", "b", "ü")
    assert graph.relations.names == ("r", "s")
    assert graph.train.tolist() == [[1, 0, 0], [0, 1, 2], [1, 0, 0]]
    assert graph.train.dtype == np.int64


@pytest.mark.parametrize("names", [["source", "target", "weight"], ["number", "source", "target", "note"]])
def test_columns_whose_names_contradict_their_order_are_refused(names: list[str]) -> None:
    table = pd.DataFrame([["1", "a", "b", "c"][: len(names)]], columns=names)
    for each in (table, pa.Table.from_pandas(table)):
        with pytest.raises(GraphError, match=", ".join(map(repr, names))):
            Graph.from_triples(each)
    renamed = table.rename(columns={"source": "head", "target": "tail", names[-1]: "relation"})
    assert Graph.from_triples(renamed).n_relations == 1


def test_numbers_become_their_digits() -> None:
    row = torch.tensor([10, 2, 9])
    for table in (np.array([[10, 2, 9]]), [(10, 2, 9)], pd.DataFrame([[10, 2, 9]]), row[None], [row], [tuple(row)]):
        graph = Graph.from_triples(table)
        assert (graph.entities.names, graph.relations.names) == (("10", "9"), ("2",))
    for kind in (torch.bfloat16, torch.float32):
        assert Graph.from_triples(torch.ones(1, 3, dtype=kind, requires_grad=True)).entities.names == ("1.0",)


def test_numpy_numbers_are_written_like_numpy_writes_them() -> None:
    graph = Graph.from_triples([(np.float32(0.1), np.int64(2), np.datetime64("2020-01-01", "ns"))])
    assert graph.entities.names == ("0.1", "2020-01-01T00:00:00.000000000")
    assert graph.relations.names == ("2",)


@pytest.mark.parametrize("nothing", [None, "", "  ", float("nan"), np.float32("nan"), pd.NA, pd.NaT, b""])
def test_missing_names_are_refused(nothing: Any) -> None:
    with pytest.raises(GraphError, match=r"\b2\b.*tail"):
        Graph.from_triples([("a", "r", "b"), ("a", "r", nothing)])


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ([("a", "r")], r"1 .*\('a', 'r'\)"),
        ([("a", "r", "b"), "abc"], "2 .*'abc'"),
        ([("a", "r", "b"), b"abc"], "2 .*b'abc'"),
        ([1, 2, 3], "1 .*1"),
        ([columns(FACTS)], "1 .*{'head'"),
        ([{"a", "r", "b"}], "1 .*{"),
        (np.zeros((2, 4)), r"\(2, 4\)"),
        (np.zeros(3), r"\(3,\)"),
        (torch.zeros(2, 4), r"\(2, 4\)"),
        (pa.array([["a", "r", "b"]]), r"\(1,\)"),
        (pd.DataFrame({"a": [1], "b": [2]}), r"\b2\b"),
        (pa.table({"a": [1]}), r"\b1\b"),
        ([(b"\xff", "r", "b")], "xff"),
    ],
)
def test_values_that_are_not_tables_of_triples_are_refused(table: Any, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        Graph.from_triples(table)


@given(parts=GRAPHS)
def test_ids_follow_the_sorted_names(parts: list[list[Fact]]) -> None:
    graph = Graph.from_triples(*parts)
    everything = [fact for part in parts for fact in part]
    assert list(graph.entities.names) == sorted({name for h, _, t in everything for name in (h, t)})
    assert list(graph.relations.names) == sorted({r for _, r, _ in everything})
    entity, relation = graph.entities.names, graph.relations.names
    for split, part in zip(SPLITS, parts, strict=True):
        ids = graph.triples(split)
        assert ids.shape == (len(part), 3)
        assert [(entity[h], relation[r], entity[t]) for h, r, t in ids.tolist()] == part
    assert all(graph.entities.find(name) == i for i, name in enumerate(entity))


@given(parts=GRAPHS)
def test_queries_known_answers_and_unseen_facts_equal_brute_force(parts: list[list[Fact]]) -> None:
    graph = Graph.from_triples(*parts)
    n = graph.n_relations
    for split in SPLITS:
        ids = graph.triples(split).tolist()
        assert graph.queries(split).tolist() == ids + [[t, r + n, h] for h, r, t in ids]
    truth = {tuple(query) for split in SPLITS for query in graph.queries(split).tolist()}
    for head in range(graph.n_entities):
        for relation in range(2 * n):
            tails = sorted(t for h, r, t in truth if (h, r) == (head, relation))
            assert graph.known.tails_of(head, relation).tolist() == tails
    seen = {e for h, _, t in graph.train.tolist() for e in (h, t)}
    assert graph.unseen.tolist() == [e for e in range(graph.n_entities) if e not in seen]


def test_reciprocal_does_not_change_its_argument() -> None:
    triples = np.array([[0, 1, 2]])
    assert reciprocal(triples, 5).tolist() == [[0, 1, 2], [2, 6, 0]]
    assert triples.tolist() == [[0, 1, 2]]


def test_checksum_depends_on_the_content_only() -> None:
    base = Graph.from_triples(FACTS, FACTS[:1])
    same = Graph.from_triples(pd.DataFrame(FACTS), FACTS[:1], name="other", labels={"a": "A"}, notes=("x",))
    assert same.checksum == base.checksum
    others = [
        Graph.from_triples(FACTS, FACTS[1:2]),
        Graph.from_triples(FACTS, None, FACTS[:1]),
        Graph.from_triples([FACTS[1], FACTS[0], FACTS[2]], FACTS[:1]),
        Graph.from_triples([("bb", "r", "a"), ("a", "s", "ü"), ("bb", "r", "a")], [("bb", "r", "a")]),
    ]
    assert len({graph.checksum for graph in (base, *others)}) == 5
    one = Graph.from_triples([("ab", "r", "c")])
    two = Graph.from_triples([("a", "r", "bc")])
    assert one.checksum != two.checksum


def test_unknown_splits_are_refused() -> None:
    with pytest.raises(UnknownName, match=r"'tests'.*test\?"):
        Graph.from_triples(FACTS).triples("tests")  # type: ignore[arg-type]


def test_names_and_labels_are_found() -> None:
    entities = Vocabulary("entity", ("Q1", "Q2", "Q3", "Q4"), ("Paris", "Paris", "Straße", ""))
    assert entities.find("Q2") == 1
    assert entities.find("STRASSE") == 2
    assert [entities.label(i) for i in range(4)] == ["Paris (Q1)", "Paris (Q2)", "Straße", "Q4"]
    assert entities.find("Paris (Q2)") == 1
    assert [Vocabulary("entity", ("Q1", "Q2"), ("Paris", "paris")).label(i) for i in (0, 1)] == [
        "Paris (Q1)",
        "paris (Q2)",
    ]
    with pytest.raises(UnknownName, match=r"paris.*2.*Q1, Q2"):
        entities.find("paris")
    with pytest.raises(UnknownName, match=r"Strase.*Straße"):
        entities.find("Strase")
    for word in ("", "nothing like it"):
        with pytest.raises(UnknownName, match=repr(word)):
            entities.find(word)
    with pytest.raises(GraphError, match=r"1 .*2 entity"):
        Vocabulary("entity", ("a", "b"), ("A",))


def test_a_name_wins_over_a_label() -> None:
    assert Vocabulary("entity", ("a", "b"), ("b", "a")).find("a") == 0


def test_accents_may_be_composed_or_not() -> None:
    composed, apart = "São Tomé", "Sa\u0303o Tome\u0301"
    for stored, typed in ((composed, apart), (apart, composed)):
        assert Vocabulary("entity", ("x", stored)).find(typed) == 1
        assert Vocabulary("entity", ("x", "y"), ("", stored)).find(typed.upper()) == 1
    both = Vocabulary("entity", (apart, composed))
    assert [both.find(composed), both.find(apart)] == [1, 0]


def test_labels_reach_the_vocabularies() -> None:
    graph = Graph.from_triples(
        FACTS, labels={"a": "Apple", "zz": "?"}, relation_labels={"r": "is"}, name="g", notes=["n"]
    )
    assert graph.entities.labels == ("Apple", "", "")
    assert graph.relations.labels == ("is", "")
    assert (graph.name, graph.notes) == ("g", ("n",))
    assert Graph.from_triples(FACTS).entities.labels == ()


@pytest.mark.parametrize("at_once", [1, 3, 1000])
def test_known_answers_of_a_split_answer_its_queries(monkeypatch: pytest.MonkeyPatch, at_once: int) -> None:
    chance = random.Random(at_once)
    facts = [[(f"e{chance.randrange(9)}", f"r{chance.randrange(2)}", f"e{chance.randrange(9)}") for _ in range(20)]] * 3
    graph = Graph.from_triples(*(chance.sample(split, 12) for split in facts))
    monkeypatch.setattr("conjoin.graph.graph.KNOWN_AT_ONCE", at_once)
    monkeypatch.setattr("conjoin.graph.graph.KNOWN_BLOCK", at_once)
    for split in SPLITS:
        asked = graph.queries(split)
        found, wanted = (known.pairs(asked[:, 0], asked[:, 1]) for known in (graph.known_of(split), graph.known))
        assert all(np.array_equal(a, b) for a, b in zip(found, wanted, strict=True))
    assert graph.known_of("test") is graph.known_of("test")
    empty = replace(graph, test=graph.test[:0])
    assert at_once == 1000 or len(empty.known_of("test")) == 0
