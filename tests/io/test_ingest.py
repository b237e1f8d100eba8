"""An ingest makes the graph that the ordinary readers make, whatever happens to it on the way."""

from __future__ import annotations

import gzip
import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conjoin.datasets.load import load
from conjoin.errors import GraphError, ProcessLost, UnknownName, UsageError
from conjoin.graph.graph import SPLITS, Graph
from conjoin.graph.mmap_names import MmapNames
from conjoin.io import stream
from conjoin.io.graph_store import open_graph, save_graph, write_record
from conjoin.io.ingest import ingest
from conjoin.io.rdf import LABELS
from conjoin.io.read_graph import read_graph
from conjoin.io.read_options import ReadOptions
from conjoin.io.write_split import write_split
from conjoin.runtime.atomic_files import sha256_of

ROOT = Path(__file__).resolve().parents[2]
SKIP = ReadOptions(on_error="skip")
MEMORY = 1 << 30


def lines(count: int, *, seed: int = 0) -> list[str]:
    chance = random.Random(seed)
    names = [f"{chance.choice('Qq é日')}{i}" for i in range(max(5, count // 8))]
    return [f"{chance.choice(names)}\tp{chance.randrange(7)}\t{chance.choice(names)}" for _ in range(count)]


def written(file: Path, rows: list[str]) -> Path:
    text = "".join(row + "\n" for row in rows).encode()
    file.write_bytes(gzip.compress(text) if file.suffix == ".gz" else text)
    return file


def contents(folder: Path) -> dict[str, str]:
    return {file.name: sha256(file.read_bytes()).hexdigest() for file in sorted(folder.iterdir())}


def assert_same(found: Graph, expected: Graph) -> None:
    assert found.checksum == expected.checksum
    assert found.notes == expected.notes
    for mine, theirs in ((found.entities, expected.entities), (found.relations, expected.relations)):
        assert tuple(mine.names) == tuple(theirs.names)
        assert [mine.label(i) for i in range(len(mine))] == [theirs.label(i) for i in range(len(theirs))]
    for split in SPLITS:
        assert np.array_equal(found.triples(split), expected.triples(split))


@pytest.mark.parametrize("suffix", [".tsv", ".csv", ".txt.gz", ".parquet", ".nt", ".nt.gz", ".ttl"])
def test_ingest_builds_the_same_graph_as_the_readers(tmp_path: Path, suffix: str) -> None:
    rows = lines(800)
    if suffix == ".parquet":
        file = tmp_path / "facts.parquet"
        columns = zip(*(row.split("\t") for row in rows), strict=True)
        pq.write_table(pa.table(dict(zip(("head", "relation", "tail"), map(list, columns), strict=True))), file)
    elif suffix.startswith((".nt", ".ttl")):
        cells = [[c.replace(" ", "_") for c in row.split("\t")] for row in rows]
        facts = [f"<http://x/{h}> <http://x/{r}> <http://x/{t}> ." for h, r, t in cells]
        facts += ["_:b1 <http://x/p0> <http://x/Q1> .", "# a comment", "", "_:b1 <http://x/p1> _:b2 ."]
        facts += [
            f'<http://x/{cells[0][0]}> <http://www.w3.org/2000/01/rdf-schema#label> "{w}"@{w} .'
            for w in ("de", "en", "fr")
        ]
        facts += [f'<http://x/{cells[0][1]}> <http://www.w3.org/2000/01/rdf-schema#label> "called" .']
        file = written(tmp_path / f"facts{suffix}", facts)
    else:
        file = written(tmp_path / f"facts{suffix}", [r.replace("\t", "," if suffix == ".csv" else "\t") for r in rows])
    made = ingest([file], tmp_path / "graph", memory=MEMORY, threads=1)
    assert_same(load(made.folder), load(file))
    assert made.counts["train"] == len(load(file).train)


def test_ingest_counts_bad_lines_with_their_line_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "BLOCK_BYTES", 500)
    rows = lines(300)
    rows[17], rows[100], rows[101], rows[250] = "two\tcells", "a\t \tb", "", "a\tb\0\tc"
    file = written(tmp_path / "facts.tsv", rows)
    file.write_bytes(file.read_bytes() + b"bad\t\xff\tutf\nlast\tp1\tQ1")
    made = ingest([file], tmp_path / "graph", options=SKIP, memory=MEMORY, threads=1)
    expected = load(file, options=SKIP)
    assert_same(load(made.folder), expected)
    (report,) = made.reports
    assert report.problems == {"wrong number of columns": 1, "empty name": 1, "NUL byte": 1, "bad UTF-8": 1}
    assert [sample.line for sample in report.samples] == [18, 101, 251, 301]
    assert report.blank_lines == 1
    assert report.lines == 302
    with pytest.raises(GraphError, match=r"facts\.tsv:18: "):
        ingest([file], tmp_path / "other", memory=MEMORY)
    assert sorted(f.name for f in tmp_path.iterdir()) == ["facts.tsv", "graph"]


@settings(max_examples=25, deadline=None)
@given(
    text=st.lists(
        st.text(
            st.sampled_from(["a", "b", "\t", "\t", "\t", "\n", "\n", " ", "\r", '"', ",", "\0", "é", "\u2003"]),
            max_size=60,
        ),
        min_size=1,
        max_size=3,
    ),
    suffix=st.sampled_from([".tsv", ".csv"]),
    block=st.sampled_from([5, 20, 1000]),
)
def test_ingest_reads_any_text_like_read_triples(
    tmp_path_factory: pytest.TempPathFactory, text: list[str], suffix: str, block: int
) -> None:
    from conjoin.io.readers import read_triples

    file = tmp_path_factory.mktemp("any") / f"facts{suffix}"
    body = "".join(text) + "\nx\ty\tz\nx,y,z\n"
    file.write_bytes(body.encode())
    taken: list[tuple[str, str, str]] = []
    before, stream.BLOCK_BYTES = stream.BLOCK_BYTES, block
    try:
        report = stream.stream_triples(
            file,
            SKIP,
            lambda b: taken.extend(zip(*(b.column(i).to_pylist() for i in range(3)), strict=True)),
            scope="train",
        )
    finally:
        stream.BLOCK_BYTES = before
    expected, expected_report = read_triples(file, SKIP, may_be_empty=True)
    assert taken == list(expected)
    assert report == expected_report


def test_columns_headers_and_several_files(tmp_path: Path) -> None:
    options = ReadOptions(columns=("s", "p", "o"))
    one = written(tmp_path / "one.csv", ["n,o,s,p", "1,b,a,r", '2,"c, d",a,r'])
    two = written(tmp_path / "two.csv", ["n,o,s,p", "1,b,a,r", "3,e,b,r"])
    made = ingest([one, two], tmp_path / "graph", options=options, valid=0, test=0, memory=MEMORY, threads=1)
    graph = load(made.folder)
    assert tuple(graph.entities.names) == ("a", "b", "c, d", "e")
    assert graph.train.tolist() == [[0, 0, 1], [0, 0, 2], [1, 0, 3]]
    assert graph.notes[-1].startswith("1 ")


def test_a_folder_keeps_its_splits(tmp_path: Path) -> None:
    folder = tmp_path / "given"
    folder.mkdir()
    written(folder / "train.tsv", ["b\tr\ta", "a\tr\tb", "a\tr\tb"])
    written(folder / "test.tsv", ["a\tr\tc"])
    written(folder / "entity_labels.tsv", ["a\tAnna"])
    graph = load(ingest([folder], tmp_path / "graph", memory=MEMORY, threads=1).folder)
    assert graph.train.tolist() == [[0, 0, 1], [1, 0, 0]]
    assert (len(graph.valid), graph.test.tolist()) == (0, [[0, 0, 2]])
    assert graph.entities.label(0) == "Anna"
    assert graph.entities.find("anna") == 0


@pytest.mark.slow
def test_a_script_needs_no_guard_for_the_processes_that_parse(tmp_path: Path) -> None:
    written(tmp_path / "facts.nt", [f"<urn:{i}> <urn:r> <urn:{i + 1}> ." for i in range(300)])
    script = tmp_path / "script.py"
    script.write_text(
        "from conjoin.io.ingest import ingest\n"
        "print('begun', flush=True)\n"
        "print(ingest(['facts.nt'], 'graph', threads=2).counts['entities'])\n",
        encoding="utf-8",
    )
    done = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.stdout.split(), done.stderr) == (["begun", "301"], "")


def test_killed_parsing_process_raises_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "BLOCK_BYTES", 1000)
    file = written(tmp_path / "facts.nt", [f"<urn:{i}> <urn:r> <urn:{i + 1}> ." for i in range(300)])

    def killing(steps: Iterable[Any], what: str, total: int | None) -> Iterator[Any]:
        for step in steps:
            yield step
            for child in multiprocessing.active_children():
                child.kill()

    with pytest.raises(ProcessLost, match=r"threads=1 \(--threads 1\)"):
        ingest([file], tmp_path / "graph", threads=2, memory=MEMORY, track=killing)
    assert [path.name for path in tmp_path.iterdir()] == ["facts.nt"]


