"""Graphs from folders and single files."""

from __future__ import annotations

import gzip
from dataclasses import replace
from pathlib import Path

import pytest
from tests.benchmarks import benchmark_folder

from conjoin.errors import GraphError
from conjoin.graph.graph import Graph
from conjoin.io.graph_store import save_graph
from conjoin.io.read_graph import UNSPLIT, read_graph, split_files
from conjoin.io.read_options import ReadOptions

SKIP = ReadOptions(on_error="skip")


def fill(folder: Path, files: dict[str, str]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        content = text.encode()
        (folder / name).write_bytes(gzip.compress(content) if name.lower().endswith(".gz") else content)
    return folder


SPLITS = {"train.txt": "a\tr\tb\nb\tr\tc\n", "valid.txt": "c\ts\ta\n", "test.txt": "a\tr\tnew\n"}


@pytest.mark.parametrize(
    ("train", "valid", "test"),
    [
        ("train.txt", "valid.txt", "test.txt"),
        ("Train.TXT.gz", "VALIDATION.tsv", "Test.Tsv.GZ"),
        ("train.tsv", "dev.txt", "test.txt.gz"),
        ("train.txt", "val.txt", "test.txt"),
        ("train", "Valid", "test.gz"),
    ],
)
def test_split_files_are_found_under_every_accepted_name(tmp_path: Path, train: str, valid: str, test: str) -> None:
    texts = dict(zip((train, valid, test), SPLITS.values(), strict=True))
    extra = {"README.md": "", "train2id.txt": "junk", ".train.txt": "junk", "train.json": "{}", "test.txt.md5": "0"}
    graph = read_graph(fill(tmp_path / "wn18rr", texts | extra))
    assert graph.name == "wn18rr"
    assert graph.entities.names == ("a", "b", "c", "new")
    assert graph.relations.names == ("r", "s")
    assert graph.train.tolist() == [[0, 0, 1], [1, 0, 2]]
    assert graph.valid.tolist() == [[2, 1, 0]]
    assert graph.test.tolist() == [[0, 0, 3]]
    assert graph.unseen.tolist() == [3]
    assert graph.notes == ()
    assert set(split_files(tmp_path / "wn18rr")) == {"train", "valid", "test"}


def test_formats_may_differ_between_splits(tmp_path: Path) -> None:
    folder = fill(tmp_path, {"train.csv": "a,r,b\n", "test.nt": "<http://e/a> <http://e/r> <http://e/b> .\n"})
    graph = read_graph(folder, name="mixed")
    assert graph.name == "mixed"
    assert graph.entities.names == ("a", "b", "http://e/a", "http://e/b")
    (note,) = graph.notes
    assert "valid" in note
    assert graph.valid.shape == (0, 3)


def test_empty_splits_are_noted_but_train_must_have_triples(tmp_path: Path) -> None:
    folder = fill(tmp_path, {"train.txt": "a\tr\tb\n", "valid.txt": "", "test.txt": "\n"})
    graph = read_graph(folder)
    assert [note.partition(": ")[0] for note in graph.notes] == [
        str(folder / name) for name in ("test.txt", "valid.txt", "test.txt")
    ]
    fill(tmp_path, {"train.txt": ""})
    with pytest.raises(GraphError, match=r"train\.txt"):
        read_graph(folder)


def test_folder_without_train_is_refused_with_a_list_of_its_files(tmp_path: Path) -> None:
    with pytest.raises(GraphError, match=r"one.*\.txt, \.tsv, .*test\.txt, train\.json.*`conjoin ingest`"):
        read_graph(fill(tmp_path / "one", {"test.txt": "a\tr\tb\n", "train.json": ""}))
    with pytest.raises(GraphError, match="two"):
        read_graph(fill(tmp_path / "two", {}))
    with pytest.raises(GraphError, match="three"):
        read_graph(tmp_path / "three")
    with pytest.raises(GraphError, match="aaaa"):
        read_graph("a" * 5000)


@pytest.mark.parametrize("twin", ["train.txt.gz", "TRAIN.csv"])
def test_two_files_for_one_split_are_refused(tmp_path: Path, twin: str) -> None:
    with pytest.raises(GraphError, match=rf"{twin}.*train\.txt|train\.txt.*{twin}"):
        read_graph(fill(tmp_path, SPLITS | {twin: "x,y,z\n"}))
    with pytest.raises(GraphError, match=r"dev\.txt and valid\.txt"):
        split_files(fill(tmp_path / "b", SPLITS | {"dev.txt": ""}))


def test_a_file_with_a_suffix_comes_before_one_without(tmp_path: Path) -> None:
    folder = fill(tmp_path, SPLITS | {"train": "binary junk", "test": "junk"})
    assert {file.name for file in split_files(folder).values()} == set(SPLITS)


def test_labels_beside_the_splits_are_found(tmp_path: Path) -> None:
    labels = {"entity_labels.tsv.gz": "a\tApple\tmore\nzz\tunused\n", "Relation_Labels.tsv": "r\trelates to\n"}
    graph = read_graph(fill(tmp_path, SPLITS | labels))
    assert [graph.entities.label(i) for i in range(4)] == ["Apple", "b", "c", "new"]
    assert [graph.relations.label(i) for i in range(2)] == ["relates to", "s"]
    assert graph.entities.find("apple") == 0
    other = fill(tmp_path / "other", {"names.csv": "a,Avocado\n"}) / "names.csv"
    assert read_graph(tmp_path, labels=other).entities.label(0) == "Avocado"
    assert read_graph(tmp_path, labels={"b": "Banana"}, relation_labels={}).entities.label(1) == "Banana"
    fill(tmp_path, {"entity_labels.tsv": "a\tB\n"})
    with pytest.raises(GraphError, match=r"entity_labels\.tsv and entity_labels\.tsv\.gz"):
        read_graph(tmp_path)


def test_bad_lines_are_in_the_notes_of_the_graph(tmp_path: Path) -> None:
    folder = fill(tmp_path, SPLITS | {"valid.txt": "x\ty\nc\ts\ta\n", "entity_labels.tsv": "a\tA\nb\n"})
    with pytest.raises(GraphError, match=r"valid\.txt:1: "):
        read_graph(folder)
    notes = read_graph(folder, options=SKIP).notes
    assert len(notes) == 2
    assert "valid.txt:1: " in notes[0]
    assert "entity_labels.tsv:2: " in notes[1]


def test_blank_nodes_of_two_files_stay_separate_and_labels_merge(tmp_path: Path) -> None:
    label = "http://www.w3.org/2000/01/rdf-schema#label"
    line = "_:b0 <http://e/r> <http://e/a> .\n"
    graph = read_graph(
        fill(
            tmp_path,
            {"train.nt": line, "test.ttl": line + f'<http://e/a> <{label}> "A" . <http://e/r> <{label}> "R" .'},
        )
    )
    assert graph.entities.names == ("_:test.b0", "_:train.b0", "http://e/a")
    assert graph.entities.label(2) == "A"
    assert graph.relations.label(0) == "R"
    assert sum("blank node" in note for note in graph.notes) == 3, "one for each file, one for both"
    fill(tmp_path, {"entity_labels.tsv": "http://e/a\tthe file's\n"})
    assert read_graph(tmp_path).entities.label(2) == "the file's"


def test_single_file_becomes_train(tmp_path: Path) -> None:
    path = fill(tmp_path, {"My Facts.tsv.gz": "a\tr\tb\nb\tr\tc\n"}) / "My Facts.tsv.gz"
    graph = read_graph(path)
    assert (graph.name, len(graph.train), len(graph.valid), len(graph.test)) == ("My Facts", 2, 0, 0)
    assert graph.notes == (UNSPLIT,)

    def last_is_test(whole: Graph) -> Graph:
        return replace(whole, train=whole.train[:1], test=whole.train[1:], notes=("mine",))

    graph = read_graph(path, split=last_is_test)
    assert (len(graph.train), len(graph.test), graph.notes) == (1, 1, ("mine",))
    folder = fill(tmp_path / "folder", SPLITS)
    assert len(read_graph(folder, split=last_is_test).train) == 2


def test_options_reach_every_file(tmp_path: Path) -> None:
    folder = fill(tmp_path, {"train.txt": "1;a;r;b\n", "test.txt": "2;b;r;a\n"})
    graph = read_graph(folder, options=ReadOptions(columns=(1, 2, 3), delimiter=";"))
    assert graph.entities.names == ("a", "b")


def test_stored_graph_is_read_like_any_other(tmp_path: Path) -> None:
    graph = replace(read_graph(fill(tmp_path / "text", SPLITS)), notes=("kept",))
    save_graph(graph, tmp_path / "stored")
    again = read_graph(tmp_path / "stored")
    assert (again.checksum, again.name, again.notes) == (graph.checksum, "text", ("kept",))
    renamed = read_graph(tmp_path / "stored", name="other", labels={"a": "Apple"}, relation_labels={"r": "is"})
    assert (renamed.name, renamed.entities.label(0), renamed.entities.label(1)) == ("other", "Apple", "b")
    assert renamed.relations.label(0) == "is"
    assert renamed.checksum == graph.checksum


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("UMLS", (135, 46, 5_216, 652, 661)),
        ("WN18RR", (40_943, 11, 86_835, 3_034, 3_134)),
    ],
)
def test_benchmark_folders_have_their_published_counts(name: str, counts: tuple[int, ...]) -> None:
    folder = benchmark_folder(name)
    graph = read_graph(folder)
    found = graph.n_entities, graph.n_relations, len(graph.train), len(graph.valid), len(graph.test)
    assert found == counts
    assert graph.notes == ()
    if name == "WN18RR" and any(folder.glob("entity_labels*")):  # a download has no labels
        assert graph.entities.label(0) == "breathe.v.01"
