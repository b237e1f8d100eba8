"""A model taken elsewhere says the same."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

import conjoin
from conjoin.errors import RunError, UnknownName, UsageError
from conjoin.graph.graph import Graph
from conjoin.runs.execute import execute
from conjoin.runs.export import FORMATS, export
from conjoin.runs.run import Run
from conjoin.runs.save import save_run
from conjoin.training.recipe import Recipe

FACTS = [("New York", "lies in", "États-Unis"), ("Lima", "lies in", "Peru"), ("Peru", "near", "Lima")]
GRAPH = Graph.from_triples(FACTS, FACTS[:1], [], labels={"Lima": "Ciudad de los Reyes"}, name="places")


def trained(folder: Path, graph: Graph = GRAPH, **settings: int) -> Path:
    recipe = Recipe(epochs=2, batch=4, validate_every=1)
    return execute(Run.of(graph, "5star-conj", rank=4, recipe=recipe, **settings), graph, folder).path  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained(tmp_path_factory.mktemp("runs") / "places")


@pytest.mark.parametrize("weights", [None, "last", "best"])
def test_a_bundle_opens_elsewhere_and_answers_the_same(run: Path, tmp_path: Path, weights: str | None) -> None:
    written = export(run, tmp_path / "bundle", weights=weights)
    assert all(file.exists() for file in written)
    shutil.move(tmp_path / "bundle", tmp_path / "far away")
    there = conjoin.open(tmp_path / "far away")
    from conjoin.predict.predictor import open_run

    here = open_run(run, weights=weights)
    for question in (("New York", "lies in", None), (None, "near", "Lima"), ("Peru", None, "Lima")):
        assert there.ask(*question) == here.ask(*question)
    assert there.similar("Peru") == here.similar("Peru")
    assert there.graph.checksum == GRAPH.checksum
    names = {file.name for file in (tmp_path / "far away").iterdir()}
    model = "best.safetensors" if weights == "best" else "model.safetensors"
    assert names == {"run.json", "result.json", "graph", "README.md", model}


def test_the_card_names_the_folder_and_the_numbers(run: Path, tmp_path: Path) -> None:
    export(run, tmp_path / "my bundle")
    card = (tmp_path / "my bundle" / "README.md").read_text(encoding="utf-8")
    assert "conjoin.open('my bundle')" in card
    assert "FiveStar(c=conj(b), d=conj(a)) on places" in card
    assert "| test | - | - | - | - |" in card
    assert str(run.parent) not in card


def test_an_export_can_be_repeated_but_not_mixed(run: Path, tmp_path: Path) -> None:
    export(run, tmp_path / "bundle")
    export(run, tmp_path / "bundle")
    other = trained(tmp_path / "other", seed=1)
    with pytest.raises(UsageError, match="bundle"):
        export(other, tmp_path / "bundle")
    assert conjoin.open(tmp_path / "bundle").ask("Lima", "near") == conjoin.open(run).ask("Lima", "near")


@pytest.mark.parametrize("mine", ["README.md", "graph"])
def test_a_bundle_does_not_overwrite_other_files(run: Path, tmp_path: Path, mine: str) -> None:
    (tmp_path / mine).write_text("mine", encoding="utf-8")
    with pytest.raises(UsageError, match=mine):
        export(run, tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == [mine]
    assert (tmp_path / mine).read_text(encoding="utf-8") == "mine"


@pytest.mark.parametrize(("format", "name"), [("parquet", "relations.parquet"), ("word2vec", "entities.txt")])
def test_tables_overwrite_only_an_earlier_export(run: Path, tmp_path: Path, format: str, name: str) -> None:
    export(run, tmp_path, format=format)
    before = (tmp_path / name).read_bytes()
    others = Graph.from_triples([("a", "r", "b"), ("b", "s", "c"), ("c", "s", "d")], [("a", "r", "b")])
    theirs = export(trained(tmp_path / "runs" / "others", others), tmp_path / "theirs", format=format)
    foreign = [b"mine", b"", b"PAR1", next(file.read_bytes() for file in theirs if file.name == name)]
    for content in foreign:
        (tmp_path / name).write_bytes(content)
        with pytest.raises(UsageError, match=name):
            export(run, tmp_path, format=format)
        assert (tmp_path / name).read_bytes() == content
    (tmp_path / name).unlink()
    (tmp_path / name).mkdir()
    with pytest.raises(UsageError, match=name):
        export(run, tmp_path, format=format)
    (tmp_path / name).rmdir()
    export(trained(tmp_path / "runs" / "seed-1", seed=1), tmp_path, format=format)
    assert (tmp_path / name).read_bytes() != before
    export(run, tmp_path, format=format)
    assert (tmp_path / name).read_bytes() == before


def test_parquet_holds_names_labels_and_rows(run: Path, tmp_path: Path) -> None:
    entities, relations = (pq.read_table(file) for file in export(run, tmp_path, format="parquet"))
    model = conjoin.open(run).model
    assert entities.column("name").to_pylist() == list(GRAPH.entities.names)
    assert "Ciudad de los Reyes" in entities.column("label").to_pylist()
    assert np.array_equal(np.array(entities.column("row").to_pylist(), np.float32), model.entities.weight.numpy())
    assert relations.column("name").to_pylist() == ["lies in", "near", "lies in (reciprocal)", "near (reciprocal)"]
    assert np.array_equal(np.array(relations.column("row").to_pylist(), np.float32), model.relations.detach().numpy())


def test_word2vec_text_reads_back_exactly(run: Path, tmp_path: Path) -> None:
    model = conjoin.open(run).model
    for file, table in zip(
        export(run, tmp_path, format="word2vec"), (model.entities.weight, model.relations.detach()), strict=True
    ):
        head, *lines = file.read_text(encoding="utf-8").splitlines()
        assert head == f"{len(table)} {table.shape[1]}"
        words = [line.split(" ")[0] for line in lines]
        rows = np.array([line.split(" ")[1:] for line in lines]).astype(np.float32)
        assert np.array_equal(rows, table.numpy())
        assert len(set(words)) == len(words)
    assert "New_York" in (tmp_path / "entities.txt").read_text(encoding="utf-8")


def test_names_that_are_equal_in_word2vec_text_are_refused(tmp_path: Path) -> None:
    graph = Graph.from_triples([("a b", "r", "a_b")])
    run = execute(Run.of(graph, "complex", rank=2, recipe=Recipe(epochs=1)), graph, tmp_path / "run").path
    with pytest.raises(UsageError, match="'a b' and 'a_b'"):
        export(run, tmp_path / "out", format="word2vec")
    assert not (tmp_path / "out").exists()
    assert export(run, tmp_path / "out", format="parquet")


def test_refused_relation_names_leave_no_file_of_entities(tmp_path: Path) -> None:
    graph = Graph.from_triples([("a", "r s", "b"), ("b", "r_s", "c")])
    run = execute(Run.of(graph, "complex", rank=2, recipe=Recipe(epochs=1)), graph, tmp_path / "run").path
    with pytest.raises(UsageError, match="'r s' and 'r_s'"):
        export(run, tmp_path / "deep" / "out", format="word2vec")
    assert [file.name for file in tmp_path.iterdir()] == ["run"]


def test_impossible_exports_are_refused(run: Path, tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match=r"parqet.*parquet"):
        export(run, tmp_path, format="parqet")
    with pytest.raises(UsageError, match=run.name):
        export(run, run / ".." / run.name)
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="file"):
        export(run, tmp_path / "file")
    for format in FORMATS:
        with pytest.raises(RunError, match="nowhere"):
            export(tmp_path / "nowhere", tmp_path / "out", format=format)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("format", FORMATS)
def test_a_damaged_run_is_not_exported(run: Path, tmp_path: Path, format: str) -> None:
    bad = Path(shutil.copytree(run, tmp_path / "bad"))
    content = bytearray((bad / "model.safetensors").read_bytes())
    content[-3] ^= 1
    (bad / "model.safetensors").write_bytes(content)
    with pytest.raises(RunError, match=r"model\.safetensors"):
        export(bad, tmp_path / "out", format=format)
    assert not (tmp_path / "out").exists()


def test_a_damaged_calibration_leaves_no_empty_folder(run: Path, tmp_path: Path) -> None:
    bad = Path(shutil.copytree(run, tmp_path / "bad"))
    (bad / "calibration.json").write_text("{}", encoding="utf-8")
    with pytest.raises(RunError, match=r"calibration\.json"):
        export(bad, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("format", ["parquet", "word2vec"])
def test_tables_of_a_model_of_float64_are_in_float32_too(tmp_path: Path, format: str) -> None:
    model = conjoin.Model("5star-conj", GRAPH.n_entities, GRAPH.n_relations, rank=4, dtype=torch.float64)
    model.state_dict()["relations"].div_(3)
    long, short = (
        save_run(model.to(dtype), GRAPH, tmp_path / str(dtype), origin="elsewhere", epochs=1)
        for dtype in (torch.float64, torch.float32)
    )
    for one, other in zip(
        export(long, tmp_path / "a", format=format), export(short, tmp_path / "b", format=format), strict=True
    ):
        assert one.read_bytes() == other.read_bytes()