def test_threads_and_memory_change_no_byte(tmp_path: Path) -> None:
    file = written(tmp_path / "facts.tsv", lines(3000))
    first = contents(ingest([file], tmp_path / "one", threads=1, memory=MEMORY).folder)
    assert contents(ingest([file], tmp_path / "two", threads=2, memory=600 << 20).folder) == first
    assert contents(ingest([file], tmp_path / "two", threads=2, memory=MEMORY, overwrite=True).folder) == first
    other = contents(ingest([file], tmp_path / "seed", seed=1, memory=MEMORY).folder)
    assert other["entities.parquet"] == first["entities.parquet"]
    assert other["test.npy"] != first["test.npy"]


@pytest.mark.slow
def test_several_processes_read_ntriples_like_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "BLOCK_BYTES", 4000)
    facts = [f"<http://x/{i % 97}> <http://x/p> _:b{i % 7} ." for i in range(400)]
    facts[150] = "<broken"
    file = written(tmp_path / "facts.nt", facts)
    one = ingest([file], tmp_path / "one", options=SKIP, threads=1, memory=MEMORY)
    two = ingest([file], tmp_path / "two", options=SKIP, threads=2, memory=MEMORY)
    assert contents(one.folder) == contents(two.folder)
    assert one.reports == two.reports
    assert [sample.line for sample in two.reports[0].samples] == [151]
    assert two.reports[0].blank_nodes == 7


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="no SIGKILL")
def test_ingest_can_be_repeated_after_a_kill_at_any_moment(tmp_path: Path) -> None:
    file = written(tmp_path / "facts.tsv", lines(4000))
    expected = contents(ingest([file], tmp_path / "undisturbed", memory=MEMORY).folder)
    target = tmp_path / "graph"
    script = (
        "import sys; from conjoin.io.ingest import ingest; print('ready', flush=True);"
        "ingest([sys.argv[1]], sys.argv[2], memory=1 << 30, threads=1, overwrite=True)"
    )
    chance = random.Random(5)
    for _ in range(4):
        words = [sys.executable, "-c", script, str(file), str(target)]
        with subprocess.Popen(
            words, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(ROOT / "src")}
        ) as work:
            assert work.stdout
            assert work.stdout.readline() == b"ready\n"
            time.sleep(chance.random() * 0.8)
            work.send_signal(signal.SIGKILL)
        if target.exists():
            assert contents(target) == expected, "a graph that is there is whole"
    assert contents(ingest([file], target, memory=MEMORY, overwrite=True).folder) == expected
    assert sorted(f.name for f in tmp_path.iterdir()) == ["facts.tsv", "graph", "undisturbed"]


