"""Which columns are head, relation and tail: the same for CSV, TSV, Parquet and an ingest."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from conjoin.datasets.load import load
from conjoin.errors import GraphError
from conjoin.graph.column_roles import PLACES, ROLES
from conjoin.io.read_graph import read_graph
from conjoin.io.readers import ReadOptions, ReadReport, read_triples
from conjoin.io.stream import stream_triples

NAMED = ReadOptions(header=True)
CELLS = {"head": "a", "relation": "r", "tail": "b"}


def table(folder: Path, names: str, cells: str, kind: str) -> Path:
    columns, values = names.split(","), cells.split(",")
    path = folder / f"facts.{kind}"
    if kind == "parquet":
        pq.write_table(pa.Table.from_arrays([pa.array([value]) for value in values], names=columns), path)
    else:
        path.write_text(f"{names}\n{cells}\n".replace(",", "," if kind == "csv" else "\t"))
    return path


def read(path: Path, options: ReadOptions) -> tuple[list[tuple[str, str, str]], ReadReport]:
    """What the ordinary reader finds, once it is seen that an ingest finds the same."""
    triples, report = read_triples(path, options)
    flowed: list[tuple[str, str, str]] = []
    other = stream_triples(
        path, options, lambda b: flowed.extend(zip(*(b.column(i).to_pylist() for i in range(3)), strict=True)), scope=""
    )
    assert (flowed, other) == (list(triples), report)
    return flowed, report


@pytest.mark.parametrize("kind", ["csv", "tsv", "parquet"])
@pytest.mark.parametrize(
    ("names", "cells"),
    [
        ("obj,subj,p", "b,a,r"),
        ("object,subject,type", "b,a,r"),
        ("o,s,p", "b,a,r"),
        ("to,from,via", "b,a,r"),
        ("predicate,x,object", "r,a,b"),
        ("Source,Target,Label,Weight", "a,b,r,0.5"),
        ("subject,predicate,object,source,type,label", "a,r,b,x,x,x"),
        ("timestamp,src,rel,dst", "1,a,r,b"),
        (":START_ID,:END_ID,:TYPE", "a,b,r"),
        ("subject_id,subject,predicate,object", "x,a,r,b"),
        ("object_id,subject_id,relation_id,year", "b,a,r,1"),
        ("node1,label,node2,id", "a,r,b,x"),
    ],
)
def test_column_names_take_precedence_over_their_order(tmp_path: Path, names: str, cells: str, kind: str) -> None:
    facts, report = read(table(tmp_path, names, cells, kind), NAMED)
    assert facts == [("a", "r", "b")]
    order = [names.split(",")[cells.split(",").index(cell)] for cell in CELLS.values()]
    assert ", ".join(map(repr, order)) in report.choice


@pytest.mark.parametrize("names", ["object,subject,type", "obj,subj,p", "Source,Edge,To", ":END_ID,:TYPE,:START_ID"])
def test_three_known_column_names_are_taken_as_a_header(tmp_path: Path, names: str) -> None:
    cells = ",".join("arb"[ROLES[name.lower().strip(":").removesuffix("_id")]] for name in names.split(","))
    facts, report = read(table(tmp_path, names, cells, "csv"), ReadOptions())
    assert facts == [("a", "r", "b")]
    assert report.header == tuple(names.split(","))


@pytest.mark.parametrize("names", ["from,via,to", "s,p,o", "subject,object,weight", "source,type,label"])
def test_fewer_known_column_names_are_data_without_a_requested_header(tmp_path: Path, names: str) -> None:
    assert len(read(table(tmp_path, names, "a,r,b", "csv"), ReadOptions())[0]) == 2


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("names", ["x,y,z", "head,y,z", "who,did,what", "p,q,r"])
def test_report_states_the_order_of_unknown_columns(tmp_path: Path, names: str, kind: str) -> None:
    facts, report = read(table(tmp_path, names, "a,r,b", kind), NAMED)
    assert facts == [("a", "r", "b")]
    taken = ", ".join(f"{role} {name!r}" for role, name in zip(PLACES, names.split(","), strict=True))
    assert taken in report.choice
    assert f"--columns {names}" in report.choice
    chosen = read(table(tmp_path, names, "a,r,b", kind), ReadOptions(columns=(0, 1, 2), header=True))[1]
    assert chosen.choice == ""


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize(
    ("names", "word", "place"),
    [
        ("object,x,y", "object", "head"),
        ("x,subject,y", "subject", "relation"),
        ("source,target,weight", "target", "relation"),
        ("a,b,score", "score", "tail"),
        ("subject,source,object", "source", "relation"),
        ("source,type,label", "label", "tail"),
    ],
)
def test_column_names_that_contradict_their_order_are_refused(
    tmp_path: Path, names: str, word: str, place: str, kind: str
) -> None:
    with pytest.raises(GraphError, match=rf"'{word}'.*{place}.*--columns"):
        read_triples(table(tmp_path, names, "a,r,b", kind), NAMED)


@pytest.mark.parametrize("names", ["subject,object,x,y", "type,label,source,target", "head,predicate,relation,tail"])
def test_extra_columns_need_three_unambiguous_roles(tmp_path: Path, names: str) -> None:
    with pytest.raises(GraphError, match=r"4 columns .*--columns"):
        read_triples(table(tmp_path, names, "a,r,b,c", "parquet"))


def facts_of(n: int) -> list[tuple[str, str, str]]:
    return [(f"person {i % 40}", f"likes {i % 3}", f"thing {i % 37}") for i in range(n)]


@pytest.mark.parametrize("order", [(1, 0, 2), (0, 2, 1), (2, 0, 1)])
def test_misplaced_columns_are_reported(tmp_path: Path, order: tuple[int, int, int]) -> None:
    path = tmp_path / "facts.tsv"
    path.write_text("".join("\t".join(fact[i] for i in order) + "\n" for fact in facts_of(200)))
    assert len([note for note in load(path).notes if "--columns" in note]) == 1
    back = order.index(0), order.index(1), order.index(2)
    assert not [note for note in load(path, options=ReadOptions(columns=back)).notes if "--columns" in note]


def test_plain_graphs_cause_no_column_warning(tmp_path: Path) -> None:
    path = tmp_path / "facts.tsv"
    path.write_text("".join("\t".join(fact) + "\n" for fact in facts_of(200)))
    assert len(read_graph(path).notes) == 1
    path.write_text("".join(f"a\tr{i}\tb\n" for i in range(10)))
    assert len(read_graph(path).notes) == 1


def test_many_relations_between_few_entities_cause_no_column_warning(tmp_path: Path) -> None:
    path = tmp_path / "facts.tsv"
    nations = [f"nation {i}" for i in range(14)]
    path.write_text("".join(f"{h}\tr{i}\t{t}\n" for i in range(55) for h in nations[i % 7 :: 5] for t in nations))
    assert not [note for note in load(path).notes if "--columns" in note]


def test_ingest_reports_headers_and_misplaced_columns(tmp_path: Path) -> None:
    from conjoin.io.ingest import ingest

    path = tmp_path / "facts.csv"
    rows = ["Wer,Wen,Was", *(f"{h},{t},{r}" for h, r, t in facts_of(200))]
    path.write_text("\n".join(rows))
    made = ingest([path], tmp_path / "graph", memory=1 << 30, threads=1)
    doubts = [note for note in made.notes if "--header" in note or "--columns" in note]
    assert {*doubts} <= {*load(path).notes}
    assert len(doubts) == 2


def test_contradicting_column_name_is_refused_beside_two_unknown_ones(tmp_path: Path) -> None:
    with pytest.raises(GraphError, match=r"'source'.*tail"):
        read(table(tmp_path, "entity,type,source", "a,r,b", "csv"), NAMED)


def test_property_table_causes_no_column_warning(tmp_path: Path) -> None:
    path = tmp_path / "facts.tsv"
    path.write_text("".join(f"thing {i}\tproperty {j}\tvalue {i} {j}\n" for i in range(20) for j in range(80)))
    assert not any("--columns" in note for note in read_graph(path).notes)


PEOPLE = ("Ann", "Bob", "Cid", "Dan")
LINKS = [f"{a},{b},{i / 8}" for i, (a, b) in enumerate(zip(PEOPLE, (*PEOPLE[1:], "Ann"), strict=True))]


def test_weighted_links_are_reported_for_any_number_of_facts(tmp_path: Path) -> None:
    from conjoin.io.ingest import ingest

    path = tmp_path / "links.csv"
    for links in (LINKS[:2], LINKS, [f"n{i},n{i * j % 60},{i}e-{j}" for i in range(60) for j in (1, 7)]):
        path.write_text("\n".join(links))
        (note,) = [note for note in read_graph(path).notes if "--columns 0,2,1" in note]
    made = ingest([path], tmp_path / "graph", memory=1 << 30, threads=1)
    assert note in made.notes


@pytest.mark.parametrize(
    "rows",
    [
        ["Ann,age,30", "Bob,age,31", "Ann,height,1.7"],
        [*LINKS, "Ann,knows,Bob"],
        ["0,1,2", "1,0,3", "2,1,0"],
        ["Ann,Bob,0.5", "Ann,Cid,0.5", "Ann,Dan,1"],
    ],
)
def test_numbers_alone_do_not_suggest_weighted_links(tmp_path: Path, rows: list[str]) -> None:
    path = tmp_path / "facts.csv"
    path.write_text("\n".join(rows))
    assert not any("--columns" in note for note in read_graph(path).notes)


@pytest.mark.parametrize("first", ["source,target,weight", "Subject ID,Object ID,x", "time,from,what"])
def test_header_words_are_reported_for_any_number_of_facts(tmp_path: Path, first: str) -> None:
    path = tmp_path / "links.csv"
    path.write_text("\n".join([first, *LINKS]))
    assert read(path, ReadOptions())[1].like_a_header == tuple(first.split(","))
    path.write_text("\n".join([first, *LINKS, f"{first.split(',', maxsplit=1)[0]},likes,Ann"]))
    assert read(path, ReadOptions())[1].like_a_header is None
    path.write_text("\n".join(["weight,Ann,Bob", *LINKS]))
    assert read(path, ReadOptions())[1].like_a_header is None


def test_header_without_spaces_fits_lines_with_spaces(tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text("head,relation,tail\na, r, b\nb, r, c\nc, r, a\n")
    (tmp_path / "valid.csv").write_text("b, r, a\n")
    graph = read_graph(tmp_path)
    assert (graph.relations.names, graph.entities.names) == (("r",), ("a", "b", "c"))
    triples, _ = read(tmp_path / "train.csv", ReadOptions())
    assert triples[0] == ("a", "r", "b")