def test_ingest_refuses_a_busy_or_foreign_folder(tmp_path: Path) -> None:
    from conjoin.io.ingest import _alone

    file = written(tmp_path / "facts.tsv", lines(50))
    with _alone(tmp_path / "graph"), pytest.raises(UsageError, match="graph"):
        ingest([file], tmp_path / "graph", memory=MEMORY)
    folder = ingest([file], tmp_path / "graph", memory=MEMORY).folder
    with pytest.raises(UsageError, match="--overwrite"):
        ingest([file], folder, memory=MEMORY)
    with pytest.raises(UsageError, match=str(folder)):
        ingest([folder], tmp_path / "more", memory=MEMORY)
    with pytest.raises(UsageError, match="512 MiB"):
        ingest([file], tmp_path / "more", memory=1 << 20)
    with pytest.raises(UsageError, match=str(file)):
        ingest([file, file], tmp_path / "more", memory=MEMORY)
    with pytest.raises(GraphError, match=r"none\.tsv"):
        ingest([tmp_path / "none.tsv"], tmp_path / "more", memory=MEMORY)
    (tmp_path / "strange").mkdir()
    (tmp_path / "strange" / "precious.txt").write_text("mine")
    with pytest.raises(GraphError, match="precious"):
        ingest([file], tmp_path / "strange", memory=MEMORY, overwrite=True)
    assert not list(tmp_path.glob(".*"))


def test_refused_ingest_leaves_no_new_folder(tmp_path: Path) -> None:
    file = written(tmp_path / "facts.tsv", ["a\tr\tb", "broken"])
    (tmp_path / "there").mkdir()
    for target in ("new/deep/graph", "there/graph"):
        with pytest.raises(GraphError, match=r"facts\.tsv:2: "):
            ingest([file], tmp_path / target, memory=MEMORY)
    assert sorted(f.name for f in tmp_path.rglob("*")) == ["facts.tsv", "there"]


def test_names_stay_on_disk_and_can_be_looked_up(tmp_path: Path) -> None:
    file = written(tmp_path / "facts.tsv", lines(2000))
    graph = load(ingest([file], tmp_path / "graph", memory=MEMORY).folder)
    assert isinstance(graph.train, np.memmap)
    names = graph.entities.names
    assert isinstance(names, MmapNames)
    assert list(names) == sorted(names)
    assert names[-1] == tuple(names)[-1]
    assert names[1:3] == tuple(names)[1:3]
    assert all(graph.entities.find(name) == i for i, name in enumerate(names))
    assert "nobody" not in graph.entities.index
    with pytest.raises(UnknownName, match=names[3]):
        graph.entities.find(names[3] + "0")


def test_saved_copy_shares_files_and_opens_without_the_original(tmp_path: Path) -> None:
    file = written(tmp_path / "facts.tsv", lines(500))
    home = ingest([file], tmp_path / "graph", memory=MEMORY).folder
    copied = save_graph(load(home), tmp_path / "copy")
    assert (copied / "train.npy").samefile(home / "train.npy")
    expected = contents(home)
    ingest([written(tmp_path / "facts.tsv", lines(500, seed=9))], home, memory=MEMORY, overwrite=True)
    assert contents(copied) == expected
    assert open_graph(copied).checksum != open_graph(home).checksum


def test_partially_labelled_relations_are_found_split_and_kept(tmp_path: Path) -> None:
    label = f'<http://x/r0> <{LABELS[0]}> "borders"@en .'
    facts = [f"<http://x/e{i}> <http://x/r{i % 3}> <http://x/e{7 * i % 20}> ." for i in range(40)]
    file = written(tmp_path / "facts.nt", [*facts, label])
    home = ingest([file], tmp_path / "graph", memory=MEMORY, threads=1).folder
    graph = open_graph(home)
    assert graph.relations.labels == ("borders", "", "")
    with pytest.raises(UnknownName, match=r"bordres.*borders"):
        graph.relations.find("bordres")
    assert load(write_split(graph, tmp_path / "split").folder).relations.labels == ("borders", "", "")
    named = read_graph(home, relation_labels={"http://x/r1": "likes"})
    assert open_graph(save_graph(named, tmp_path / "named")).relations.labels == ("borders", "likes", "")


def test_reordered_arrays_are_saved_as_a_new_graph(tmp_path: Path) -> None:
    graph = load(ingest([written(tmp_path / "facts.tsv", lines(500))], tmp_path / "graph", memory=MEMORY).folder)
    turned = replace(graph, train=graph.train[::-1])
    assert open_graph(save_graph(turned, tmp_path / "turned")).checksum == turned.checksum != graph.checksum


@pytest.mark.parametrize(
    "file", ["train.npy", "entity_names.npy", "entity_starts.npy", "graph.json", "relations.parquet"]
)
def test_damage_is_noticed(tmp_path: Path, file: str) -> None:
    home = ingest([written(tmp_path / "facts.tsv", lines(100))], tmp_path / "graph", memory=MEMORY).folder
    place = home / file
    damaged = bytearray(place.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    place.write_bytes(damaged)
    with pytest.raises(GraphError, match=file):
        open_graph(home)
    place.unlink()
    with pytest.raises(GraphError):
        open_graph(home)


def test_an_array_in_another_version_of_the_format_is_refused(tmp_path: Path) -> None:
    """A checksum that fits does not make a file ours."""
    home = ingest([written(tmp_path / "facts.tsv", lines(50))], tmp_path / "graph", memory=MEMORY).folder
    train = np.load(home / "train.npy")
    with (home / "train.npy").open("wb") as file:
        np.lib.format.write_array(file, train, version=(2, 0))
    record = json.loads((home / "graph.json").read_text(encoding="utf-8"))
    record["files"]["train.npy"] = sha256_of(home / "train.npy")
    del record["sha256"]
    write_record(home, record)
    with pytest.raises(GraphError, match=r"train\.npy"):
        open_graph(home)


def test_split_in_bands_equals_split_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from conjoin.graph import split_groups

    file = written(tmp_path / "facts.tsv", lines(1500))
    expected = load(file)
    monkeypatch.setattr(split_groups, "BAND", 200)
    monkeypatch.setattr(split_groups, "PIECE", 37)
    assert_same(load(ingest([file], tmp_path / "graph", memory=MEMORY).folder), expected)


def test_graph_is_restored_after_a_killed_replacement(tmp_path: Path) -> None:
    file = written(tmp_path / "facts.tsv", lines(100))
    home = ingest([file], tmp_path / "graph", memory=MEMORY).folder
    expected = contents(home)
    home.rename(tmp_path / ".graph.ingest.old")
    with pytest.raises(GraphError, match=r"none\.tsv"):
        ingest([written(tmp_path / "none.tsv", [])], home, memory=MEMORY)
    assert contents(home) == expected
    assert not list(tmp_path.glob(".*"))
